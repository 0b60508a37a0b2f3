"""Commands that show objects, logs and usage."""
