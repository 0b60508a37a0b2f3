"""Statements: try placements, keep them or undo exactly them, as if others were gone."""
