"""Requests for one kind of object each; client.Client has all of them."""
