"""What is being done: the life of every operation. Pure: state in, changes and demands out."""
