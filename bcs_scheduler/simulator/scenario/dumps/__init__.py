"""A file of `bcs dump` as the start of a scenario: its format, its objects, and its workloads."""
