"""Errors of the public functions in a script: a traceback that ends in the caller's own line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nnmagic.tracebacks import VARIABLE

HEAD = """
import sys
import traceback

import numpy as np

import nnmagic

foo = nnmagic.compile("def foo(x: Tensor[(2,), f32]):\\n    return x * 2\\n")
item = nnmagic.compile("def item(x, i):\\n    return x[i]\\n")
types = "class Tree:\\n    def Leaf(x: f32): ...\\nclass Point:\\n    def Point(x: f32, y: f32): ...\\n"
Tree, Point = nnmagic.compile(types + "def f(t: Tree, p: Point): return t, p\\n").types.values()
"""
#: What is wrong, the kind of error, what its last line says.
WRONG = [
    ("foo(np.ones(3, 'float32'))", "ValueError", "dimension 0 must be 2, not 3"),
    ("item(np.ones(3), 5)", "IndexError", "index 5 is out of range for an axis of size 3"),
    ("item(3)", "TypeError", "item() missing 1 required positional argument: 'i'"),
    (
        "item.save('x')",
        "TypeError",
        "save one of its specializations, as in item.specializations[0].save(path)",
    ),
    ("item.export('x')", "TypeError", "specializations[0].export(path)"),
    ("foo.save('/no/such/directory/x.nnm')", "FileNotFoundError", "x.nnm'"),
    ("foo.save(3)", "TypeError", "foo.save takes a path, as text or a pathlib.Path, not an int"),
    ("nnmagic.load('/no/such/file.nnm')", "FileNotFoundError", "file.nnm'"),
    ("nnmagic.load(__file__)", "ValueError", "holds no function that nnmagic saved: File is not a zip file"),
    ("nnmagic.load(None)", "TypeError", "nnmagic.load takes a path, as text or a pathlib.Path, not None"),
    ("foo.stages['nope']", "KeyError", "there is no stage 'nope'; the stages are source, tree, relay"),
    ("foo.types['List']", "KeyError", "the function has no data type 'List'; it uses none"),
    ("Tree.Nope", "AttributeError", "Tree has no constructor 'Nope'; it has Leaf"),
    ("Tree()", "TypeError", "Tree is made by its constructors: Tree.Leaf(x: f32)"),
    ("Point(1.0)", "TypeError", "Point() missing 1 required positional argument: 'y'"),
    ("Tree.Leaf()", "TypeError", "Leaf() missing 1 required positional argument: 'x'"),
    ("foo.name = 'bar'", "AttributeError", "name"),
    ("foo.nope", "AttributeError", "'CompiledFunction' object has no attribute 'nope'"),
    ("nnmagic.compile(3)", "TypeError", "a Python function or a relay.Module, not an int"),
    ("nnmagic.compile(lambda x: x)", "TypeError", "write a function with `def`"),
    ("nnmagic.compile('def f(x: f32): return y')", "nnmagic.diagnostics.TinyNNError", "unknown name `y`"),
    ("nnmagic.compile('def f(x: f32): return x', opt_level=7)", "ValueError", "0, 1, 2 or 3, not 7"),
    ("nnmagic.compile('def f(x: f32): return x', target='rocm')", "nnmagic.engine.EngineError", "'rocm'"),
    ("nnmagic.compile('def f(x: f32): return x', optlevel=1)", "TypeError", "'optlevel'"),
    ("nnmagic.function(3)", "TypeError", "@nnmagic.function takes a Python function, not an int"),
    (
        "nnmagic.function(engine='gpu')",
        "ValueError",
        "one of 'auto', 'relax', 'relay', 'numpy', 'python', not 'gpu'",
    ),
    ("nnmagic.function(opt_level=1)(foo)", "TypeError", "takes a Python function, not a CompiledFunction"),
    ("nnmagic.set_num_threads(0)", "ValueError", "the number of threads must be at least 1, not 0"),
    ("nnmagic.set_cache(__file__)", "NotADirectoryError", "the cache needs a directory"),
    ("nnmagic.relay.parse(3)", "TypeError", "relay.parse takes the text of a module, not an int"),
    ("nnmagic.relay.infer_type(3)", "TypeError", "relay.infer_type takes a relay.Module, not an int"),
    ("nnmagic.Tensor[(2, -3), nnmagic.f32]", "ValueError", "a dimension cannot be -3"),
]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A script that tries each line and shows the traceback that Python would."""
    path = tmp_path_factory.mktemp("scripts") / "script.py"
    tried = "".join(
        f"try:\n    {line}\nexcept Exception:\n    sys.stderr.write('\\0')\n    traceback.print_exc()\n"
        for line, _, _ in WRONG
    )
    path.write_text(HEAD + tried, encoding="utf-8")
    return path


def tracebacks(script: Path, **environment: str) -> list[str]:
    """The traceback of each line of WRONG."""
    done = subprocess.run(
        [sys.executable, script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return done.stderr.split("\0")[1:]


@pytest.mark.full
@pytest.mark.skipif(sys.version_info < (3, 11), reason="a bare raise of Python 3.10 brings the frames back")
def test_a_traceback_ends_in_the_caller_s_line(script: Path) -> None:
    texts = tracebacks(script)
    assert len(texts) == len(WRONG)
    for (line, kind, words), text in zip(WRONG, texts, strict=True):
        assert text.count("Traceback") == 1, text
        assert text.count("  File ") == 1, text
        assert f'File "{script}"' in text
        assert f"    {line}\n" in text
        assert f"\n{kind}: " in text
        assert words in text.partition(f"\n{kind}: ")[2], text


@pytest.mark.full
def test_the_variable_of_developers_shows_all_frames(script: Path) -> None:
    for (line, _, _), text in zip(WRONG, tracebacks(script, **{VARIABLE: "1"}), strict=True):
        assert text.count("  File ") > 1, line


def test_a_mistake_of_nnmagic_keeps_its_frames() -> None:
    from nnmagic.tracebacks import short_errors

    with pytest.raises(AttributeError) as caught:
        short_errors(lambda value: value.nothing)(3)  # Python raises it, below the public function
    assert [entry.name for entry in caught.traceback][-1] == "<lambda>"
