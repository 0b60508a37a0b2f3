"""The forms of placeholders behind one interface, the manager of placeholders, and orphans."""
