"""The figures of queues, applications and nodes, and their orders, which are kept up to date with each change."""
