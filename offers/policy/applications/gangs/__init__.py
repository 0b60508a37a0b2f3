"""Gangs with placeholders: room is reserved for every member before the first member is launched."""
