"""Documents given with -f, and the operations on them that a kind implements."""
