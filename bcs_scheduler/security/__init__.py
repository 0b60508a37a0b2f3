"""Access to the scheduler: tokens, TLS, limits of requests, the audit log."""
