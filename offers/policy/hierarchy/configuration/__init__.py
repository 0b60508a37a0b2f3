"""Configuration of a partition of queues: values, and the reader that refuses a document with all of its mistakes."""
