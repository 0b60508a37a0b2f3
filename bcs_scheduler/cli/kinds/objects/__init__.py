"""Objects that are not workloads: configuration, services, namespaces, webhooks, agents, commands."""
