"""The Docker Engine API: requests, streams, files, images, states of containers."""
