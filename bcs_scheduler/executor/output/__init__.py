"""The output of tasks: files that are rotated, and an index of order and time."""
