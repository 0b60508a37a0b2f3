"""Container tasks: a client of the Docker Engine API, and the runtime that drives one container through it."""
