"""The resource request of a version, and the resources that a taskgroup holds on its agent."""
