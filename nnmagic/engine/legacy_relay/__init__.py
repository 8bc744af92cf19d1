"""Run programs on a TVM that still has Relay (0.19 or older): the judge of the tests.

Importing this package imports no TVM.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from functools import cache
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

from nnmagic.engine import EngineError, engine_error
from nnmagic.relay.module import Module

if TYPE_CHECKING:
    from nnmagic.engine.legacy_relay.executable import LegacyExecutable


def build(
    module: Module, entry: str, *, target: str | Mapping[str, object] | None = None, opt_level: int = 3
) -> LegacyExecutable:
    """Compile the function ``entry`` of a typed module by Relay's own build.

    Dataflow of static shapes runs on Relay's graph executor, everything else on its virtual machine.

    Args:
        module: a typed module.
        entry: the name of the function to run.
        target: None for this machine's CPU, or what ``tvm.target.Target`` takes.
        opt_level: TVM's.

    Raises:
        EngineError: if no TVM with Relay is installed, or it cannot compile the program.
        ValueError: for an invalid level.

    """
    if opt_level not in range(4):
        raise ValueError(f"opt_level must be 0, 1, 2 or 3, not {opt_level!r}")
    if not available():
        raise _missing()
    from nnmagic.engine.legacy_relay.executable import LegacyExecutable
    from nnmagic.engine.legacy_relay.text import for_relay

    prepared = for_relay(module, entry)
    return LegacyExecutable(prepared.module, prepared.text, target, opt_level)


def available() -> bool:
    """Return whether ``tvm.relay`` can be imported, without importing TVM."""
    spec = importlib.util.find_spec("tvm")
    locations = None if spec is None else spec.submodule_search_locations
    return locations is not None and _has_relay(tuple(locations))


@cache
def _has_relay(locations: tuple[str, ...]) -> bool:
    return PathFinder.find_spec("tvm.relay", list(locations)) is not None


def _missing() -> EngineError:
    reason = "none is installed"
    if importlib.util.find_spec("tvm") is not None:
        import tvm

        reason = (
            f"the one that is installed, {getattr(tvm, '__version__', 'of an unknown version')}, has none"
        )
    return engine_error(
        f"the engine 'relay' needs a TVM that has Relay, 0.19 or older; {reason}",
        hint="engine='relax' runs Relay on current TVM; an environment with Relay needs Python 3.10: "
        "pip install hhb-tvm==3.2.3, then nnmagic with --no-deps (`make oracle` makes one)",
    )


__all__ = ["available", "build"]
