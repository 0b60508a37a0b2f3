"""The objects of the embedded cluster: frameworks, agents, executors, tasks, offers, resources and ports."""
