"""Define functions that random cells call: loops, assignments, records, derivatives.

Their names begin with ``_h_``. Most are run by Python over NumPy as they are; the others have a twin, whose
formula says what they give. Knows nothing of nnmagic.
"""

from __future__ import annotations
import __future__

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.tinynn.python_twin.names import NAMES
from tests.tinynn.python_twin.tensor import DTYPES


@dataclass(frozen=True)
class Helper:
    """A function of a cell; ``twin``: its source as Python over NumPy has it."""

    source: str
    twin: str


def _helper(source: str, twin: str = "") -> Helper:
    return Helper(source.lstrip("\n"), (twin or source).lstrip("\n"))


def _of_each_dtype(name: str, source: str, names: tuple[str, ...]) -> dict[str, Helper]:
    return {f"{name}_{each}": _helper(source.replace("DTYPE", each)) for each in names}


#: Each helper by its name. None changes its arguments.
HELPERS: Mapping[str, Helper] = {
    # loops that assign elements
    "_h_nest": _helper("""
def _h_nest(a):
    y = zeros_like(a)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            y[i, j] = a[i, j] * 2 + a[i, j - 1]
    return y
"""),
    "_h_triangle": _helper("""
def _h_triangle(a):
    y = a.copy()
    for i in range(a.shape[0]):
        for j in range(i, a.shape[1]):
            y[i, j] += y[0, j]
    return y
"""),
    "_h_prefix": _helper("""
def _h_prefix(a):
    y = empty_like(a)
    for i in range(len(a)):
        y[i] = a[i]
        if i > 0:
            y[i] += y[i - 1]
    return y
"""),
    "_h_prefix_slices": _helper("""
def _h_prefix_slices(a):
    y = zeros_like(a)
    for i in range(len(a)):
        y[i] = max(a[: i + 1])
    return y
"""),
    "_h_rows": _helper("""
def _h_rows(a):
    y = zeros_like(a)
    for i in parallel(len(a)):
        for j in range(a.shape[1]):
            y[i, j] = a[i, j] + a[i, -1]
    return y
"""),
    # a cell's max of two numbers passes NaN on, whichever of them it is
    "_h_parallel_sum": _helper(
        """
def _h_parallel_sum(a):
    most = a[0] * 0
    total = most
    for i in parallel(len(a)):
        total += a[i]
        most = max(most, a[i])
    return total, most
""",
        """
def _h_parallel_sum(a):
    most = a[0] * 0
    total = most
    for i in parallel(len(a)):
        total += a[i]
        most = maximum(most, a[i])
    return total, most
""",
    ),
    "_h_vectorized": _helper("""
def _h_vectorized(a):
    y = zeros_like(a)
    for i in unrolled(a.shape[0]):
        for j in vectorized(a.shape[1]):
            y[i, j] = a[i, j] * a[i, j]
    return y
"""),
    "_h_tiled": _helper("""
def _h_tiled(a):
    y = zeros_like(a)
    for i, j in grid(a.shape[0], a.shape[1]):
        y[i, j] = a[i, j] + a[i, 0]
    return y
"""),
    "_h_until": _helper("""
def _h_until(a):
    i = 0
    while i < len(a) and a[i] > 0:
        i += 1
    return i, a[:i], a[i:]
"""),
    "_h_search": _helper("""
def _h_search(a):
    found = -1
    for i in range(len(a)):
        if a[i] > 1:
            found = i
            break
    else:
        found = len(a)
    return found
"""),
    "_h_rotate": _helper("""
def _h_rotate(a):
    b = a * 2
    for i in range(11):
        a, b = b, a + i % 3
    return a, b
"""),
    "_h_stencil": _helper("""
def _h_stencil(a):
    b = a.copy()
    for _ in range(3):
        b[1:-1] = a[:-2] + a[2:]
        a, b = b, a.copy()
    return a
"""),
    "_h_histogram": _helper("""
def _h_histogram(a):
    counts = zeros((4,), i64)
    for each in a:
        counts[i64(abs(each)) % 4] += 1
    return counts
"""),
    # assignments
    "_h_assign": _helper("""
def _h_assign(a):
    y = a.copy()
    y[1:] = a[:-1] * 2
    y[:1] = 0
    y[y > 2] = 1
    return y
"""),
    "_h_scatter": _helper("""
def _h_scatter(a):
    y = a.copy()
    y[[0, -1]] = y[[-1, 0]]
    y[0] += y[-1]
    return y
"""),
    "_h_columns": _helper("""
def _h_columns(a):
    y = zeros((a.shape[0], a.shape[1] + 2), f64)
    y[:, 1:-1] = a
    y[:, 0] = 7
    y[::2] *= 2
    return y
"""),
    # lists
    "_h_append": _helper("""
def _h_append(a):
    rows = [a[:1].max(axis=0, initial=0)]
    for row in a:
        rows.append(row * 2)
    return stack(rows), rows[-1]
"""),
    "_h_append_path": _helper("""
def _h_append_path(a):
    path = [a[0]]
    for row in a[1:]:
        path.append(path[-1] + row)
    return array(path), len(path)
"""),
    "_h_comprehension": _helper("""
def _h_comprehension(a):
    first = a[:1].max(axis=0, initial=0)
    return stack([first, *[row + row for row in a]], axis=-1)
"""),
    # branches, functions
    "_h_branch": _helper("""
def _h_branch(a):
    if a.sum() > 0:
        return a + 1
    if a.size == 1:
        return a * 2
    return a
"""),
    "_h_closure": _helper("""
def _h_closure(a):
    def scaled(b, factor=3):
        return b * factor + a

    total = a
    for factor in (1, 2):
        total = scaled(total, factor=factor)
    return scaled(total)
"""),
    "_h_match": _helper("""
def _h_match(a):
    match a.shape:
        case (_,):
            return a[:1]
        case (1, _):
            return a[0]
        case (_, _):
            return a.T
        case _:
            return a
"""),
    "_h_doubled": _helper("""
def _h_doubled(a):
    return _h_branch(a) + _h_branch(a * 2)
"""),
    # functions with types: kernels, and arrays that they change
    **_of_each_dtype(
        "_h_sums",
        """
@kernel
def _h_sums_DTYPE(x: Tensor[("n",), DTYPE], y: Out[Tensor[("n",), DTYPE]]):
    for i in range(len(x)):
        y[i] = x[i]
        if i > 0:
            y[i] += y[i - 1]
""",
        ("f32", "f64", "i64"),
    ),
    **_of_each_dtype(
        "_h_kernel",
        """
def _h_kernel_DTYPE(a: Tensor[("n",), DTYPE]):
    y = zeros_like(a)
    _h_sums_DTYPE(a, y)
    return y * 2
""",
        ("f32", "f64", "i64"),
    ),
    **_of_each_dtype(
        "_h_scale",
        """
def _h_scale_DTYPE(x: InOut[Tensor[("n", "m"), DTYPE]], y: Tensor[("m",), DTYPE]):
    for i in parallel(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] = x[i, j] * 2 + y[j]
    return x.sum()
""",
        ("f32", "f64", "i32"),
    ),
    **_of_each_dtype(
        "_h_scaled",
        """
def _h_scaled_DTYPE(a: Tensor[("n", "m"), DTYPE]):
    y, row = a + 1, ones((a.shape[1],), DTYPE)
    total = _h_scale_DTYPE(y, row)
    return y, total
""",
        ("f32", "f64", "i32"),
    ),
    **_of_each_dtype(
        "_h_power",
        """
def _h_power_DTYPE(a: Tensor[("n",), DTYPE], n: i64) -> Tensor[("n",), DTYPE]:
    return a if n <= 0 else _h_power_DTYPE(a * 2, n - 1) + a
""",
        ("f32", "i64"),
    ),
    # records
    "_h_record": _helper(
        """
class _Pair:
    left: Tensor[("n", "m"), f32]
    right: Tensor[("m",), f32]

class _Layers:
    pair: _Pair
    scale: f32

def _h_record(a: Tensor[("n", "m"), f32]):
    p = _Layers(_Pair(a, a.max(axis=0, initial=0)), 2.0)
    q = tree_map(lambda t: t * 2, p)
    g = grad(lambda r: (r.pair.left ** 2).sum() * r.scale + r.pair.right.sum())(p)
    return q.pair.left + q.pair.right, g.pair.left, g.pair.right, q.scale
""",
        """
def _h_record(a):
    right = a.max(axis=0, initial=0)
    return a * 2 + right * 2, a * 4, ones_like(right), f32(4)
""",
    ),
    "_h_list": _helper(
        """
class _List:
    def _Nil(): ...
    def _Cons(head: f32, tail: _List): ...

def _h_list(a: Tensor[("n",), f32]):
    items = _Nil()
    for x in a:
        items = _Cons(x, items)
    total = f32(0)
    going = True
    while going:
        match items:
            case _Cons(head, tail):
                total = total * 2 + head
                items = tail
            case _Nil():
                going = False
    return total
""",
        """
def _h_list(a):
    total = f32(0)
    for x in a[::-1]:
        total = total * 2 + x
    return total
""",
    ),
    # derivatives
    "_h_vjp": _helper(
        """
def _h_vjp(a, b):
    out, pull = vjp(lambda v, w: v * w + v, a, b)
    return out, *pull(b)
""",
        """
def _h_vjp(a, b):
    return a * b + a, b * b + b, a * b
""",
    ),
    "_h_jvp": _helper(
        """
def _h_jvp(a, b):
    return jvp(lambda v: v * v + sum(v), (a,), (b,))
""",
        """
def _h_jvp(a, b):
    return a * a + sum(a), 2 * a * b + sum(b)
""",
    ),
    "_h_grad_loop": _helper(
        """
def _h_grad_loop(a):
    def cubed(v):
        s = v
        for _ in range(2):
            s = s * v
        return s.sum()

    value, gradient = value_and_grad(cubed)(a)
    return value, gradient, grad(lambda v: grad(cubed)(v).sum())(a)
""",
        """
def _h_grad_loop(a):
    return (a * a * a).sum(), 3 * a * a, 6 * a
""",
    ),
    "_h_grad_assign": _helper(
        """
def _h_grad_assign(a):
    def shifted(v):
        y = zeros_like(v)
        y[1:] = v[:-1] * 3
        y[:1] = v[:1]
        return (y * y).sum()

    return grad(shifted)(a)
""",
        """
def _h_grad_assign(a):
    y = zeros_like(a)
    y[:-1] = 18 * a[:-1]
    y[:1] += 2 * a[:1]
    return y
""",
    ),
    "_h_grad_scan": _helper(
        """
def _h_grad_scan(a):
    def last(v):
        carry, rows = scan(lambda c, x: (c + x, c * x), v[0] * 0, v)
        return carry.sum() + rows.sum() * 0

    return grad(last)(a)
""",
        """
def _h_grad_scan(a):
    return ones_like(a) + a[0] * 0
""",
    ),
    "_h_grad_rows": _helper(
        """
def _h_grad_rows(a, b):
    def loss(w, x):
        return (w * x).sum() ** 2

    return vmap(grad(loss), in_axes=(None, 0))(b[0], a)
""",
        """
def _h_grad_rows(a, b):
    return 2 * (a * b[0]).sum(axis=1, keepdims=True) * a
""",
    ),
    "_h_vmap": _helper(
        """
def _h_vmap(a):
    return vmap(lambda row: row * 2 + row.max(initial=0))(a)
""",
        """
def _h_vmap(a):
    return a * 2 + a.max(axis=tuple(range(1, a.ndim)), initial=0, keepdims=True)
""",
    ),
    "_h_vmap_loop": _helper(
        """
def _h_vmap_loop(a):
    def halvings(x):
        n = 0
        while x > 1:
            x = x / 2
            n += 1
        return n

    return vmap(halvings)(a)
""",
        """
def _h_vmap_loop(a):
    n = zeros(a.shape, i64)
    for _ in range(3):
        n = n + (a > 1)
        a = where(a > 1, a / 2, a)
    return n
""",
    ),
    "_h_scan": _helper(
        """
def _h_scan(a):
    return scan(lambda c, row: (c + row, c * 2), a[:1].max(axis=0, initial=0), a)
""",
        """
def _h_scan(a):
    c = a[:1].max(axis=0, initial=0)
    rows = zeros_like(a)
    for i in range(len(a)):
        rows[i] = c * 2
        c = c + a[i]
    return c, rows
""",
    ),
}


def _grid(*sizes: int) -> list[tuple[int, ...]]:
    pairs: list[tuple[int, ...]] = [()]
    for size in sizes:
        pairs = [(*pair, index) for pair in pairs for index in range(size)]
    return pairs


def python_functions() -> dict[str, Callable[..., object]]:
    """The twins of all helpers."""
    names = {
        **NAMES,
        **DTYPES,
        **dict.fromkeys(("parallel", "vectorized", "unrolled"), range),
        "grid": _grid,
        "kernel": lambda function: function,
    }
    for name, helper in HELPERS.items():
        flags = __future__.annotations.compiler_flag
        exec(compile(helper.twin, f"<{name}>", "exec", flags, True), names)
    return {name: each for name, each in names.items() if name.startswith("_h_") and callable(each)}
