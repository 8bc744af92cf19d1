"""The engine of a TVM that still has Relay (0.19 or older): the module goes to it as text. Knows Relay's modules."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import NoReturn

from nnmagic.engine import engine_error
from nnmagic.relay.module import Module


def build(
    module: Module,  # noqa: ARG001 - the signature is that of every engine
    entry: str,  # noqa: ARG001 - the same
    *,
    target: str | Mapping[str, object] | None = None,  # noqa: ARG001 - the same
    opt_level: int = 3,  # noqa: ARG001 - the same
) -> NoReturn:
    """Raises EngineError: this engine needs a TVM that has Relay, and cannot build with one yet."""
    if importlib.util.find_spec("tvm") is None or importlib.util.find_spec("tvm.relay") is None:
        raise engine_error(
            "the engine 'relay' needs a TVM that has Relay, 0.19 or older, and none is installed",
            hint="use engine='relax', which runs Relay on current TVM",
        )
    raise engine_error("the engine 'relay' cannot build yet", hint="use engine='relax'")
