"""Derivatives and batches of compiled functions, and rules for them that files declare."""
