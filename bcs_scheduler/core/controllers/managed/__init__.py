"""The manager's side of placement in the core: applications of managers, and reservations with placeholders."""
