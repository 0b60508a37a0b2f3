"""Where work can go: resources, constraints and the batch matcher. Pure: no I/O, no clock, no records."""
