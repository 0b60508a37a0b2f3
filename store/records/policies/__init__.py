"""Records of placement policies."""
