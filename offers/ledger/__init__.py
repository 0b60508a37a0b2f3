"""The ledger: the amounts of each agent, and the units that hold them."""
