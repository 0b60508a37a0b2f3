"""Checks of the lead: the stored records allow it, the store confirms it, and /readyz shows it."""
