"""Differentiate and batch compiled functions, and declare gradient rules for functions of Python."""
