"""The decision log: inputs and decisions of the core in files, and their replay (decision 54)."""
