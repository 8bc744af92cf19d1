"""Compile in another process, while this one has an abandoned compilation that cannot be stopped."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence

from nnmagic.engine import engine_error
from nnmagic.engine.relax.artifact import Artifact, from_files
from nnmagic.relay.module import Module
from nnmagic.relay.serialization import PythonFunctionError, module_to_data

#: What the process runs; this process may have found its packages in an unusual way.
_SCRIPT = (
    "import sys; sys.path[:] = {path!r}; from nnmagic.engine.relax.compiler_server import serve; serve()"
)


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
        hint = "wait until the compilation that was interrupted has ended, or restart the kernel"
        raise engine_error(message, module.functions[entry].span, hint=hint) from None
    request = pickle.dumps((*data, entry, target, opt_level, destinations))
    command = [sys.executable, "-W", "ignore", "-c", _SCRIPT.format(path=sys.path)]
    # In a session of its own: a terminal's Ctrl-C is this process's alone.
    with subprocess.Popen(  # noqa: S603 - this Python, and no shell
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            answer, _ = process.communicate(request)
        except BaseException:
            process.kill()
            raise
    span = module.functions[entry].span
    if process.returncode:
        raise engine_error(
            f"@{entry}: the compiler's process ended with the status {process.returncode}", span
        )
    failure, result = pickle.loads(answer)  # noqa: S301 - from our own process
    if failure is not None:
        message, hint = failure
        raise engine_error(message, span, hint=hint)
    return from_files(*result)
