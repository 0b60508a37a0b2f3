"""Sessions: decisions over a snapshot that does not change, by plug-ins in tiers and a list of actions."""
