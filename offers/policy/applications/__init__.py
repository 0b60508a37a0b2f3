"""The manager's side of the placement policies: the life of applications and their tasks, gangs, the gate, recovery."""
