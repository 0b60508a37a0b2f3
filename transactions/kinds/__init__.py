"""The kinds of transactions, one module each."""
