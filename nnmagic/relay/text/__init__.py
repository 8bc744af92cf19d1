"""Relay's text format: printing and parsing."""
