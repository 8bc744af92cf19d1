"""Render Relay modules for notebooks: coloured code, graphs, tables.

All output is the same on every run, has no scripts, and escapes its input.
"""
