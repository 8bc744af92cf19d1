"""Interpret control flow with closures and data types between compiled kernels."""
