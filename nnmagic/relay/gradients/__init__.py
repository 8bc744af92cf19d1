"""Differentiate Relay programs: the rules of operators, and the transformation of programs."""

from __future__ import annotations
