"""Represent the types that annotations of a cell name."""
