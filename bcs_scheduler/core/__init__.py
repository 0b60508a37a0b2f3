"""The deciding part of the scheduler: inputs in, changes and effects out. No clock, no threads, no I/O."""
