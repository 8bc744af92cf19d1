"""Bring models of other frameworks in, as Relay modules; a folder for each of their formats."""
