"""Load the modules that run programs, and those that compile them, once a process."""

from __future__ import annotations

import gc
import importlib
from functools import cache

from nnmagic.engine.relax.runtime.installation import has_compiler
from nnmagic.fork_safety import Lock

#: What loads and runs compiled code.
_TO_RUN = (
    "analysis.pipeline",
    "analysis.value_sizes",
    "interpreter.compiler",
    "interpreter.executable",
    "runtime.aot_executable",
    "runtime.compiled_program",
)


#: What compiles, of which most imports TVM.
_TO_COMPILE = ("lowering.module", "codegen.target", "codegen.build", "codegen.aot.planner")


#: A child that is forked while TVM is being loaded could load it no more.
_LOADING = Lock()


def load_runtime() -> None:
    """Load TVM's runtime, and prepare this thread for calls."""
    _load_loader()
    from nnmagic.engine.relax.runtime.callbacks import prepare_thread

    prepare_thread()


@cache
def _load_loader() -> None:
    """Load TVM's runtime on another thread: after an interrupt meanwhile, Python could not load it again."""
    from nnmagic.engine.relax.deferred_interrupts import run_interruptible

    def load_loader() -> None:
        with _LOADING:
            importlib.import_module("nnmagic.engine.relax.runtime.loader")

    run_interruptible(load_loader)


def preload_runtime() -> None:
    """Import TVM's runtime and what loads and runs compiled code, before it is needed.

    Raises what the import raises.
    """
    load_runtime()
    importlib.import_module("tvm_ffi_orcjit")
    for name in _TO_RUN:
        importlib.import_module(f"nnmagic.engine.relax.{name}")


def preload_compiler() -> None:
    """Import TVM's compiler, if it is here, before something is compiled.

    Meant for a thread that has time. Raises what the import raises.
    """
    if has_compiler():
        load_compiler()
        if not gc.get_freeze_count():  # count all that is new as old, which is not gone through in a cell
            gc.freeze()
            gc.unfreeze()


@cache
def load_compiler() -> None:
    """Load TVM, on a thread that an interrupt does not reach."""
    from nnmagic.engine.relax.runtime.ffi import importing_tvm
    from nnmagic.engine.relax.runtime.prover_signals import keep_handler

    with _LOADING, importing_tvm():
        for name in _TO_COMPILE:
            importlib.import_module(f"nnmagic.engine.relax.{name}")
    keep_handler()
