"""Every function of the language beside NumPy and eager torch: rows written from the declarations.

A function is called with as many tensors as it has required parameters, by the same text in the cell, in
NumPy and in torch. ``_CALLS`` has the text of the others; ``_IN_TORCH`` what differs there.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.case import BEST, OURS, Case, Goal, Ratio
from nnmagic.tinynn.builtins import BUILTINS
from nnmagic.tinynn.calls.argument_binding import Builtin

#: Rows and columns of the large and of the small matrices.
_SIZES = ((512, 512), (8, 16))


def _each(names: str, text: str) -> dict[str, str]:
    """The same text for several functions; ``NAME`` is the function's name."""
    return {name: text.replace("NAME", name) for name in names.split()}


#: How a function is called whose required parameters are not one or two tensors of any numbers: ``x`` and
#: ``y`` hold normal numbers, ``p`` some between 0 and 1, ``q`` between 1 and 3, ``i`` integers from 0 to 7,
#: ``m`` and ``l`` truth values, all of one shape; ``v`` has a row's length, ``w`` is square, ``u`` is sorted.
_CALLS: dict[str, str] = {
    **_each("log log2 log10 sqrt log1p arcsin asin arccos acos arctanh atanh rsqrt", "NAME(p)"),
    **_each("arccosh acosh", "NAME(q)"),
    **_each("invert bitwise_not bitwise_invert", "NAME(i)"),
    **_each("bitwise_and bitwise_or bitwise_xor", "NAME(i, j)"),
    **_each("left_shift right_shift bitwise_left_shift bitwise_right_shift", "NAME(i, j)"),
    **_each("floor_divide mod remainder fmod", "NAME(x, q)"),
    **_each("power pow", "NAME(p, x)"),
    **_each("logical_and logical_or logical_xor", "NAME(m, l)"),
    **_each("logical_not all any count_nonzero", "NAME(m)"),
    "heaviside": "heaviside(x, y)",
    "round": "round(x, 2)",
    "around": "around(x)",
    "modf": "modf(x)[0] + modf(x)[1]",
    "divmod": "divmod(x, q)[0] + divmod(x, q)[1]",
    "clip": "clip(x, -1.0, 1.0)",
    "where": "where(m, x, y)",
    **_each("sum prod max amax min amin mean var std nansum nanmax nanmin nanmean nanvar", "NAME(x, axis=1)"),
    **_each("nanstd nanprod ptp argmax argmin cumsum cumprod average median", "NAME(x, axis=1)"),
    "quantile": "quantile(x, 0.25, axis=1)",
    "percentile": "percentile(x, 25.0, axis=1)",
    "reshape": "reshape(x, (COLUMNS, ROWS)) + 1.0",
    "ravel": "ravel(x) + 1.0",
    "flatten": "x.flatten()",
    "transpose": "transpose(x) + 1.0",
    "matrix_transpose": "matrix_transpose(x) + 1.0",
    "permute_dims": "permute_dims(x, (1, 0)) + 1.0",
    "swapaxes": "swapaxes(x, 0, 1) + 1.0",
    "moveaxis": "moveaxis(x, 0, 1) + 1.0",
    "rollaxis": "rollaxis(x, 1) + 1.0",
    "squeeze": "squeeze(x) + 1.0",
    "expand_dims": "expand_dims(x, 0) + 1.0",
    "broadcast_to": "broadcast_to(v, (ROWS, COLUMNS)) + 1.0",
    "broadcast_arrays": "broadcast_arrays(x, v)[1] + 1.0",
    **_each("atleast_1d atleast_2d atleast_3d positive", "NAME(x) + 1.0"),
    **_each("flip fliplr flipud rot90", "NAME(x) + 1.0"),
    "roll": "roll(x, 3, axis=1)",
    "diagonal": "diagonal(x) + 1.0",
    "diag": "diag(v)",
    **_each("concatenate concat", "NAME([x, y], axis=1)"),
    **_each("stack hstack vstack dstack column_stack", "NAME([x, y])"),
    "append": "append(x, y, 0)",
    **_each("split array_split", "NAME(x, 2, axis=1)[0] + NAME(x, 2, axis=1)[1]"),
    **_each("hsplit vsplit", "NAME(x, 2)[0] + NAME(x, 2)[1]"),
    "dsplit": "dsplit(t, 2)[0] + dsplit(t, 2)[1]",
    "repeat": "repeat(x, 2, axis=1)",
    "tile": "tile(x, (2, 2))",
    "pad": "pad(x, 1)",
    **_each("array asarray", "NAME([v, v])"),
    "ascontiguousarray": "ascontiguousarray(x) + 1.0",
    **_each("zeros ones", "NAME((ROWS, COLUMNS)) + v"),
    "full": "full((ROWS, COLUMNS), 2.0) + v",
    **_each("zeros_like ones_like", "NAME(x) + v"),
    "full_like": "full_like(x, 2.0) + v",
    "arange": "arange(COLUMNS) + i",
    "linspace": "linspace(0.0, 1.0, COLUMNS) * x",
    "logspace": "logspace(0.0, 1.0, COLUMNS) * x",
    "geomspace": "geomspace(1.0, 8.0, COLUMNS) * x",
    **_each("eye identity tri", "NAME(COLUMNS) + w"),
    "vander": "vander(v, 8)",
    "meshgrid": "meshgrid(v, v)[0] + meshgrid(v, v)[1]",
    "astype": "x.astype('int32')",
    "copy": "copy(x)",
    "take": "take(x, i[0], axis=0)",
    "take_along_axis": "take_along_axis(x, i, axis=1)",
    "flatnonzero": "flatnonzero(m)",
    "nonzero": "nonzero(m)[0] + nonzero(m)[1]",
    "argwhere": "argwhere(m)",
    "searchsorted": "searchsorted(u, x)",
    "digitize": "digitize(x, u)",
    "unravel_index": "unravel_index(i, (2, 4))[0] + unravel_index(i, (2, 4))[1]",
    "sort": "sort(x, axis=1)",
    "argsort": "argsort(x, axis=1, stable=True)",
    "diff": "diff(x, axis=1)",
    "gradient": "gradient(x, axis=1)",
    "trapezoid": "trapezoid(x, axis=1)",
    "interp": "interp(x, u, v)",
    "matmul": "matmul(x, w)",
    "dot": "dot(x, v)",
    "vdot": "vdot(x, y)",
    "outer": "outer(v, v)",
    "tensordot": "tensordot(x, w, 1)",
    "kron": "kron(x[:8, :8], y[:8, :8])",
    "cross": "cross(x[:, :3], y[:, :3])",
    "einsum": "einsum('ij,kj->ik', x, y)",
    "norm": "linalg.norm(x, axis=1)",
    "multi_dot": "linalg.multi_dot([x, w, w])",
}
#: Functions that have no row of their own, with the reason.
_WITHOUT_ROW = {
    **dict.fromkeys(("bincount", "compress", "delete", "extract", "trim_zeros"), "refused"),
    **dict.fromkeys(("int", "float", "bool", "len"), "of one number"),
    **dict.fromkeys(("empty", "empty_like"), "any result is right"),
}

#: What torch calls by another name, or with other arguments; None where it has nothing of that meaning.
_IN_TORCH: dict[str, str | None] = {}

_ARGUMENTS: dict[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    **dict.fromkeys(("x", "y"), lambda g, rows, columns: g.standard_normal((rows, columns), "float32")),
    "p": lambda g, rows, columns: g.uniform(0.01, 0.99, (rows, columns)).astype("float32"),
    "q": lambda g, rows, columns: g.uniform(1, 3, (rows, columns)).astype("float32"),
    **dict.fromkeys(("i", "j"), lambda g, rows, columns: g.integers(0, 8, (rows, columns))),
    **dict.fromkeys(("m", "l"), lambda g, rows, columns: g.random((rows, columns)) < 0.5),
    "v": lambda g, _, columns: g.standard_normal(columns, "float32"),
    "u": lambda g, _, columns: np.sort(g.standard_normal(columns, "float32")),
    "w": lambda g, _, columns: g.standard_normal((columns, columns), "float32"),
    "t": lambda g, rows, columns: g.standard_normal((2, rows // 2, columns), "float32"),
}
_DTYPES = {"float32": "f32", "float64": "f64", "int64": "i64", "int32": "i32", "bool": "bool"}


def _call_of(builtin: Builtin) -> str | None:
    """Return the text of a function's call; None where it has no row."""
    if builtin.name in _WITHOUT_ROW or (builtin.numpy is None and builtin.name not in _CALLS):
        return None
    required = [word for word in builtin.signature.split(" *")[0].split() if not word.endswith("?")]
    tensors = ", ".join(("x", "y")[: len(required)])
    return _CALLS.get(builtin.name, f"{builtin.name}({tensors})")


def _function(text: str, parameters: Sequence[str], namespace: dict[str, Any]) -> Callable[..., Any]:
    """Define a Python function that returns the text."""
    scope = dict(namespace)
    exec(f"def function({', '.join(parameters)}):\n    return {text}\n", scope)  # noqa: S102 - our own text
    function: Callable[..., Any] = scope["function"]
    return function


def _in_torch(text: str, parameters: Sequence[str]) -> Callable[..., Any]:
    functions: list[Callable[..., Any]] = []

    def function(torch: Any, *tensors: Any) -> Any:
        if not functions:
            namespace = {**vars(torch.nn.functional), **vars(torch), "torch": torch}
            functions.append(_function(text, parameters, namespace))
        return functions[0](*tensors)

    return function


def _with_sizes(text: str, rows: int | str, columns: int | str) -> str:
    return text.replace("ROWS", str(rows)).replace("COLUMNS", str(columns))


def _annotation(array: np.ndarray, sizes: dict[int, str]) -> str:
    dims = ", ".join(f'"{sizes[size]}"' if size in sizes else str(size) for size in array.shape)
    return f"Tensor[({dims},), {_DTYPES[str(array.dtype)]}]"


def _row(builtin: Builtin, text: str, shape: tuple[int, int], *, named: bool) -> Case:
    rows, columns = shape
    written = _with_sizes(text, rows, columns)
    used = {node.id for node in ast.walk(ast.parse(written)) if isinstance(node, ast.Name)}
    parameters = [name for name in _ARGUMENTS if name in used]

    def draw(generator: np.random.Generator) -> dict[str, np.ndarray]:
        return {name: _ARGUMENTS[name](generator, rows, columns) for name in parameters}

    names = {rows: "n", columns: "n" if rows == columns else "k"} if named else {}
    arrays = draw(np.random.default_rng(0))
    annotations = ", ".join(f"{name}: {_annotation(array, names)}" for name, array in arrays.items())
    cell = _with_sizes(text, names.get(rows, rows), names.get(columns, columns))
    in_torch = _IN_TORCH.get(builtin.name, text)
    large = shape == _SIZES[0]
    goals: tuple[Goal, ...] = (Ratio(BEST, 0.95),) if large else (Ratio("numpy", 1.0),)
    return Case(
        f"{builtin.name}, {rows}x{columns}" + (", named" if named else ""),
        "vocabulary",
        goals,
        draw,
        f"def function({annotations}):\n    return {cell}\n",
        _function(written, parameters, vars(np)),
        torch=in_torch and _in_torch(_with_sizes(in_torch, rows, columns), parameters),
        peers=(OURS, "numpy", "torch"),
        tolerance=1e-4,
    )


def _rows() -> Iterator[Case]:
    for builtin in BUILTINS.values():
        text = _call_of(builtin)
        if text is not None:
            for shape in _SIZES:
                for named in (False, True):
                    yield _row(builtin, text, shape, named=named)


ROWS = tuple(_rows())
