"""Express complex tensors as tensors of pairs of floats, which is what Relay has.

Until `lowering` runs, a module may hold tensors of complex dtypes and calls of the operators in `operators`.
"""
