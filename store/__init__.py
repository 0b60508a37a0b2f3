"""The durable state: records, the in-memory state, and the stores that make it durable.

This room knows nothing of the cluster manager, HTTP or placement, and imports nothing else of the project.
"""
