"""Represent the values of a cell during elaboration."""
