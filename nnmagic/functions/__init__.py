"""Compiled functions for Python: compile, @function, CompiledFunction, its stages, its file, its cache.

The package is not called ``function``, because that is the public decorator's name: a module of the same name
would take its place in ``nnmagic``.
"""
