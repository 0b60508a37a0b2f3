"""What a change would do: differences, and one plan of several documents."""
