"""Sessions with taskgroups: connections that carry the streams of a program."""
