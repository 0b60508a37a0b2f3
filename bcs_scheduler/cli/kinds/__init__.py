"""What each kind of object needs: table columns, lists, descriptions, changes. `registry` has the tables by kind."""
