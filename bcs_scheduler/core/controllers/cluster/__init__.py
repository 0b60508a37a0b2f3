"""Controllers of the cluster: offers, status updates, kills, reconciliation, drains, messages."""
