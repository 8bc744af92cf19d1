"""Compiled functions are functions of Python to its tools; ``def`` is the judge."""

import copy
import doctest
import functools
import importlib.util
import inspect
import pickle
import pydoc
import sys
import typing
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic import Tensor, f32, f64
from tests.child_process import run_python

MODULE = '''
"""A module of a package."""
import nnmagic
from nnmagic import Tensor, f64


@nnmagic.function(engine="numpy")
def area(width: f64, height: f64 = 2.0):
    """Return the area.

    >>> area(3.0)
    np.float64(6.0)
    >>> area(1.0, 1.0) + 1
    np.float64(2.0)
    """
    return width * height


@nnmagic.function(engine="numpy")
def doubled(x):
    """Return twice a number.

    >>> doubled(2.0)
    np.float64(4.0)
    """
    return x * 2


class Square:
    """A class."""

    def __init__(self, side):
        self.side = side

    area = staticmethod(area)
    grown = doubled
'''


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("package") / "areas_of_rectangles.py"
    path.write_text(MODULE, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = made
    spec.loader.exec_module(made)
    return made


def compiled() -> list[Any]:
    """A function with types, and one that waits for those of its calls."""

    @nnmagic.function(engine="numpy")
    def typed(x: Tensor[("n",), f64], k: f64 = 2.0):  # noqa: F821
        """Scale."""
        return x * k

    @nnmagic.function(engine="numpy")
    def untyped(x, k=2.0):
        """Scale."""
        return x * k

    return [typed, untyped]


X = np.arange(3.0)


@pytest.fixture(params=[0, 1], ids=["typed", "untyped"])
def function(request: pytest.FixtureRequest) -> Any:
    return compiled()[request.param]


def test_the_signature_is_that_of_the_source(function: Any) -> None:
    signature = inspect.signature(function)
    python = inspect.signature(function.__wrapped__)
    assert list(signature.parameters) == list(python.parameters) == ["x", "k"]
    assert [each.kind for each in signature.parameters.values()] == [
        each.kind for each in python.parameters.values()
    ]
    assert [each.default for each in signature.parameters.values()] == [inspect.Parameter.empty, 2.0]
    assert inspect.getfullargspec(function).args == ["x", "k"]
    out = np.empty(3)
    assert function(X, out=out) is out, "which needs not be listed"
    np.testing.assert_array_equal(out, X * 2)


def test_what_python_asks_of_a_function(function: Any) -> None:
    assert inspect.isroutine(function)
    assert callable(function)
    assert not inspect.isclass(function)
    assert not inspect.iscoroutinefunction(function)
    assert not inspect.isgeneratorfunction(function)
    assert inspect.isfunction(inspect.unwrap(function))
    assert inspect.unwrap(function).__code__ is function.__code__
    assert inspect.getmodule(function) is sys.modules[__name__]
    assert function.__module__ == __name__
    assert function.__qualname__ == f"compiled.<locals>.{function.name}"
    assert inspect.getdoc(function) == "Scale."
    assert f"def {function.name}(x" in inspect.getsource(function)
    assert inspect.getsourcefile(inspect.unwrap(function)) == __file__
    assert type(function).__module__.startswith("nnmagic.")
    assert (type(function).__doc__ or "").startswith(
        ("A compiled tensor function", "A function that its first call")
    )
    assert pickle.loads(pickle.dumps(type(function))) is type(function)
    assert repr(type(function)).startswith("<class 'nnmagic.functions.")


def test_annotations_are_those_of_the_parameters() -> None:
    typed, untyped = compiled()
    assert typed.__annotations__ == {"x": Tensor[("n",), f64], "k": f64, "return": Tensor[("n",), f64]}
    assert untyped.__annotations__ == {}
    assert typing.get_type_hints(typed) == {}, "what PEP 484 says of functions that are marked"


def test_attributes_are_set_and_deleted(function: Any) -> None:
    assert vars(function) == {}
    function.terminal = True
    function.direction = -1
    assert vars(function) == {"terminal": True, "direction": -1}
    del function.direction
    assert not hasattr(function, "direction")
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        before = getattr(function, name)
        setattr(function, name, "other")
        assert getattr(function, name) == "other"
        setattr(function, name, before)
    function.__name__ = "renamed"
    assert function.name != "renamed", "its name in Relay"
    np.testing.assert_array_equal(function(X), X * 2)
    again = pickle.loads(pickle.dumps(function))
    assert (again.terminal, again.__name__, again.__doc__) == (True, "renamed", "Scale.")
    np.testing.assert_array_equal(again(X), X * 2)
    assert copy.copy(function) is copy.deepcopy([function])[0] is function
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        function.missing  # noqa: B018
    for name in ("__call__", "name", "cache_info"):
        with pytest.raises(AttributeError):
            setattr(function, name, None)
    np.testing.assert_array_equal(function(X), X * 2)


def test_attributes_belong_to_one_object() -> None:
    """The same source again is another function, as in Python, though nothing is compiled again."""
    source = "def f(x: f64):\n    return x + 1\n\ndef g(x):\n    return x + 2\n"
    for name in ("f", "g"):
        text = source if name == "g" else source.partition("\n\n")[0] + "\n"
        first: Any = nnmagic.compile(text, engine="numpy")
        first.terminal = True
        first.__doc__ = "changed"
        second: Any = nnmagic.compile(text, engine="numpy")
        assert second.cache_info.hit == "memory" or name == "g"
        assert vars(second) == {}
        assert second.__doc__ is None


def test_wraps_copies_nothing_internal(function: Any) -> None:
    function.tag = "mine"

    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    assert vars(wrapper) == {"tag": "mine", "__wrapped__": function}
    assert wrapper.__name__ == function.name
    assert wrapper.__qualname__ == function.__qualname__
    assert wrapper.__module__ == __name__
    assert wrapper.__doc__ == "Scale."
    assert inspect.signature(wrapper) == inspect.signature(function)
    if sys.version_info < (3, 14):
        assert wrapper.__annotations__ == function.__annotations__
    np.testing.assert_array_equal(wrapper(X), X * 2)
    np.testing.assert_array_equal(functools.partial(function, k=3.0)(X), X * 3)
    np.testing.assert_array_equal(functools.lru_cache(lambda: function(X))(), X * 2)


def test_wrappers_travel_to_other_processes() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    for function in compiled():

        @functools.wraps(function)
        def wrapper(*args: Any, call: Any = function) -> Any:
            return call(*args)

        np.testing.assert_array_equal(cloudpickle.loads(cloudpickle.dumps(wrapper))(X), X * 2)


def test_a_class_has_methods(module: Any) -> None:
    square = module.Square(3.0)
    assert square.area(2.0, 5.0) == 10.0
    with pytest.raises(TypeError, match="must be an array or a number, not a Square"):
        square.grown()
    assert module.Square.grown(2.0) == 4.0

    class Number(float):
        grown = module.doubled

    bound = Number(3.0).grown
    assert inspect.ismethod(bound)
    assert bound.__func__ is module.doubled
    holder = ModuleType("holder")
    holder.area = module.area  # type: ignore[attr-defined]
    assert holder.area(2.0) == 4.0


def test_doctest_finds_the_examples(module: Any) -> None:
    found = {each.name: each for each in doctest.DocTestFinder().find(module)}
    for name in ("area", "doubled"):
        test = found[f"{module.__name__}.{name}"]
        assert len(test.examples) >= 1
        if test.lineno is not None:  # older versions of doctest look at functions of Python only
            assert '"""Return' in MODULE.splitlines()[test.lineno]
    if np.__version__ >= "2":
        assert doctest.testmod(module).failed == 0
        assert doctest.testmod(module).attempted == 3


@pytest.mark.full
def test_pytest_collects_the_examples(module: Any) -> None:
    path = Path(module.__file__)
    options = "-q", "-p", "no:cacheprovider", "--collect-only", "--doctest-modules"
    out = run_python("-m", "pytest", *options, str(path)).stdout
    assert f"{path.name}::{path.stem}.area" in out
    assert f"{path.name}::{path.stem}.doubled" in out


def test_pydoc_lists_and_shows_functions(module: Any) -> None:
    page = pydoc.plain(pydoc.render_doc(module))
    assert "area(width: f64, height: f64 = 2.0) -> f64" in page
    assert "doubled(x)" in page
    assert "Return the area." in page
    shown = pydoc.plain(pydoc.render_doc(module.area))
    assert shown.startswith("Python Library Documentation: CompiledFunction in module areas_of_rectangles")
    assert "Return the area." in shown


def test_the_functions_of_a_cell_have_code_too() -> None:
    """By it joblib.Memory knows that a function has changed."""
    texts = ["def f(x: f64):\n    return x + 1\n", "def f(x: f64):\n    return x + 2\n"]
    first, second = (nnmagic.compile(text, engine="numpy") for text in texts)
    assert inspect.isfunction(first.__wrapped__)
    assert first.__code__ != second.__code__
    assert inspect.getsource(first) == texts[0].rstrip()
    assert inspect.isroutine(inspect.unwrap(first))
    again = pickle.loads(pickle.dumps(first))
    assert inspect.getsource(again) == texts[0].rstrip()
    relay = nnmagic.relay.parse('#[version = "0.0.5"]\ndef @main(%x: float32) { add(%x, 1f) }')
    main: Any = nnmagic.compile(relay, engine="numpy")
    assert isinstance(main.__wrapped__, ModuleType), "what is no Python is the text of a module"
    assert not hasattr(main, "__code__")


def test_a_cache_of_results_notices_changes(tmp_path: Path) -> None:
    joblib = pytest.importorskip("joblib")
    results = []
    for line in ("x * 2", "x * 3"):
        path = tmp_path / "changing.py"
        path.write_text(
            "import nnmagic\nfrom nnmagic import Tensor, f64\n\n"
            "@nnmagic.function(engine='numpy')\n"
            f"def f(x: Tensor[('n',), f64]):\n    return {line}\n",
            encoding="utf-8",
        )
        done = run_python(
            "-c",
            f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.dont_write_bytecode = True\n"
            "import joblib, numpy as np, changing\n"
            f"f = joblib.Memory({str(tmp_path / 'cache')!r}, verbose=0).cache(changing.f)\n"
            "print(f(np.ones(2)).tolist(), f(np.ones(2)).tolist())",
        )
        results.append(done.stdout.strip())
    assert joblib is not None
    assert results == ["[2.0, 2.0] [2.0, 2.0]", "[3.0, 3.0] [3.0, 3.0]"]


def test_a_solver_reads_the_attributes() -> None:
    integrate = pytest.importorskip("scipy.integrate")

    @nnmagic.function(engine="numpy")
    def falling(t: f64, y: Tensor[(2,), f64]):
        return np.array([y[1], -9.81 + 0.0 * t])

    @nnmagic.function(engine="numpy")
    def hit(t: f64, y: Tensor[(2,), f64]):
        return y[0] + 0.0 * t

    hit.terminal = True
    hit.direction = -1.0
    solution = integrate.solve_ivp(falling, (0.0, 10.0), np.array([10.0, 0.0]), events=hit, rtol=1e-8)
    assert solution.status == 1
    assert solution.t[-1] == pytest.approx((2 * 10 / 9.81) ** 0.5)


def test_an_untyped_function_has_its_source() -> None:
    function: Any = nnmagic.compile("def f(x, k=2):\n    return x * k\n", engine="numpy")
    assert inspect.getsource(function) == "def f(x, k=2):\n    return x * k"
    assert inspect.isfunction(function.__wrapped__)
    assert function(np.float32(2)) == 4
    assert inspect.isfunction(function.specializations[0].__wrapped__)


def test_annotations_of_f32() -> None:
    f: Any = nnmagic.compile("def f(x: f32) -> f32:\n    return x\n", engine="numpy")
    assert f.__annotations__ == {"x": f32, "return": f32}
