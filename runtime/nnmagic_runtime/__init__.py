"""Run functions that nnmagic saved: with NumPy alone, without TVM, the compiler and the notebook.

``nnmagic_runtime.load("f.nnm")`` returns the function. A file holds machine code: load it only from people
whom you trust.
"""

from nnmagic.engine import garbage_collection

with garbage_collection.pause():
    from nnmagic._version import __version__
    from nnmagic.engine import EngineError
    from nnmagic.engine.threads import num_threads, set_num_threads
    from nnmagic_runtime.functions import Function, load, loads

__all__ = [
    "EngineError",
    "Function",
    "__version__",
    "load",
    "loads",
    "num_threads",
    "set_num_threads",
]
