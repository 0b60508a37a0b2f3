"""The HTTP API of the scheduler as Python calls (`client.Client`), and searches built on it (`lookup`)."""
