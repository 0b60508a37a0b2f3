"""Changes of the configuration: applied to a tree, and tried on a copy."""
