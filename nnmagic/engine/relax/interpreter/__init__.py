"""Run programs with references and calls of Python: control flow between compiled kernels."""
