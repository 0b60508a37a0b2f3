"""The actions of a session, one per module: each decides by statements."""
