"""Holds of taskgroups that run nothing, or that may not have been launched."""
