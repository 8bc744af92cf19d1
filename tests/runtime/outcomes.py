"""Call functions, and say what they give: in this process, or as a program in one that has NumPy alone.

Imports NumPy and nothing else of what is installed.
"""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
import sys
from pathlib import Path
from typing import Any


def outcome(function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a call gives, prints and changes, or what it raises."""
    args, keywords = copy.deepcopy((args, keywords))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            result = function(*args, **keywords)
        except Exception as error:  # noqa: BLE001 - it is compared
            return type(error).__name__, str(error), printed.getvalue()
    return bits(result), bits((args, keywords)), printed.getvalue()


def bits(value: Any) -> Any:
    """Return a value so that equal bits are equal values."""
    if isinstance(value, tuple | list):
        return type(value).__name__, [bits(part) for part in value]
    if isinstance(value, dict):
        return "dict", {name: bits(part) for name, part in value.items()}
    if hasattr(value, "bit_generator"):
        return str(value.bit_generator.state)
    if hasattr(value, "tobytes"):
        return type(value).__name__, str(value.dtype), value.shape, value.tobytes()
    return type(value).__name__, repr(value)


def main() -> None:
    """Read functions, and the arguments of calls; write the outcomes."""
    import nnmagic_runtime

    folder = Path(sys.argv[1])
    calls = pickle.loads((folder / "calls.pickle").read_bytes())
    found: dict[str, Any] = {}
    for name in calls:
        try:
            found[name] = nnmagic_runtime.load(folder / name)
        except Exception as error:  # noqa: BLE001, PERF203 - it is compared
            found[name] = type(error).__name__, str(error)
    loaded = sorted(sys.modules)
    for name, function in found.items():
        if not isinstance(function, tuple):
            found[name] = [outcome(function, *call) for call in calls[name]]
    (folder / "found.pickle").write_bytes(pickle.dumps((found, loaded)))


if __name__ == "__main__":
    main()
