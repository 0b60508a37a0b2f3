"""The interface of the core: inputs, requests and effects."""
