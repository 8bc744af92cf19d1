"""Run ``%onnx``: import a model, show it, and bind the compiled function."""

from __future__ import annotations

import keyword
import re
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from nnmagic.functions.caching.compile_options import Options
from nnmagic.functions.compiled import CompiledFunction
from nnmagic.jupyter.cell_output import parse_show_option, render_function
from nnmagic.jupyter.errors import MagicError
from nnmagic.rendering.output import Output

#: What a model's file may be called.
_SUFFIXES = (".onnx", ".ort", ".pb")


def name_of(path: str) -> str:
    """Return the variable that a model is bound to by default: the name of its file."""
    name = re.sub(r"\W+", "_", Path(path).name.partition(".")[0]).strip("_")
    name = f"_{name}" if name[:1].isdigit() else name
    return f"{name}_" if keyword.iskeyword(name) else name or "model"


def parse_shapes(given: Sequence[str]) -> dict[str, tuple[int | str, ...]]:
    """Return the shapes of ``--shape x=1,3,n`` options. Raises MagicError."""
    shapes: dict[str, tuple[int | str, ...]] = {}
    for text in given:
        name, equals, sizes = text.rpartition("=")
        items = [item.strip() for item in sizes.strip("()").split(",") if item.strip()]
        if not equals or not name or not all(item.isdecimal() or item.isidentifier() for item in items):
            raise MagicError(f"--shape takes an input's name and sizes, as in x=1,3,224,224, not {text!r}")
        shapes[name] = tuple(int(item) if item.isdecimal() else item for item in items)
    return shapes


def compile_model(given: Namespace, options: Options, *, cache: bool) -> CompiledFunction:
    """Compile the model of a line. Raises what ``from_onnx`` raises, and MagicError."""
    from nnmagic.functions.from_onnx import from_onnx

    path = Path(given.file).expanduser()
    if not path.is_file():
        raise MagicError(f"there is no file {given.file!r}")
    return from_onnx(
        path,
        shapes=parse_shapes(given.shape or []),
        name=given.output or name_of(given.file),
        engine=options.engine,
        target=options.target,
        opt_level=options.opt_level,
        passes=options.passes,
        zero_d_arrays=options.zero_d_arrays,
        cache=cache,
    )


def render_model(function: CompiledFunction, show: str) -> Output:
    """Render the stages of a model. Raises MagicError."""
    from nnmagic.rendering.output import Output

    outputs = [render_function(function, name) for name in parse_show_option(show)]
    return Output(tuple(section for output in outputs for section in output.sections))


def complete_onnx(before: str) -> Sequence[str] | None:
    """Return the words that may end a line of %onnx: options, their values, and paths of models."""
    from nnmagic.jupyter.cell_output import SHOWN
    from nnmagic.jupyter.magics import TinyNNMagics

    if re.search(r"--show[ =][\w,-]*$", before):
        return SHOWN
    if re.search(r"--passes[ =][\w,]*$", before):
        from nnmagic.relay.passes.library import LIBRARY

        return tuple(LIBRARY)
    if re.search(r"(?:-o|--output|--shape)[ =]\S*$", before):
        return ()
    word = before.rpartition(" ")[2]
    if word.startswith("-"):
        actions = TinyNNMagics.onnx_line.parser._actions
        given = set(before.split())
        return [
            option
            for action in actions
            if not given & set(action.option_strings)
            for option in sorted(action.option_strings, key=len, reverse=True)
        ]
    return complete_path(word)


def complete_path(word: str) -> list[str]:
    """Return the folders and models whose path begins with a word."""
    head, slash, start = word.rpartition("/")
    folder = Path(head or ("/" if slash else ".")).expanduser()
    try:
        entries = sorted(folder.iterdir(), key=lambda path: path.name)
    except OSError:
        return []
    return [
        f"{head}{slash}{path.name}{'/' if path.is_dir() else ''}"
        for path in entries
        if path.name.startswith(start)
        and (start.startswith(".") or not path.name.startswith("."))
        and (path.is_dir() or path.suffix in _SUFFIXES)
    ]
