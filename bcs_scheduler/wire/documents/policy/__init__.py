"""Documents of objects that placement policies use."""
