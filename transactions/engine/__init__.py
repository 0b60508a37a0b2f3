"""The engine: runs the steps of transactions and knows the open demands."""
