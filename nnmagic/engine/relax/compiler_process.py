"""Compile in another process, where a compilation must not run in this one.

Either an abandoned compilation cannot be stopped, or the size of files is limited: LLVM ends the process that
it cannot write object code in.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence

from nnmagic.engine import engine_error
from nnmagic.engine.relax.artifact import Artifact, from_files
from nnmagic.relay.module import Module
from nnmagic.relay.structure.encoder import PythonFunctionError
from nnmagic.relay.structure.serialization import module_to_data

#: What the process runs; this process may have found its packages in an unusual way.
_SCRIPT = (
    "import sys; sys.path[:] = {path!r}; from nnmagic.engine.relax.compiler_server import serve; serve()"
)

#: Whether this process compiles for another one, and may end where LLVM ends it.
is_server = False


def file_limit() -> int | None:
    """Return how many bytes a file may have that this process writes; None where LLVM need not care."""
    if is_server or sys.platform == "win32":
        return None
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return None if limit == resource.RLIM_INFINITY else limit


def reason_to_compile_elsewhere() -> str | None:
    """Return why a compilation must run in another process, for a report of progress; None if it need not."""
    from nnmagic.engine.relax.deferred_interrupts import is_abandoned_work_running

    if is_abandoned_work_running():
        return "because a compilation that was stopped still runs"
    if file_limit() is not None:
        return "because the size of files is limited (ulimit -f)"
    return None


def compile_elsewhere(
    module: Module,
    entry: str,
    target: str | Mapping[str, object] | None,
    opt_level: int,
    destinations: Sequence[int],
) -> Artifact:
    """Return the artifact of ``driver.build``, which a new process compiles; an interrupt kills that.

    Raises:
        EngineError: if the program cannot be compiled, or ends the process.

    """
    try:
        data = module_to_data(module)
    except PythonFunctionError as error:
        message = f"@{entry} calls the Python function `{error.name}`, which another process does not have"
        hint = "wait until a compilation that was interrupted has ended, lift a limit of the size of files"
        raise engine_error(message, module.functions[entry].span, hint=hint) from None
    request = pickle.dumps((*data, entry, target, opt_level, destinations))
    command = [sys.executable, "-W", "ignore", "-c", _SCRIPT.format(path=sys.path)]
    # In a session of its own: a terminal's Ctrl-C is this process's alone.
    with subprocess.Popen(  # noqa: S603 - this Python, and no shell
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            answer, output = process.communicate(request)
        except BaseException:
            process.kill()
            raise
    span = module.functions[entry].span
    if process.returncode:
        last = output.decode(errors="replace").strip().rpartition("\n")[2]
        limit = file_limit()
        fix = None if limit is None else f"files may have {limit} bytes: raise the limit (ulimit -f)"
        status = f"@{entry}: the compiler's process ended with the status {process.returncode}: {last}"
        raise engine_error(status, span, hint=fix)
    sys.stderr.write(output.decode(errors="replace"))
    failure, result = pickle.loads(answer)  # noqa: S301 - from our own process
    if failure is not None:
        message, hint = failure
        raise engine_error(message, span, hint=hint)
    return from_files(*result)
