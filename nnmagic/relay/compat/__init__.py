"""Reproduce how the original Relay prints types."""
