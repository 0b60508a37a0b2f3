"""Services and endpoints for components of the original, which read them in ZooKeeper."""
