"""Elaborate Python's operators, subscripts and unpacking."""
