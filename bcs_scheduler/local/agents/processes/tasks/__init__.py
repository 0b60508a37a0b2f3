"""Tasks as real processes: of a group, of a command, and their health checks."""
