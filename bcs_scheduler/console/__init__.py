"""The console: a page for browsers, its sessions, and the figures of the last hour."""
