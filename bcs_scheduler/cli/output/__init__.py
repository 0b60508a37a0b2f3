"""Tables, texts and data that commands print."""
