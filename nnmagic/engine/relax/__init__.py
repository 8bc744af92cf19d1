"""Compile Relay to machine code by Relax: the default engine. TVM is imported only to compile.

A build leaves an artifact (``artifact``), which runs without the compiler.
"""

from nnmagic.engine.relax.codegen.preloading import preload_compiler, preload_runtime
from nnmagic.engine.relax.driver import build, load, read_debugging_data
from nnmagic.engine.relax.prepared_program import pass_runs

__all__ = ["build", "load", "pass_runs", "preload_compiler", "preload_runtime", "read_debugging_data"]
