"""The plug-ins that come with the scheduler, one per module, and the interface for others: `plugins.interface`."""
