"""Batch Relay programs: compute a function for each element of an axis at once."""

from __future__ import annotations
