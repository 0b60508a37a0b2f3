"""A second simulated world: agents that are always there, which this scheduler shares with others.

What it proves, and what keeps the real core out of it: docs/decisions/0023-standing-capacity.md.
"""
