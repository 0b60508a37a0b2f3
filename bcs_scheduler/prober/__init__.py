"""The built-in prober of REMOTE_HTTP and REMOTE_TCP health checks, run by the leading scheduler."""
