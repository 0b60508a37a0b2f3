"""The report of a simulation: charts and tables in one HTML file."""
