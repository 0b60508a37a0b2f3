"""Records as bytes: codec, encryption, exact sizes, times."""
