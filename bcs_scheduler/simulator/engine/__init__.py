"""The run of a simulation: virtual time, virtual cluster, core and figures."""
