"""Compilations in another process, where LLVM may end it: limits of the size of files."""

from __future__ import annotations

import pytest

from tests.child_process import run_python
from tests.systems import POSIX

LIMITED = """
import resource, sys
import numpy as np
import nnmagic

limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    f = nnmagic.compile("def f(x: Tensor[(3,), f32]):\\n    return sort(x) + 1\\n", cache=False)
    print(f(np.arange(3, dtype="f4")).tolist())
    f.stages["asm"]
except nnmagic.EngineError as error:
    print(error.diagnostics[0].message)
    print(error.diagnostics[0].hint)
"""


def compiled_with_files_of(limit: int) -> list[str]:
    # Python itself would leave truncated files of its own behind.
    done = run_python("-c", LIMITED, str(limit), PYTHONDONTWRITEBYTECODE="1")
    return done.stdout.splitlines()


@POSIX
@pytest.mark.full
def test_where_files_are_too_small_for_machine_code_there_is_an_error() -> None:
    message, hint = compiled_with_files_of(5000)
    assert message.startswith("@f: the compiler's process ended with the status ")
    assert hint == "files may have 5000 bytes: raise the limit (ulimit -f)"


@POSIX
@pytest.mark.full
def test_where_files_are_limited_but_large_enough_functions_are_compiled() -> None:
    result, message, hint = compiled_with_files_of(1 << 20)
    assert result == "[1.0, 2.0, 3.0]"
    assert message == "LLVM cannot write machine code here, because files may have 1048576 bytes at most"
    assert hint == "raise the limit of the size of files (ulimit -f)"
