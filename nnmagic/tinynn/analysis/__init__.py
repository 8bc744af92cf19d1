"""Analyse the syntax tree of a cell."""
