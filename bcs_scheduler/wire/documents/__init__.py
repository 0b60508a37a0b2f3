"""The shape of each kind of document: fields, types, ranges, defaults, aliases, and the fields that are refused."""
