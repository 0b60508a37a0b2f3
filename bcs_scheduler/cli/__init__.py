"""`bcs`, the command line. The rooms, from top to bottom: `commands` (one module per verb), `kinds` (what one kind of
object needs), `documents`, `output`, `client` (the HTTP API)."""
