"""Controllers: the parts of the core that act without a request, on changed records and timers."""
