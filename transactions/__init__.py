"""The life of every operation. Pure: state in, changes and demands out."""
