"""The inputs of a simulation: agents, records at the start, and a load."""
