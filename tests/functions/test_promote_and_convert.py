"""``convert=True`` takes arguments that lose nothing; ``promote`` says how dtypes meet."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import nnmagic

SOURCE = 'def f(x: Tensor[("n",), f64], k: i64 = 2):\n    return x * float(k)\n'


@pytest.mark.parametrize(
    "value",
    [
        np.array([1.5, 2.5], "float32"),
        np.array([1, 2], "int32"),
        np.array([True, False]),
        [1, 2, 3],
        [0.5, 1.5],
        np.array([1.5, 2.5], ">f8"),
    ],
    ids=str,
)
def test_arguments_that_lose_nothing_are_converted(value: object) -> None:
    f = nnmagic.compile(SOURCE, convert=True)
    for each in (f, pickle.loads(pickle.dumps(f))):
        np.testing.assert_array_equal(each(value, np.int16(3)), np.asarray(value, "float64") * 3)
    if not isinstance(value, np.ndarray) or value.dtype.newbyteorder("=") != np.float64:
        with pytest.raises(TypeError, match=r"'x' must be Tensor\[\(\"n\",\), f64\]"):
            nnmagic.compile(SOURCE)(value)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        ("f32", np.array([1.5], "float64")),
        ("f64", np.array([1], "int64")),
        ("i32", np.array([1], "int64")),
        ("u32", np.array([1], "int32")),
        ("i64", [1.5]),
        ("u8", [300]),
        ("f32", [1e300]),
        ("f32", ["a"]),
    ],
    ids=str,
)
def test_what_may_lose_something_is_refused(annotation: str, value: object) -> None:
    f = nnmagic.compile(f'def f(x: Tensor[("n",), {annotation}]):\n    return x\n', convert=True)
    with pytest.raises((TypeError, ValueError), match="argument 'x' must be"):
        f(value)


def test_open_types_take_lists() -> None:
    f = nnmagic.compile("def f(x: Tensor[..., f64], y):\n    return x.sum() + y.sum()\n", convert=True)
    assert f(np.ones(3, "float32"), [0.5, 1.5]) == 5.0


def test_both_are_part_of_the_key() -> None:
    keys = {
        nnmagic.compile(SOURCE, **options).cache_info.key
        for options in ({}, {"promote": True}, {"promote": False}, {"convert": True})
    }
    assert len(keys) == 4
    with pytest.raises(TypeError, match="promote must be True, False or None"):
        nnmagic.compile(SOURCE, promote=1)


@pytest.mark.parametrize(
    ("given", "converts"),
    [
        (np.ones(3, np.float32), True),
        ([1, 2, 3], True),
        (np.ones(3, np.int64), False),
        (np.ones((3, 1), np.float32), False),
        (["a"], False),
    ],
)
def test_the_message_says_whether_convert_would_do(given: object, converts: bool) -> None:
    source = "def f(x: Tensor[(3,), f64]):\n    return x\n"
    with pytest.raises(TypeError) as caught:
        nnmagic.compile(source)(given)
    hint = ", or in every call: %%tinynn --convert, in a file convert=True"
    assert str(caught.value).endswith(hint) == converts
    if converts:
        np.testing.assert_array_equal(nnmagic.compile(source, convert=True)(given), given)


KINDS = {
    **dict.fromkeys(("bool_",), "bool"),
    **{f"{kind[0]}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "c64": "complex64",
    "c128": "complex128",
}


@pytest.mark.parametrize("annotation", KINDS)
def test_same_kind_is_numpy_s_rule(annotation: str) -> None:
    source = f'def f(x: Tensor[("n",), {annotation}]):\n    return x\n'
    f = nnmagic.compile(source, convert="same_kind", engine="numpy")
    pattern = nnmagic.compile(
        f"def f(x: Tensor[..., {annotation}]):\n    return x\n", convert="same_kind", engine="numpy"
    )
    for given in KINDS.values():
        value = np.array([1, 0, 1], given)
        for function in (f, pattern):
            if np.can_cast(given, KINDS[annotation], "same_kind"):
                result = function(value)
                assert result.dtype == KINDS[annotation]
                np.testing.assert_array_equal(result, value)
            else:
                with pytest.raises(TypeError, match="argument 'x' must be"):
                    function(value)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        ("i32", np.array([1, 2**31])),
        ("i8", np.array([200], "uint8")),
        ("i64", np.array([2**63], "uint64")),
        ("f32", np.array([1e300, np.nan])),
        ("f16", np.array([70_000])),
        ("c64", np.array([1e300j])),
        ("u8", [300]),
    ],
    ids=str,
)
def test_same_kind_changes_no_number_to_another(annotation: str, value: object) -> None:
    f = nnmagic.compile(
        f'def f(x: Tensor[("n",), {annotation}]):\n    return x\n', convert="same_kind", engine="numpy"
    )
    with pytest.raises(ValueError, match="argument 'x' must be of"):
        f(value)


def test_same_kind_rounds_as_numpy_does() -> None:
    f = nnmagic.compile(
        "def f(x: Tensor[('n',), f32], y: tuple[Tensor[('n',), f32], Tensor[('n',), bf16]]):\n"
        "    return x, y[0], y[1]\n",
        convert="same_kind",
        engine="numpy",
    )
    x = np.array([0.1, np.inf, np.nan, 1e-300])
    results = f(x, (np.array([2**40 + 1] * 4), np.float32([0.1] * 4)))
    np.testing.assert_array_equal(results[0], x.astype("f4"))
    np.testing.assert_array_equal(results[1], np.array([2**40 + 1] * 4).astype("f4"))
    assert results[2].dtype.name == "bfloat16"
    assert f.cache_info.key != nnmagic.compile(f.__dsl_code__, convert=True, engine="numpy").cache_info.key
    for wrong, kind in (("unsafe", ValueError), (1, TypeError), (None, TypeError)):
        with pytest.raises(kind, match="convert must be True, False or 'same_kind'"):
            nnmagic.compile(SOURCE, convert=wrong)


@pytest.mark.parametrize("convert", [False, True, "same_kind"])
@pytest.mark.parametrize("value", [[1.0, 2.0], np.ones(2, "f4"), np.ones(2, ">f8"), (1.0,), None], ids=str)
def test_what_a_call_changes_is_never_converted(convert: object, value: object) -> None:
    """No option would help, and no message says that one would."""
    f = nnmagic.compile(
        "def f(x: InOut[Tensor[('n',), f64]], y: Tensor[('n',), f64]):\n    x[...] = y\n",
        convert=convert,
        engine="numpy",
    )
    with pytest.raises(TypeError, match="argument 'x' is changed by the call") as caught:
        f(value, np.ones(2))
    assert "--convert" not in str(caught.value)
    x = np.zeros(2)
    if convert:
        f(x, np.ones(2, "f4"))
        assert x.tolist() == [1, 1]
    else:
        with pytest.raises(TypeError, match=r"argument 'y' must be .*in a file convert=True$"):
            f(x, np.ones(2, "f4"))
