"""Reading and following the records in ZooKeeper."""
