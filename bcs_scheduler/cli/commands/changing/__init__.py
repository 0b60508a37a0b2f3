"""Commands that create, change and delete objects."""
