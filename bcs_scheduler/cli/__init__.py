"""`bcs`, the command line. The rooms, from top to bottom: `commands` (one module per verb), `kinds` (tables
and lists of one kind of object), `documents`, `output`, `client` (the HTTP API)."""
