"""The placement of work on agents: resources, constraints and the batch matcher. Pure: no I/O, no clock, no records."""
