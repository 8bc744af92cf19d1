"""Bind the arguments of calls to parameters."""
