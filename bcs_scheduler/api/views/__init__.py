"""Read models (docs/original.md#read-models): the form in which users see records. Pure functions from records to
structs."""
