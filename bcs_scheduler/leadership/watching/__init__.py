"""Watchers of durable changes: the hub of a term, the items that it hands out, and the objects that changes concern."""
