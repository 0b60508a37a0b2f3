"""Table columns, lists, descriptions and changes of each kind of object. `registry` has the tables by kind."""
