"""Gangs: asks of one application that find places at the same time, or not at all."""
