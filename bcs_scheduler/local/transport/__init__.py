"""HTTP of the embedded cluster: a small server, calls in requests, streams of events."""
