"""The HTTP API: documents in, envelopes out. Everything it knows of the running service is
bcs_scheduler.leadership.gateway."""
