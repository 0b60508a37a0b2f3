"""The store in ZooKeeper, for several schedulers."""
