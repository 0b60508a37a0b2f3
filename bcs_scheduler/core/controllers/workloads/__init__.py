"""Controllers of workloads: deployments, daemonsets, services, health."""
