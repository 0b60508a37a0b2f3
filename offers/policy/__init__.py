"""Placement policies: which pending work gets room next, on which agent, and which tasks may be evicted for it."""
