"""A compiled function's public names: its call, `out`, its description; NumPy and Python are the judges."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
import sys
import threading

import numpy as np
import pytest

import nnmagic
from nnmagic import CompiledFunction, Tensor, f32

AFFINE = '''
def affine(a: Tensor[(2, 3), f32], b: Tensor[(3, 4), f32], c: Tensor[(2, 4), f32]):
    """A product and a sum."""
    d = a @ b
    e = d + c
    return e
'''


@pytest.fixture(scope="module")
def affine() -> CompiledFunction:
    return nnmagic.compile(AFFINE)


@pytest.fixture(scope="module")
def pair() -> CompiledFunction:
    return nnmagic.compile(
        "def pair(x: Tensor[('n',), f32], y: Tensor[('n',), f32]):\n    return x + y, x * y\n"
    )


@pytest.fixture
def arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype("float32") for shape in ((2, 3), (3, 4), (2, 4))]


def test_a_call_gives_what_numpy_gives(affine: CompiledFunction, arrays: list[np.ndarray]) -> None:
    a, b, c = arrays
    result = affine(a, b, c)
    assert type(result) is np.ndarray
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, a @ b + c, rtol=1e-5)
    np.testing.assert_array_equal(affine(a, c=c, b=b), result)


def python_twin(a, b, c, *, out=None):
    """Has the signature of ``affine``; Python says what is wrong with a call."""


@pytest.mark.parametrize(
    ("args", "keywords"),
    [
        ((), {}),
        ((1,), {}),
        ((1, 2), {}),
        ((1, 2), {"a": 1}),
        ((1, 2, 3), {"z": 1}),
        ((1, 2, 3), {"a": 1}),
    ],
)
def test_a_call_that_does_not_bind_raises_python_s_own_error(
    affine: CompiledFunction, args: tuple[int, ...], keywords: dict[str, int]
) -> None:
    with pytest.raises(TypeError) as python:
        python_twin(*args, **keywords)
    with pytest.raises(TypeError) as ours:
        affine(*args, **keywords)
    assert str(ours.value).split(". Did you mean")[0] == str(python.value).replace("python_twin", "affine")


def test_too_many_arguments_are_refused_and_counted(affine: CompiledFunction) -> None:
    with pytest.raises(TypeError, match=r"^affine\(\) takes 3 positional arguments but 4 were given$"):
        affine(1, 2, 3, 4)


def test_a_misspelt_keyword_is_guessed() -> None:
    scale = nnmagic.compile("def scale(data: Tensor[(2,), f32], factor: f32):\n    return data * factor\n")
    with pytest.raises(TypeError, match=r"'facter'\. Did you mean 'factor'\?"):
        scale(np.ones(2, "float32"), facter=1.0)


@pytest.mark.parametrize(
    ("index", "value", "kind", "words"),
    [
        (1, np.ones((3, 5), "float32"), ValueError, r"affine\(\) argument 'b' .*\(3, 5\).*dimension 1"),
        (0, np.ones((2, 3)), TypeError, r"affine\(\) argument 'a' .*float64.*astype"),
        (2, np.ones(4, "float32"), TypeError, r"affine\(\) argument 'c' .*rank 2"),
        (0, "text", TypeError, r"affine\(\) argument 'a' .*str"),
        (0, [[1.0, 2.0, 3.0]] * 2, TypeError, r"affine\(\) argument 'a' .*list.*numpy.asarray"),
        (0, None, TypeError, r"affine\(\) argument 'a' .*not None"),
    ],
)
def test_a_wrong_argument_is_named(
    affine: CompiledFunction, arrays: list[np.ndarray], index: int, value: object, kind: type, words: str
) -> None:
    arrays[index] = value
    with pytest.raises(kind, match=words) as caught:
        affine(*arrays)
    if sys.version_info >= (3, 11):
        assert len(caught.traceback) == 1, "no frame of nnmagic's is shown"


def test_named_dimensions_must_agree(pair: CompiledFunction) -> None:
    with pytest.raises(ValueError, match=r"""pair\(\) argument 'y' .*\("n"\) is 3 elsewhere"""):
        pair(np.ones(3, "float32"), np.ones(4, "float32"))


def test_a_result_never_shares_memory_with_an_argument_or_a_constant() -> None:
    table = np.arange(3, dtype="float32")
    both = nnmagic.compile(
        "def both(x: Tensor[(3,), f32]):\n    return x, table\n", namespace={"table": table}
    )
    x = np.ones(3, "float32")
    same, constant = both(x)
    same[:] = 7
    constant[:] = 7
    np.testing.assert_array_equal(x, np.ones(3))
    np.testing.assert_array_equal(both(x)[1], [0, 1, 2])


class TestOut:
    def test_is_filled_and_given_back(self, affine: CompiledFunction, arrays: list[np.ndarray]) -> None:
        out = np.empty((2, 4), "float32")
        assert affine(*arrays, out=out) is out
        np.testing.assert_array_equal(out, affine(*arrays))

    def test_may_be_a_view_of_any_layout(self, affine: CompiledFunction, arrays: list[np.ndarray]) -> None:
        whole = np.zeros((4, 4), ">f4")
        view = whole.T[::2]
        assert affine(*arrays, out=view) is view
        np.testing.assert_array_equal(view, affine(*arrays))

    def test_may_be_an_argument(self, pair: CompiledFunction) -> None:
        x = np.arange(4, dtype="float32")
        y = np.full(4, 2, "float32")
        pair(x, y, out=(y, x))
        np.testing.assert_array_equal(y, [2, 3, 4, 5])
        np.testing.assert_array_equal(x, [0, 2, 4, 6])

    @pytest.mark.parametrize(
        ("out", "kind", "words"),
        [
            (np.empty((4, 2), "float32"), ValueError, r"'out' must have the shape \(2, 4\), not \(4, 2\)"),
            (np.empty((2, 4)), TypeError, "'out' must be an array of float32, not of float64"),
            ([[0.0] * 4] * 2, TypeError, "'out' must be a NumPy array, not a list"),
            (np.broadcast_to(np.float32(0), (2, 4)), ValueError, "'out' is read-only"),
        ],
    )
    def test_must_fit(
        self, affine: CompiledFunction, arrays: list[np.ndarray], out: object, kind: type, words: str
    ) -> None:
        with pytest.raises(kind, match=words):
            affine(*arrays, out=out)

    def test_of_a_tuple_is_written_whole_or_not_at_all(self, pair: CompiledFunction) -> None:
        x = np.ones(3, "float32")
        first, wrong = np.zeros(3, "float32"), np.zeros(4, "float32")
        with pytest.raises(ValueError, match=r"'out'\[1\] must have the shape"):
            pair(x, x, out=(first, wrong))
        np.testing.assert_array_equal(first, 0)
        with pytest.raises(TypeError, match="must be a tuple of 2 arrays"):
            pair(x, x, out=first)
        with pytest.raises(ValueError, match="share memory"):
            pair(x, x, out=(first, first))

    @pytest.mark.full
    def test_as_a_parameter_s_name_is_the_parameter(self) -> None:
        twice = nnmagic.compile("def twice(out: Tensor[(2,), f32]):\n    return out + out\n")
        np.testing.assert_array_equal(twice(out=np.ones(2, "float32")), [2, 2])
        assert list(inspect.signature(twice).parameters) == ["out"]


def test_description(affine: CompiledFunction) -> None:
    assert affine.name == affine.__name__ == affine.__qualname__ == "affine"
    assert affine.__doc__ == "A product and a sum."
    assert affine.__dsl_code__.strip() == AFFINE.strip()
    signature = inspect.signature(affine)
    assert [parameter.annotation for parameter in signature.parameters.values()] == [
        Tensor[(2, 3), f32],
        Tensor[(3, 4), f32],
        Tensor[(2, 4), f32],
    ]
    assert signature.return_annotation == Tensor[(2, 4), f32]
    assert repr(affine) == (
        "<nnmagic function affine(a: Tensor[(2, 3), f32], b: Tensor[(3, 4), f32], c: Tensor[(2, 4), f32])"
        " -> Tensor[(2, 4), f32]>"
    )
    assert "A product and a sum." in pydoc.render_doc(affine)
    assert callable(affine)
    assert hash(affine) == hash(affine)


def test_relay_names(affine: CompiledFunction) -> None:
    expected = (  # the text that the issue of this function shows
        "def @affine(%a: Tensor[(2, 3), float32], %b: Tensor[(3, 4), float32], %c: Tensor[(2, 4), float32])"
        " -> Tensor[(2, 4), float32] {\n  %0 = nn.matmul(%a, %b, units=None);\n  add(%0, %c)\n}\n"
    )
    assert affine.relay_text == affine.__relay_code__ == affine.stages["relay"] == expected
    assert str(affine.relay) == affine.stages["relay-typed"]
    assert "/* ty=" in str(affine.relay)
    name, module = affine.__relay_global__
    assert name == "affine"
    assert module is affine.relay


def test_relay_holds_the_function_and_what_it_calls_alone() -> None:
    last = nnmagic.compile(
        "def _helper(x: Tensor[(2,), f32]):\n    return x + 1\n\n"
        "def unused(x: Tensor[(2,), f32]):\n    return x\n\n"
        "def last(x: Tensor[(2,), f32]):\n    return _helper(x)\n"
    )
    assert set(last.relay.functions) == {"_helper", "last"}
    np.testing.assert_array_equal(last(np.zeros(2, "float32")), [1, 1])


def test_copies_are_the_function_itself(affine: CompiledFunction) -> None:
    assert copy.copy(affine) is affine
    assert copy.deepcopy([affine])[0] is affine


def test_any_thread_may_make_the_first_call(arrays: list[np.ndarray]) -> None:
    function = pickle.loads(pickle.dumps(nnmagic.compile(AFFINE)))  # not built yet
    expected = arrays[0] @ arrays[1] + arrays[2]
    wrong = []

    def call() -> None:
        wrong.extend(i for i in range(50) if not np.allclose(function(*arrays), expected, rtol=1e-5))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_stages(affine: CompiledFunction) -> None:
    assert list(affine.stages) == [
        "source",
        "tree",
        "relay",
        "relay-typed",
        "passes",
        "relax",
        "tir",
        "llvm",
        "asm",
        "linked",
    ]
    assert len(affine.stages) == 10
    assert "tir" in affine.stages
    assert "nope" not in affine.stages
    assert affine.stages["source"] == affine.__dsl_code__
    assert affine.stages["tree"].startswith("Definition name='affine'")
    assert "Op name=MatMul" in affine.stages["tree"]
    assert "R.function" in affine.stages["relax"]
    assert "T.prim_func" in affine.stages["tir"]
    assert "define " in affine.stages["llvm"]
    assert "ret" in affine.stages["asm"]
    assert affine.stages["asm"] is affine.stages["asm"]
    with pytest.raises(
        KeyError, match=r"no stage 'nope'.*source, tree, relay, relay-typed, passes, relax, tir, llvm, asm"
    ):
        affine.stages["nope"]


def test_names_that_python_lacks_become_names_that_it_has() -> None:
    text = '#[version = "0.0.5"]\ndef @main(%if: float32, %x: float32, %x: float32) { add(%if, %x) }'
    function = nnmagic.compile(nnmagic.relay.parse(text))
    assert list(inspect.signature(function).parameters) == ["if_", "x", "x_1"]
    assert function(1.0, 2.0, 4.0) in (3.0, 5.0)


def test_parameters_may_have_any_name() -> None:
    function = nnmagic.compile("def f(self: f32, args: f32, kwargs: f32):\n    return self - args * kwargs\n")
    assert function(self=7.0, args=2.0, kwargs=3.0) == 1
    zero = nnmagic.compile("def zero():\n    return zeros((2,), dtype='float32')\n")
    np.testing.assert_array_equal(zero(), [0, 0])


def test_tuples_go_in_and_come_out() -> None:
    swap = nnmagic.compile(
        "def swap(p: tuple[Tensor[(2,), f32], f32]):\n    a, b = p\n    return b, (a, a + b)\n"
    )
    b, (a, total) = swap((np.ones(2, "float32"), 3.0))
    assert b == 3
    np.testing.assert_array_equal(a, [1, 1])
    np.testing.assert_array_equal(total, [4, 4])
    assert inspect.signature(swap).parameters["p"].annotation == tuple[Tensor[(2,), f32], f32]
    with pytest.raises(TypeError, match=r"swap\(\) argument 'p' must be a tuple of 2"):
        swap((1.0,))


def test_python_and_ipython_show_the_users_own_source() -> None:
    import inspect

    from IPython.core import oinspect

    text = 'def doubled(x: Tensor[("n",), f32]):\n    """Twice."""\n    return x + x\n'
    function = nnmagic.compile(text)
    assert inspect.getsource(function).rstrip() == text.rstrip()
    assert oinspect.getsource(function).rstrip() == text.rstrip()
    assert "<nnmagic doubled " in oinspect.find_file(function)
    assert "x: Tensor[('n',), f32]" in str(inspect.signature(function))
    main = nnmagic.compile(
        nnmagic.relay.parse('#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) {\n  add(%x, 2f)\n}')
    )
    assert "add(%x, 2f)" in inspect.getsource(main)


def test_an_unnamed_dimension_is_shown_without_quotes() -> None:
    function = nnmagic.compile("def f(x: Tensor[('n', 3), f32]):\n    return relay.argwhere(x)\n")
    assert repr(function) == "<nnmagic function f(x: Tensor[('n', 3), f32]) -> Tensor[(?, 2), i32]>"
