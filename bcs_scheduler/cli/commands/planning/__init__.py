"""The effects of a change before it is made: differences, and one plan of several documents."""
