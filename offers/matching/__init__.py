"""The batch matcher: tables, feasibility, ranking, scans, explanations."""
