"""The HTTP APIs of the master: for operators and for schedulers."""
