"""A cell whose typed program is on disk is neither parsed nor elaborated, and is the same function."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import nnmagic
from nnmagic.diagnostics import Source
from nnmagic.functions.caching import kept_cells
from nnmagic.functions.caching.compile_options import Options
from nnmagic.functions.cells import type_cell
from nnmagic.functions.cells.compile_cell import MEMORY, CompiledCell, compile_cell
from nnmagic.relay.structure.traverse import post_order
from tests.cache.stores import Inside
from tests.list_cell import LIST

W = np.arange(12, dtype="f4").reshape(3, 4)
LARGE = np.random.default_rng(0).standard_normal((64, 64)).astype("f4")

NAMESPACE = {
    "np": np,
    "exp": np.exp,
    "w": W,
    "large": LARGE,
    "layers": [(LARGE * 2, W[0]), {"bias": LARGE[::-1]}],
    "k": 3,
    "scale": np.float32(2.5),
}
#: Sources, and arguments of the last function.
SOURCES = {
    "one operator": ("def f(x: Tensor[(3, 4), f32]):\n    return x + 1\n", (W,)),
    "captured": ("def f(x: Tensor[(3, 4), f32]):\n    return exp(x * scale) + w * k + np.pi\n", (W,)),
    "a large array": ("def f(x: Tensor[('n', 64), f32]):\n    return np.tanh(x @ large)\n", (LARGE,)),
    "arrays in lists": (
        "def f(x: Tensor[('n', 64), f32]):\n    return x @ layers[0][0] + layers[1]['bias'][0]\n",
        (LARGE,),
    ),
    "several functions": (
        'def g(x: Tensor[(3,), f32], n: i64 = 2, *, by: f32 = 0.5):\n    """Says what it does."""\n'
        "    return x * by if n <= 0 else g(x, n - 1, by=by)\n\n"
        "def f(x: Tensor[(3,), f32]):\n    return g(x)\n",
        (W[:, 0].copy(),),
    ),
    "an index and an assertion": (
        "def f(x: Tensor[('n',), f32], i: Tensor[(2,), i64]):\n"
        "    assert x.sum() < 100, 'too much'\n    return x[i]\n",
        (W[0], np.array([1, 7])),
    ),
    "a loop that changes an argument": (
        "def f(x: InOut[Tensor[('n',), f32]], n: i64):\n    for i in range(n):\n        x[i] = x[i] + 1\n",
        (W[0].copy(), 3),
    ),
    "a gradient": (
        "def loss(x: Tensor[(3,), f32]):\n    return (x * x).sum()\n\n"
        "def f(x: Tensor[(3,), f32]):\n    return grad(loss)(x)\n",
        (W[:, 1].copy(),),
    ),
    "complex numbers": ("def f(x: Tensor[(4,), c64]):\n    return x * 1j\n", (W[0].astype("c8"),)),
    "bfloat16": ("def f(x: Tensor[(4,), bf16]):\n    return x.astype('float32') * 2\n", None),
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path) -> Iterator[None]:
    nnmagic.set_cache(tmp_path / "cache")
    yield
    nnmagic.set_cache()
    MEMORY.clear()


def compiled(source: str, namespace: dict[str, object], **options: object) -> CompiledCell:
    """The cell as a new kernel has it: what is in memory is forgotten first."""
    MEMORY.clear()
    return compile_cell(Source("<tinynn>", source, 2), namespace, Options(**options))  # type: ignore[arg-type]


def refuse(*_: object) -> None:
    raise AssertionError("the front end was used")


def seen(cell: CompiledCell) -> list[object]:
    """What a user can see of a cell without calling it, with the place of each expression."""
    result: list[object] = [cell.relay_text, str(cell.own)]
    for each in cell.functions:
        module = each._definition.module
        spans = [
            (node.span, node.span and node.span.source)
            for name in sorted(module.functions)
            for node in post_order(module.functions[name])
        ]
        result += [each.name, each.__doc__, each.__signature__, each.stages["source"], str(module), spans]
        result += [each._definition.key, each._definition.code_dependencies]
    return result


def outcome(cell: CompiledCell, arguments: tuple[object, ...]) -> str:
    copies = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
    try:
        return f"{cell.result(*copies)!r} {copies}"
    except (IndexError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("name", SOURCES)
def test_it_is_the_same_cell(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source, arguments = SOURCES[name]
    first = compiled(source, NAMESPACE)
    expected = None if arguments is None else outcome(first, arguments)
    monkeypatch.setattr(type_cell, "type_cell", refuse)
    again = compiled(source, NAMESPACE)
    assert seen(again) == seen(first)
    assert again.captured == first.captured
    assert again.cache_info.hit == "disk"
    assert arguments is None or outcome(again, arguments) == expected


def test_a_constant_is_not_the_array_of_the_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    own = LARGE.copy()
    source, (x,) = SOURCES["a large array"]
    expected = compiled(source, {"np": np, "large": own}).result(x)
    monkeypatch.setattr(type_cell, "type_cell", refuse)
    again = compiled(source, {"np": np, "large": own})
    own[:] = 0
    assert np.array_equal(again.result(x), expected)


@pytest.mark.parametrize(
    "changes",
    [{"k": 4}, {"k": 3.0}, {"w": W + 1}, {"exp": np.sin}, {"scale": np.float64(2.5)}, {"f32": np.float64}],
)
def test_what_was_captured_is_compared(changes: dict[str, object]) -> None:
    source, (x,) = SOURCES["captured"]
    compiled(source, NAMESPACE)
    namespace = {**NAMESPACE, **changes}
    try:
        changed = compiled(source, namespace)
    except nnmagic.TinyNNError:
        assert "f32" in changes or "scale" in changes
        return
    exp, scale, w, k = (namespace[name] for name in ("exp", "scale", "w", "k"))
    x = x.astype(namespace.get("f32", x.dtype))
    assert np.allclose(changed.result(x), exp(x * scale) + w * k + np.float32(np.pi), rtol=1e-5)  # type: ignore[operator]


def test_options_and_the_state_of_our_files_are_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    source, _ = SOURCES["one operator"]
    compiled(source, NAMESPACE)
    with monkeypatch.context() as patched:
        patched.setattr(type_cell, "type_cell", refuse)
        compiled(source, NAMESPACE)
        for options in ({"promote": True}, {"opt_level": 0}):
            with pytest.raises(AssertionError, match="front end"):
                compiled(source, NAMESPACE, **options)
        patched.setattr(kept_cells, "front_end", lambda: "edited")
        with pytest.raises(AssertionError, match="front end"):
            compiled(source, NAMESPACE)


def test_a_note_that_was_changed_is_not_used(tmp_path: Path) -> None:
    source, (x,) = SOURCES["captured"]
    expected = compiled(source, NAMESPACE).result(x)
    inside = Inside(tmp_path / "cache")
    ((name, whole),) = ((name, data) for name, data in inside.notes.items() if b'"sum"' in data)
    for damaged in (whole[:-40], whole.replace(b"multiply", b"subtract"), b"[]", b'{"sum": 1}', b"\xff"):
        assert damaged != whole
        inside.write_note(name, damaged)
        assert np.array_equal(compiled(source, NAMESPACE).result(x), expected)


def test_a_note_of_another_cell_is_not_used(tmp_path: Path) -> None:
    """Files of the directory may be exchanged: by a restore, or a file system that loses a rename."""
    inside = Inside(tmp_path / "cache")
    x = W[0].copy()
    sources = [f"def f(x: Tensor[('n',), f32]):\n    return x {part}\n" for part in ("* 3", "+ 100")]
    expected = [compiled(source, {}).result(x) for source in sources]
    notes = {name: data for name, data in inside.notes.items() if b'"sum"' in data}
    (first, one), (second, other) = notes.items()
    inside.write_note(first, other)
    inside.write_note(second, one)
    for source, right in zip(sources, expected, strict=True):
        assert np.array_equal(compiled(source, {}).result(x), right)


@pytest.mark.parametrize(
    "source",
    [
        LIST,
        "def f(x):\n    return x + 1\n",
        "def f(x: Tensor[(3,), f32]):\n    unused = x + 2\n    return x\n",
    ],
)
def test_other_cells_are_compiled_as_ever(source: str) -> None:
    """Classes, types left to the call, warnings."""
    first, again = compiled(source, {}), compiled(source, {})
    assert again.relay_text == first.relay_text
    assert again.warnings == first.warnings
    assert list(again.bindings) == list(first.bindings)
