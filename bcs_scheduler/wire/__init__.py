"""The data that the scheduler's API and its clients exchange, without the server: shapes and defaults of documents,
amounts of resources, times, and the marks that stand for confidential content.

`bcs_scheduler.api` and `bcs_scheduler.cli` both import this package; it imports neither, and nothing of the core.
"""
