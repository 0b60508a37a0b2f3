"""`bcs dump`: the state of the cluster in one file."""
