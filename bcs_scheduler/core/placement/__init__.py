"""Placement: plans of demands on agents, and launches of planned taskgroups."""
