"""Compile cells, and Python functions as cells."""
