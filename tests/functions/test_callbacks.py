"""Cells that call functions of Python, on both engines: values, order, errors, and what is refused."""

from __future__ import annotations

import pickle
import threading
import traceback

import numpy as np
import pytest

import nnmagic
from nnmagic import TinyNNError
from nnmagic.engine import EngineError

ENGINES = pytest.mark.parametrize("engine", ["relax", "numpy"])
LEVELS = pytest.mark.parametrize(("engine", "opt_level"), [("relax", 0), ("relax", 3), ("numpy", 3)])
X = np.arange(4, dtype=np.float32)


def square(x):
    return x * x


def total(x):
    return float(x.sum())


class Recorder:
    """Records what it is called with."""

    def __init__(self):
        self.seen = []

    def note(self, x):
        self.seen.append(x.tolist())


class Missing(Exception):
    pass


def compile_cell(source, engine="relax", opt_level=3, **names):
    names = {"square": square, "total": total, **names}
    return nnmagic.compile(source, engine=engine, opt_level=opt_level, namespace=names)


def run(source, *args, engine, opt_level=3, **names):
    """The result of a cell, and the arguments of ``log.note`` in it."""
    log = Recorder()
    function = compile_cell(source, engine, opt_level, log=log, **names)
    return function(*args), log.seen


# --- what is computed ---------------------------------------------------------------------------------------


@LEVELS
def test_a_callback_computes_what_python_computes(engine, opt_level):
    source = """
def f(x: Tensor[("n",), f32], k: i64):
    y = callback(square, x + 1, result=Tensor[("n",), f32])
    return y * callback(total, y, result=f32), callback(divmod, k, 3, result=tuple[i64, i64])
"""
    pairs = {"divmod": lambda a, b: tuple(map(np.int64, divmod(int(a), int(b))))}
    (got, (quotient, rest)), _ = run(source, X, 7, engine=engine, opt_level=opt_level, **pairs)
    squares = (X + 1) ** 2
    np.testing.assert_array_equal(got, squares * squares.sum())
    assert (quotient, rest) == (2, 1)
    assert got.dtype == np.float32


@LEVELS
def test_sizes_come_from_the_parameters(engine, opt_level):
    source = """
def twice(x: Tensor[("k",), f32]):
    return callback(double, x, result=Tensor[("2*k",), f32])
def f(x: Tensor[("n",), f32], y: Tensor[("m",), f32]):
    def again(v):
        return callback(square, v, result=Tensor[("n",), f32])
    return twice(twice(x)), twice(y), again(again(x))
"""
    (a, b, c), _ = run(source, X, X[:3], engine=engine, opt_level=opt_level, double=lambda x: np.tile(x, 2))
    np.testing.assert_array_equal(a, np.tile(X, 4))
    np.testing.assert_array_equal(b, np.tile(X[:3], 2))
    np.testing.assert_array_equal(c, X**4)


ORDERED = {
    "a loop that gives nothing": (
        "    for i in range(len(x)):\n        callback(log.note, x[i], effects=True)\n    return x\n",
        [0.0, 1.0, 2.0, 3.0],
    ),
    "nested loops, break and else": (
        "    for i in range(len(x)):\n"
        "        for j in range(i):\n"
        "            callback(log.note, 10 * i + j, effects=True)\n"
        "            if x[j] > 0:\n"
        "                break\n"
        "        else:\n"
        "            callback(log.note, -i, effects=True)\n"
        "    return x\n",
        [0, 10, -1, 20, 21, 30, 31],
    ),
    "branches": (
        "    if x[1] > 0:\n"
        "        callback(log.note, 1, effects=True)\n"
        "        y = x + 1\n"
        "    else:\n"
        "        y = x\n"
        "    callback(log.note, 2, effects=True)\n"
        "    if x[1] > 5:\n"
        "        callback(log.note, 3, effects=True)\n"
        "    if x[1] > 0:\n"
        "        callback(log.note, 4, effects=True)\n"
        "    return y\n",
        [1, 2, 4],
    ),
    "functions of the cell": (
        "    a = noted(x[0])\n    b = noted(x[1])\n    _ = noted(x[2])\n    return x * (b - a)\n",
        [0.0, 1.0, 2.0],
    ),
    "functions inside": (
        "    def inner(v: f32) -> f32:\n"
        "        callback(log.note, v, effects=True)\n"
        "        return v\n"
        "    a = inner(x[3])\n"
        "    return x * inner(x[1]) if x[0] > 1 else x * inner(x[2]) * a\n",
        [3.0, 2.0],
    ),
    "recursion": ("    return x * down(3)\n", [3, 2, 1, 0]),
    "equal calls": (
        "    callback(log.note, x[1], effects=True)\n"
        "    callback(log.note, x[1], effects=True)\n"
        "    return x\n",
        [1.0, 1.0],
    ),
}


@LEVELS
@pytest.mark.parametrize("name", ORDERED)
def test_effects_keep_their_number_and_order(name, engine, opt_level):
    body, expected = ORDERED[name]
    source = f"""
def noted(v: f32) -> f32:
    callback(log.note, v, effects=True)
    return v
def down(n: i64) -> f32:
    callback(log.note, n, effects=True)
    return f32(1) if n == 0 else down(n - 1)
def f(x: Tensor[("n",), f32]):
{body}"""
    assert run(source, X, engine=engine, opt_level=opt_level)[1] == expected


def test_effects_of_an_earlier_cell_keep_their_order():
    log = Recorder()
    source = "def noted(v: f32) -> f32:\n    callback(log.note, v, effects=True)\n    return v\n"
    noted = compile_cell(source, log=log)
    cell = "def f(x: f32):\n    a = noted(x)\n    b = noted(x + 1)\n    _ = noted(x + 2)\n    return b - a\n"
    assert compile_cell(cell, noted=noted)(np.float32(0)) == 1
    assert log.seen == [0.0, 1.0, 2.0]


def test_effects_of_functions_without_types_keep_their_order():
    log = Recorder()
    source = """
def noted(v):
    callback(log.note, v, effects=True)
    return v
def f(x: Tensor[("n",), f32]):
    for i in range(len(x)):
        if x[i] > 0:
            _ = noted(x[i])
    return noted(x[0]) + noted(x[1])
"""
    assert compile_cell(source, log=log)(X) == 1
    assert log.seen == [1.0, 2.0, 3.0, 0.0, 1.0]


def test_what_precedes_a_failed_assertion_has_run():
    log = Recorder()
    source = """
def f(x: f32):
    callback(log.note, x, effects=True)
    assert x > 1
    callback(log.note, x, effects=True)
    return x
"""
    with pytest.raises(AssertionError):
        compile_cell(source, log=log)(np.float32(0))
    assert log.seen == [0.0]


def test_a_pure_callback_is_called_once_for_equal_calls_and_never_if_unused():
    log = Recorder()

    def counted(x):
        log.note(x)
        return x

    source = """
def f(x: f32):
    _ = callback(counted, x + 1, result=f32)
    return callback(counted, x, result=f32) + callback(counted, x, result=f32)
"""
    assert compile_cell(source, counted=counted)(np.float32(3)) == 6
    assert log.seen == [3.0]


def test_a_pure_callback_runs_in_the_branch_that_it_stands_in():
    def never(x):
        raise Missing

    source = "def f(x: f32):\n    return callback(never, x, result=f32) if x > 1 else x\n"
    assert compile_cell(source, never=never)(np.float32(0)) == 0
    loop = """
def f(x: f32, n: i64):
    s = x
    for i in range(n):
        s += callback(never, x, result=f32)
    return s
"""
    assert compile_cell(loop, never=never)(np.float32(5), 0) == 5


@ENGINES
def test_results_belong_to_the_program_and_arguments_to_the_caller(engine):
    kept = np.ones(4, np.float32)
    source = """
def f(x: Tensor[(4,), f32]):
    y = callback(same, x, result=Tensor[(4,), f32])
    y[0] = 9
    z = callback(same, x, result=Tensor[(4,), f32])
    return y, z
"""
    y, z = compile_cell(source, engine, same=lambda _: kept)(X)
    assert (y[0], z[0], kept[0]) == (9, 1, 1)

    def write(x):
        x[0] = 5
        return x

    cell = "def f(x: Tensor[(4,), f32]):\n    return callback(write, x, result=Tensor[(4,), f32])\n"
    with pytest.raises(ValueError, match="read-only"):
        compile_cell(cell, engine, write=write)(X)
    assert X[0] == 0


# --- errors -------------------------------------------------------------------------------------------------

BAD_RESULTS = {
    "another dtype": ("f32", lambda x: np.float64(1), TypeError, r"returned an array of float64.*float32"),
    "another shape": ("Tensor[(3,), f32]", lambda x: x, ValueError, r"array of the shape \(4,\)"),
    "another size": ('Tensor[("n", "n"), f32]', lambda x: np.eye(3, dtype="f4"), ValueError, r'"n" = 4'),
    "nothing": ("f32", lambda x: None, TypeError, "returned None, and is declared as f32"),
    "a list": ("Tensor[(2,), f32]", lambda x: [1, 2], TypeError, "returned a list"),
    "a number too large": ("u8", lambda x: 256, TypeError, "the int 256"),
    "a float for an int": ("i32", lambda x: 1.0, TypeError, "the float 1.0"),
    "an int for a bool": ("bool_", lambda x: 1, TypeError, "the int 1"),
    "too large a float": ("f32", lambda x: 1e300, TypeError, "1e[+]300"),
    "one of two": ("tuple[f32, f32]", lambda x: x, TypeError, "declared with 2 results"),
    "a part of two": ("tuple[f32, f32]", lambda x: (1.0, "a"), TypeError, "as result 1 a str"),
}


@ENGINES
@pytest.mark.parametrize("name", BAD_RESULTS)
def test_a_result_of_another_type_is_an_error_with_its_place(name, engine):
    type_, function, kind, message = BAD_RESULTS[name]
    results = "a, b" if type_.startswith("tuple") else "a"
    source = f"""
def f(x: Tensor[("n",), f32]):
    {results} = callback(bad, x, result={type_})
    return {results}
"""
    cell = compile_cell(source, engine, bad=function)
    with pytest.raises(kind, match=message) as caught:
        cell(X)
    assert "<tinynn>:3:" in str(caught.value)


@ENGINES
def test_a_result_where_none_is_declared_is_an_error(engine):
    source = "def f(x: f32):\n    callback(square, x, effects=True)\n    return x\n"
    with pytest.raises(TypeError, match="is declared without a result"):
        compile_cell(source, engine)(np.float32(1))


@ENGINES
@pytest.mark.parametrize("kind", [ValueError, TypeError, Missing, RecursionError, KeyboardInterrupt])
def test_an_exception_passes_through_with_both_tracebacks(kind, engine):
    error = kind("told")

    def fails(x):
        raise error

    source = "def f(x: f32):\n    y = x + 1\n    return callback(fails, y, result=f32)\n"
    function = compile_cell(source, engine, fails=fails)
    with pytest.raises(kind, match=r"\Atold\Z") as caught:
        function(np.float32(1))
    assert caught.value is error
    text = "".join(traceback.format_exception(error))
    assert "return callback(fails, y, result=f32)" in text  # the line of the cell
    assert "raise error" in text  # and that of the function
    assert text.index("callback(fails") < text.index("raise error")


@ENGINES
def test_other_threads_call_back_at_the_same_time(engine):
    function = compile_cell(
        "def f(x: Tensor[(4,), f32]):\n    return callback(square, x + 1, result=Tensor[(4,), f32]) - 1\n",
        engine,
    )
    wrong = []

    def call(number):
        for _ in range(50):
            got = function(X + number)
            if not np.array_equal(got, (X + number + 1) ** 2 - 1):
                wrong.append(got)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_callback_may_call_compiled_functions():
    inner = nnmagic.compile("def inner(x: f32):\n    return x * 2\n")
    source = "def f(x: f32):\n    return callback(outer, x, result=f32)\n"
    assert compile_cell(source, outer=lambda x: inner(x) + 1)(np.float32(3)) == 7


REFUSED = {
    "callback(square, x)": "neither a result nor effects are declared",
    "callback(square, x, result=f32)": "the result of this callback is not used",
    "z = callback(absent, x, result=f32)": "unknown name `absent`",
    "z = callback(squar, x, result=f32)": "did you mean square",
    "z = callback('square', x, result=f32)": "calls a function of the notebook",
    "z = callback(g, x, result=f32)": "`g` is one of the cell",
    "z = callback(compiled, x, result=f32)": "`compiled` is compiled",
    "z = callback(lambda x: x, x, result=f32)": "calls a function of the notebook",
    "z = callback(number, x, result=f32)": "calls a function of the notebook",
    "z = callback(square, (x, x), result=f32)": "give tensors, one by one",
    "z = callback(square, c, result=f32)": "the real and the imaginary part",
    "z = callback(square, x, result=c64)": "a tensor of real numbers",
    "z = callback(square, x, result=x)": "is no type",
    'z = callback(square, x, result=Tensor[("m",), f32])': 'the size "m" is not known here',
    "z = callback(square, x, effects=1)": "`effects` must be True or False",
    "z = callback(square, y=x, result=f32)": "no parameter `y`",
    "z = callback(result=f32)": "the function is missing",
    "z = vmap(callback)(stack((x, x)))": "with the name of a function",
    "z = grad(g)(x)": "python.callback has no gradient",
    "z = vmap(g)(stack((x, x)))": "a callback takes no batch",
    "z = grad(h)(x)": "a callback with effects stands in a function that is differentiated",
    "z = zeros(3, f32)\n    for i in parallel(3):\n        z[i] = callback(total, x, result=f32)": "no order",
}


@pytest.mark.parametrize("statement", REFUSED)
def test_what_is_refused_is_located(statement):
    source = f"""
def g(x: f32) -> f32:
    return callback(square, x, result=f32)
def h(x: f32) -> f32:
    callback(square, x, effects=True)
    return x
def f(x: f32, c: c64):
    {statement}
    return {"z" if statement.startswith("z") else "x"}
"""
    compiled = nnmagic.compile("def compiled(x: f32):\n    return x\n")
    with pytest.raises(TinyNNError) as caught:
        compile_cell(source, compiled=compiled, number=3)
    assert REFUSED[statement] in str(caught.value)
    assert "<tinynn>:" in str(caught.value)


def test_a_kernel_refuses_a_callback():
    source = "def g(x: f32) -> f32:\n    return callback(total, x, result=f32)\n@kernel\ndef f(x: f32):\n"
    for body in ("    return callback(total, x, result=f32)\n", "    return g(x)\n"):
        with pytest.raises(TinyNNError, match="calls Python, which the kernel `f` cannot"):
            compile_cell(source + body)


# --- modules, files, caches ---------------------------------------------------------------------------------

CELL = "def f(x: Tensor[(4,), f32]):\n    return callback(square, x, result=Tensor[(4,), f32])\n"


def test_a_module_holds_the_function_and_its_text_the_name():
    module = compile_cell(CELL).relay
    np.testing.assert_array_equal(nnmagic.compile(module)(X), X * X)
    assert 'python.callback(%0, function="square", shapes=[[4]], dtypes=["float32"])' in str(module)


def test_relay_text_with_a_callback_is_refused_by_engines():
    text = """#[version = "0.0.5"]
def @main(%x: Tensor[(4), float32]) {
  python.callback((%x,), function="square", shapes=[[4]], dtypes=["float32"])
}
"""
    module = nnmagic.relay.parse(text)
    assert 'function="square"' in str(module)
    with pytest.raises(EngineError, match="the name of the Python function `square` alone"):
        nnmagic.compile(module)


def test_a_function_of_python_can_be_given_to_a_call():
    call = nnmagic.relay.PythonFunction(square, "square")
    x = nnmagic.relay.Var("x", nnmagic.relay.TensorType((4,), "float32"))
    body = nnmagic.relay.call(
        "python.callback", [nnmagic.relay.Tuple((x,))], function=call, shapes=[(4,)], dtypes=["float32"]
    )
    module = nnmagic.relay.Module({"main": nnmagic.relay.Function((x,), body)})
    np.testing.assert_array_equal(nnmagic.compile(module)(X), X * X)


def test_files_say_what_they_cannot_hold(tmp_path):
    function = compile_cell(CELL)
    for save in (lambda f: f.save(tmp_path / "f"), lambda f: f.to_onnx(tmp_path / "f.onnx")):
        with pytest.raises((TypeError, nnmagic.RelayError), match=r"`square`|python\.callback"):
            save(function)
    assert not list(tmp_path.iterdir())


UNTYPED = "def f(x):\n    return callback(square, x, result=Tensor[(4,), f32])\n"


@pytest.mark.parametrize("text", [CELL, UNTYPED], ids=["typed", "untyped"])
def test_a_pickle_holds_functions_of_python_as_pickles_do(text):
    function = nnmagic.compile(text, namespace={"square": square})
    expected = function(X)
    again = pickle.loads(pickle.dumps(function))
    np.testing.assert_array_equal(again(X), expected)
    assert pickle.loads(pickle.dumps(again)) is again
    local = nnmagic.compile(text, namespace={"square": lambda x: x * x})
    local(X)
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(local)
    cloudpickle = pytest.importorskip("cloudpickle")
    np.testing.assert_array_equal(pickle.loads(cloudpickle.dumps(local))(X), expected)


def test_another_function_of_the_same_name_is_another_cell():
    def cube(x):
        return x * x * x

    first = compile_cell(CELL)
    assert compile_cell(CELL).cache_info.hit == "memory"
    other = compile_cell(CELL, square=cube)
    assert other.cache_info.hit != "memory"
    np.testing.assert_array_equal(other(X), X**3)
    np.testing.assert_array_equal(first(X), X**2)


def test_step_shows_the_values_around_a_callback():
    shown = str(nnmagic.step(compile_cell(CELL), X))
    assert "python.callback" in shown
    assert "0 to 9" in shown


@pytest.mark.parametrize("engine", ["numpy", "auto"])
def test_an_argument_of_rank_0_is_a_numpy_scalar(engine: str) -> None:
    seen: list[object] = []

    def look(x, k):
        seen.extend((x, k))
        return round(x, 1) + k

    source = "def f(x: f64, k: i64):\n    return callback(look, x, k, result=f64)\n"
    function = nnmagic.compile(source, namespace={"look": look}, engine=engine, cache=False)
    assert function(1.26, np.int64(2)) == pytest.approx(3.3)
    assert [type(each) for each in seen] == [np.float64, np.int64]
