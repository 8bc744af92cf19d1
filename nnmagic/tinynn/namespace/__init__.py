"""Resolve the free names of a cell."""
