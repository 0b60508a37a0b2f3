"""Rules as pure functions: status, rolling updates, health, membership, quota, draining."""
