"""The engines of placement, one for each policy, and their interface."""
