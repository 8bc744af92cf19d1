"""Describe the symbols of a cell for completion and inspection."""
