"""Commits on their way into ZooKeeper."""
