"""Preemption: victims for queues below their guarantee, and for queues whose maximum was lowered."""
