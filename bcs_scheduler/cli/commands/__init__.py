"""The commands of `bcs`. The table of all of them is in bcs_scheduler.cli.main."""
