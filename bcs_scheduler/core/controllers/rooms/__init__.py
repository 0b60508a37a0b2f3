"""Rooms that the cluster manager keeps for placeholders."""
