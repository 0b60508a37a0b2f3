"""Objects of placement policies: queues, priority classes, groups."""
