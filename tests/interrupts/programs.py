"""Programs of many kinds to interrupt: cells that take long to compile, or calls that take long."""

from __future__ import annotations

from dataclasses import dataclass

from tests.list_cell import LIST


@dataclass(frozen=True)
class Program:
    """A cell that defines ``f``, arguments of a long call, and a short call, whose result is compared.

    ``options`` are those of the cell. ``setup`` is Python that runs once before. A program without a cell
    takes ``f`` from ``load``, an expression.
    """

    name: str
    cell: str
    long: str
    short: str
    options: str = ""
    setup: str = ""
    load: str = ""


_ONNX = """
import onnx
from onnx import TensorProto, helper
def make_model():
    nodes, name = [], "x"
    for k in range(12):
        nodes.append(helper.make_node("MatMul", [name, "w"], [f"m{k}"]))
        nodes.append(helper.make_node("Tanh", [f"m{k}"], [f"t{k}"]))
        name = f"t{k}"
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 256])
    w = helper.make_tensor("w", TensorProto.FLOAT, [256, 256], np.eye(256, dtype="f").tobytes(), raw=True)
    graph = helper.make_graph(nodes, "g", [value("x")], [value(name)], [w])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
model = make_model()
"""
_SLOWLY = """
import time
def slowly(x):
    time.sleep(1e-4)
    return x + 1
"""
_SAVED = """
import tempfile
path = tempfile.mkdtemp() + "/f.nnm"
source = "def f(x: Tensor[('n', 'n'), f32]):\\n    return softmax(x @ x) @ x\\n"
nnmagic.compile(source, cache=False).save(path)
"""


_WHILE_LOOP = """\
def f(x: f32, n: i64):
    while n > 0:
        x = x.sin() + 1
        n = n - 1
    return x
"""

_NESTED_FOR_LOOPS = """\
def f(x: Tensor[('n',), f64], m: i64):
    y = zeros_like(x)
    for k in range(m):
        for i in range(1, len(x)):
            y[i] = y[i - 1] * 0.5 + x[i]
    return y
"""

_INSERTION = """\
def f(x: Tensor[('n',), f64], m: i64):
    y = zeros_like(x)
    for k in range(m):
        for i in range(len(x)):
            j = i - 1
            while j >= 0 and y[j] > x[i] + k % 2 * i:
                y[j + 1] = y[j]
                j -= 1
            y[j + 1] = x[i]
    return y
"""

_GROWING_LIST = """\
def f(x: Tensor[(3,), f32], n: i64):
    rows = []
    for i in range(n):
        if x[0] > i % 2:
            rows.append(x + i)
    return stack(rows)
"""

_RECURSION = """\
def f(n: i64) -> i64:
    return n if n < 2 else f(n - 1) + f(n - 2)
"""

_RECURSION_WITH_ARRAYS = """\
def f(n: i64, x: Tensor[('n',), f32]) -> Tensor[('n',), f32]:
    return x if n < 2 else f(n - 1, x * 0.5) + f(n - 2, x)
"""

_SORT = """\
def f(x: Tensor[("n",), f32]):
    return sort(x)
"""

_ARGSORT = """\
def f(x: Tensor[("n",), f32]):
    return argsort(x)
"""

_SORT_OF_ROWS = """\
def f(x: Tensor[("n", "m"), f32]):
    return sort(x, axis=0)
"""

_PRODUCT = """\
def f(x: Tensor[("n", "n"), f32]):
    return x @ x
"""

_PRODUCTS_OF_FIXED_SIZES = """\
def f(x: Tensor[(4000, 4000), f32]):
    for k in range(9):
        x = x @ x * 0.1
    return x
"""

_WINDOW_OF_512 = """\
def f(x: Tensor[(1, 1, "h", "w"), f32], k: Tensor[(1, 1, 16, 512), f32]):
    return conv2d(x, k)
"""

_FIXED_WINDOW_OF_512 = """\
def f(x: Tensor[(1, 1, 900, 1500), f32], k: Tensor[(1, 1, 512, 512), f32]):
    return conv2d(x, k, padding=40)
"""

_FOURIER_TRANSFORM = """\
def f(x: Tensor[("n",), f64]):
    return abs(np.fft.fft(x))
"""

_RANDOM_NUMBERS = """\
def f(seed: i64, x: Tensor[("n",), f32]):
    return random.normal(random.key(seed), x.shape) + x
"""

_GRADIENT_OF_A_WHILE_LOOP = """\
def g(x: f64, n: i64) -> f64:
    while n > 0:
        x = sin(x) + 1
        n = n - 1
    return x

def f(x: f64, n: i64):
    return grad(g)(x, n)
"""

_CALLBACK = """\
def f(x: f64, n: i64):
    for i in range(n):
        x = callback(slowly, x, result=f64)
    return x
"""

_EMPTY_ARRAYS = """\
def f(x: Tensor[("n", "m"), f32]):
    return (x * 2 + 1).sum(), x.max(axis=0)
"""

_EMPTY_ARRAYS = """\
def f(x: Tensor[("n", "m", "k"), f32]):
    return x.sum()
"""

_EMPTY_CUMULATIVE_SUM = """\
def f(x: Tensor[("n", "m"), f32]):
    return cumsum(x, axis=0), sort(x, axis=1)
"""

_DATA_TYPES = (
    LIST
    + """
def build(n: i32) -> List:
    return List.Nil() if n == 0 else List.Cons(1.0, build(n - 1))

def f(n: i32, m: i64):
    x = 0.0
    for i in range(m):
        x = x + total(build(n))
    return x
"""
)

_PRINTING = """\
def f(x: f64, n: i64):
    for i in range(n):
        x = x + 1
        print(x)
    return x
"""

_ATTENTION = """\
def f(q: Tensor[("n", 64), f32]):
    return softmax(q @ q.T * 0.1) @ q
"""

_MANY_KERNELS = """\
def f(x: Tensor[('n', 'n'), f32]):
    x = tanh(x @ x[:, :3] @ x[:3]).cumsum(axis=0)
    x = tanh(x @ x[:, :5] @ x[:5]).cumsum(axis=0)
    x = tanh(x @ x[:, :7] @ x[:7]).cumsum(axis=0)
    return x
"""

_GRID = """\
def f(x: Tensor[("n",), f32], y: Tensor[("m",), f32], z: Tensor[("k",), f32]):
    a, b, c = meshgrid(x, y, z)
    return (a * b + c).sum()
"""

_MANY_PARTS = """\
def f(x: Tensor[(600,), f32]):
    return split(x, 600)[3] + split(x, 300)[2][0]
"""

_PARALLEL_LOOP = """\
def f(x: Tensor[('n',), f64], m: i64):
    y = zeros_like(x)
    for i in parallel(len(x)):
        s = 0.0
        for k in range(m):
            s = s + sin(x[i] + k)
        y[i] = s
    return y
"""

_SMALL_INVERSES = """\
def f(x: Tensor[(4, 4), f64], n: i64):
    for i in range(n):
        x = linalg.inv(x + eye(4))
    return x
"""

_ELEMENTWISE = """\
def f(x: Tensor[("n",), f64]):
    return sin(x) ** 3.1 + tanh(x) * exp(-x)
"""

_SCATTER = """\
def f(x: Tensor[("n",), f32], i: Tensor[("m",), i64]):
    x = x.copy()
    np.add.at(x, i, 1.0)
    return x
"""

_SPECIALIZED_IN_THE_CALL = """\
def f(x, n):
    for i in range(n):
        x = x @ x * 0.01
    return x
"""

_CHANGED_ARGUMENT = """\
def f(a: InOut[Tensor[('n', 'n'), f64]], m: i64):
    for k in range(m):
        for i in range(1, a.shape[0]):
            a[i] = a[i - 1] * 0.5 + a[i]
"""

_COMPLEX_NUMBERS = """\
def f(x: Tensor[("n",), c128], m: i64):
    for i in range(m):
        x = exp(x * 1j) + x.conj()
    return x
"""

_FUNCTIONS_AS_VALUES = """\
def twice(g: Callable[[f32], f32], x: f32) -> f32:
    return g(g(x))

def f(x: f32, n: i64):
    for i in range(n):
        x = twice(lambda y: sin(y) + x, x)
    return x
"""

_VMAP = """\
def g(x: Tensor[("n",), f32]) -> f32:
    s = 0.0
    for i in range(len(x)):
        s = s + sin(x[i]) * s
    return s

def f(x: Tensor[("m", "n"), f32]):
    return vmap(g)(x)
"""

_POOLING = """\
def f(x: Tensor[(1, 8, "h", "w"), f32]):
    return max_pool2d(x, 33, stride=1)
"""

PROGRAMS = [
    Program("while loop", _WHILE_LOOP, "(np.float32(1), np.int64(10**12),)", "f(np.float32(1), np.int64(5))"),
    Program(
        "while loop, level 0",
        _WHILE_LOOP,
        "(np.float32(1), np.int64(10**12),)",
        "f(np.float32(1), np.int64(5))",
        options="--opt-level 0",
    ),
    Program(
        "while loop, engine numpy",
        _WHILE_LOOP,
        "(np.float32(1), np.int64(10**12),)",
        "f(np.float32(1), np.int64(5))",
        options="--engine numpy",
    ),
    Program(
        "insertion",
        _INSERTION,
        "(-np.arange(1e5), np.int64(10**9),)",
        "f(-np.arange(10.0), np.int64(3))",
    ),
    Program(
        "nested for loops",
        _NESTED_FOR_LOOPS,
        "(np.ones(1000), np.int64(10**9),)",
        "f(np.ones(10), np.int64(3))",
    ),
    Program(
        "growing list",
        _GROWING_LIST,
        "(np.ones(3, 'f'), np.int64(2_000_000),)",
        "f(np.ones(3, 'f'), np.int64(7))",
    ),
    Program("recursion", _RECURSION, "(np.int64(60),)", "f(np.int64(12))"),
    Program(
        "recursion with arrays",
        _RECURSION_WITH_ARRAYS,
        "(np.int64(60), np.ones(8, 'f'),)",
        "f(np.int64(9), np.ones(8, 'f'))",
    ),
    Program("sort", _SORT, "(large,)", "f(large[:50])"),
    Program("argsort, level 0", _ARGSORT, "(large,)", "f(large[:50])", options="--opt-level 0"),
    Program("sort of rows", _SORT_OF_ROWS, "(large.reshape(1024, -1),)", "f(large[:60].reshape(6, -1))"),
    Program("product", _PRODUCT, "(np.ones((7000, 7000), 'f'),)", "f(np.ones((7, 7), 'f'))"),
    Program(
        "product, level 0",
        _PRODUCT,
        "(np.ones((3000, 3000), 'f'),)",
        "f(np.ones((7, 7), 'f'))",
        options="--opt-level 0",
    ),
    Program("products of fixed sizes", _PRODUCTS_OF_FIXED_SIZES, "(np.ones((4000, 4000), 'f'),)", "0"),
    Program(
        "window of 512",
        _WINDOW_OF_512,
        "(np.ones((1, 1, 900, 1500), 'f'), np.ones((1, 1, 16, 512), 'f'),)",
        "f(np.ones((1, 1, 16, 520), 'f'), np.ones((1, 1, 16, 512), 'f'))",
    ),
    Program(
        "window of 512, level 0",
        _WINDOW_OF_512,
        "(np.ones((1, 1, 900, 1500), 'f'), np.ones((1, 1, 16, 512), 'f'),)",
        "f(np.ones((1, 1, 16, 520), 'f'), np.ones((1, 1, 16, 512), 'f'))",
        options="--opt-level 0",
    ),
    Program(
        "fixed window of 512",
        _FIXED_WINDOW_OF_512,
        "(np.ones((1, 1, 900, 1500), 'f'), np.ones((1, 1, 512, 512), 'f'),)",
        "0",
    ),
    Program("fourier transform", _FOURIER_TRANSFORM, "(np.ones(1 << 24),)", "f(np.arange(16.0))"),
    Program("random numbers", _RANDOM_NUMBERS, "(np.int64(3), large,)", "f(np.int64(3), large[:9])"),
    Program(
        "gradient of a while loop",
        _GRADIENT_OF_A_WHILE_LOOP,
        "(1.0, np.int64(90_000))",
        "f(1.0, np.int64(5))",
    ),
    Program("callback", _CALLBACK, "(1.0, np.int64(10**9),)", "f(1.0, np.int64(4))", setup=_SLOWLY),
    Program(
        "empty arrays",
        _EMPTY_ARRAYS,
        "(np.empty((1 << 20, 1 << 20, 0), 'f'),)",
        "f(np.ones((3, 2, 2), 'f'))",
    ),
    Program(
        "empty arrays, level 0",
        _EMPTY_ARRAYS,
        "(np.empty((1 << 20, 1 << 20, 0), 'f'),)",
        "f(np.ones((3, 2, 2), 'f'))",
        options="--opt-level 0",
    ),
    Program(
        "empty cumulative sum",
        _EMPTY_CUMULATIVE_SUM,
        "(np.empty((1 << 40, 0), 'f'),)",
        "f(np.ones((3, 2), 'f'))",
    ),
    Program("data types", _DATA_TYPES, "(np.int32(100), np.int64(10**9),)", "f(np.int32(5), np.int64(2))"),
    Program(
        "ONNX import",
        "",
        "(np.zeros((2000000, 256), 'f'),)",
        "f(np.ones((2, 256), 'f'))",
        setup=_ONNX,
        load="nnmagic.from_onnx(model, cache=False)",
    ),
    Program("printing", _PRINTING, "(1.0, np.int64(10**9),)", "f(1.0, np.int64(2))"),
    Program(
        "loaded function",
        "",
        "(np.ones((6000, 6000), 'f'),)",
        "f(np.ones((5, 5), 'f'))",
        setup=_SAVED,
        load="nnmagic.load(path)",
    ),
    Program("attention", _ATTENTION, "(np.ones((60000, 64), 'f'),)", "f(np.ones((6, 64), 'f'))"),
    Program("many kernels", _MANY_KERNELS, "(np.ones((8000, 8000), 'f'),)", "f(np.ones((9, 9), 'f'))"),
    Program(
        "many kernels, level 0",
        _MANY_KERNELS,
        "(np.ones((3000, 3000), 'f'),)",
        "f(np.ones((9, 9), 'f'))",
        options="--opt-level 0",
    ),
    Program("grid", _GRID, "(large[:700], large[:700], large[:700],)", "f(large[:3], large[:4], large[:5])"),
    Program("many parts", _MANY_PARTS, "(np.ones(600, 'f'),)", "f(np.ones(600, 'f'))"),
    Program(
        "parallel loop", _PARALLEL_LOOP, "(np.ones(1000), np.int64(10**8),)", "f(np.ones(9), np.int64(3))"
    ),
    Program("small inverses", _SMALL_INVERSES, "(np.eye(4), np.int64(10**9),)", "f(np.eye(4), np.int64(2))"),
    Program("elementwise", _ELEMENTWISE, "(np.zeros(1 << 27),)", "f(np.ones(4))"),
    Program(
        "scatter",
        _SCATTER,
        "(np.ones(5, 'f'), np.zeros(1 << 27, 'i8'),)",
        "f(np.ones(5, 'f'), np.array([1, 1, 2]))",
    ),
    Program(
        "specialized in the call",
        _SPECIALIZED_IN_THE_CALL,
        "(np.ones((3000, 3000), 'f'), 1000,)",
        "f(np.ones((3, 3), 'f'), 2)",
    ),
    Program(
        "changed argument",
        _CHANGED_ARGUMENT,
        "(np.ones((300, 300)), np.int64(10**9),)",
        "f(np.ones((3, 3)), np.int64(1))",
    ),
    Program(
        "complex numbers",
        _COMPLEX_NUMBERS,
        "(np.ones(1000, complex), np.int64(10**9),)",
        "f(np.ones(3, complex), np.int64(1))",
    ),
    Program(
        "functions as values",
        _FUNCTIONS_AS_VALUES,
        "(np.float32(1), np.int64(10**10),)",
        "f(np.float32(1), np.int64(3))",
    ),
    Program("vmap", _VMAP, "(np.zeros((100000, 10000), 'f'),)", "f(np.ones((3, 4), 'f'))"),
    Program("pooling", _POOLING, "(np.ones((1, 8, 1500, 1500), 'f'),)", "f(np.ones((1, 8, 40, 40), 'f'))"),
]
