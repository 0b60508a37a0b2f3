"""Leased capacity: the resources in offers."""
