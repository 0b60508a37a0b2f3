"""Placement policies: which pending work gets room next, on which agent, and what may be evicted for it."""
