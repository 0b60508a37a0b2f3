"""Simulations for users: the production core with a virtual cluster and a virtual clock."""
