"""`bcs dump`: the state of the cluster in one file. `bcs simulate`: a simulation that begins with this state."""
