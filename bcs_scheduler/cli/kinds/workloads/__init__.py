"""Applications, deployments, daemonsets, and their taskgroups, transactions and events."""
