"""Who may do what with the scheduler: tokens, TLS, limits of requests, the audit log."""
