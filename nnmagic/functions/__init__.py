"""Provide compiled functions in Python: compile, @function, CompiledFunction, its stages, file and cache.

The package is not called ``function``, which is the name of the public decorator: a module of that name
would replace it in ``nnmagic``.
"""
