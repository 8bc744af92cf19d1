"""Compile one program for another process, which `compiler_process` started for it."""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any

from nnmagic.diagnostics import CompileError
from nnmagic.engine.relax import compiler_process
from nnmagic.engine.relax.driver import build
from nnmagic.relay.infer import infer_type
from nnmagic.relay.structure.serialization import module_from_data


def serve() -> None:
    """Answer the request on standard input: an error's message and hint, or the files of an artifact."""
    compiler_process.is_server = True
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what TVM prints is no answer
    request = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one
    data, arrays, entry, target, opt_level, destinations = request
    answer: tuple[tuple[str, str | None] | None, Any]
    try:
        module = infer_type(module_from_data(data, arrays))
        built = build(module, entry, target=target, opt_level=opt_level, destinations=destinations)
        assert built.artifact is not None  # CUDA source is generated elsewhere
        answer = None, built.artifact.to_files()
    except CompileError as error:
        first = error.diagnostics[0]
        answer = (first.message, first.hint), None
    with answers:
        pickle.dump(answer, answers)
