"""Machine code makes results as large as they can be and cuts them to the sizes that values decide."""

import threading
from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic.functions.inspection.profile import profile

X = np.random.default_rng(0).standard_normal((8, 16)).astype("f4")
SHAPES = [(8, 16), (1, 1), (3, 40), (0, 4), (5, 0), (60, 50)]


def compiled(text: str, sizes: str = "'n', 'k'", dtype: str = "f32") -> Any:
    source = f"def f(x: Tensor[({sizes}), {dtype}]):\n    return {text}\n"
    return nnmagic.compile(source, namespace={"np": np}, cache=False)


def is_machine_code(f: Any) -> bool:
    return "nnmagic_entry" in f.stages["asm"]


@pytest.mark.full
@pytest.mark.parametrize(
    "text",
    [
        "x[x > 0.5]",
        "np.nonzero(x)",
        "np.argwhere(x > 0)",
        "x[x[:, 0] > 0] * 2",
        "x[x > 0].sum(), x.size, x[x > 0] + 1",
        "np.unique(x.astype('int32'), return_counts=True, return_inverse=True)",
        "np.bincount(np.abs(x * 9).astype('int32').ravel())",
        "np.bincount((x > 0).astype('int32').ravel(), minlength=400)",
    ],
)
def test_results(text: str) -> None:
    f = compiled(text)
    assert is_machine_code(f)
    for scale in (1, 0, 50):
        for shape in SHAPES:
            x = np.resize(X, shape) * np.float32(scale)
            try:
                expected = eval(text, {"np": np, "x": x})
            except (IndexError, ValueError):
                with pytest.raises((IndexError, ValueError)):
                    f(x)
                continue
            results = f(x)
            single = not isinstance(expected, tuple)
            for result, wanted in zip(
                *((each,) if single else each for each in (results, expected)), strict=True
            ):
                assert result.shape == np.shape(wanted)
                assert result.nbytes == np.asarray(wanted).nbytes or np.isscalar(wanted)
                np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


def test_results_own_their_memory() -> None:
    f = compiled("x[x > 0]", "8, 16")
    first, second = f(X), f(X)
    assert first.flags.owndata
    assert first.flags.writeable
    assert first.flags.c_contiguous
    first[:] = 0
    assert np.array_equal(second, X[X > 0])
    assert np.array_equal(f(X), second)


@pytest.mark.full
def test_calls_that_need_more_room_than_arrays_have_elements() -> None:
    f = nnmagic.compile(
        "def f(x: Tensor[('n',), i64], y: Tensor[('n',), i64]):\n"
        "    return np.bincount(x), np.bincount(y) + 1, np.bincount(x)[np.bincount(x) > 0].sum()\n",
        namespace={"np": np},
        cache=False,
    )
    assert is_machine_code(f)
    for x, y in (([3, 1], [2, 2]), ([70, 70], [5000, 1]), ([100_000, 1], [70, 3]), ([3, 1], [2, 2])):
        results = f(np.array(x), np.array(y))
        assert np.array_equal(results[0], np.bincount(x))
        assert np.array_equal(results[1], np.bincount(y) + 1)
        assert results[2] == len(x)
    with pytest.raises((ValueError, IndexError)):
        f(np.array([-1]), np.array([1]))
    with pytest.raises(MemoryError):
        f(np.array([1 << 45]), np.array([1]))
    assert np.array_equal(f(np.array([1]), np.array([1]))[0], [0, 1])


@pytest.mark.full
def test_large_arrays() -> None:
    """Where room for all elements would be much memory, a call takes what it needs."""
    f = compiled("x[x > 0], np.flatnonzero(x < -3)")
    for shape in ((3000, 700), (8, 16)):
        x = np.random.default_rng(0).standard_normal(shape).astype("f4")
        results = f(x)
        assert np.array_equal(results[0], x[x > 0])
        assert np.array_equal(results[1], np.flatnonzero(x < -3))


def test_other_forms_of_arguments_and_threads() -> None:
    f = compiled("np.flatnonzero(x > 0)")
    wide = np.repeat(X, 2, axis=1)[:, ::2]
    expected = np.flatnonzero(X > 0)
    assert np.array_equal(f(wide), expected)
    assert np.array_equal(f(x=X), expected)
    with pytest.raises((TypeError, ValueError), match="'x'"):
        f(X[0])
    found: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: found.extend(f(X) for _ in range(50))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 200
    assert all(np.array_equal(each, expected) for each in found)


@pytest.mark.full
def test_what_prints_does_so_once(capfd: pytest.CaptureFixture[str]) -> None:
    f = nnmagic.compile(
        "def f(x: Tensor[('n',), i64]):\n    print(x[0])\n    return np.bincount(x)\n",
        namespace={"np": np},
        cache=False,
    )
    assert len(f(np.array([5000]))) == 5001
    assert capfd.readouterr().out.count("5000") == 1


@pytest.mark.full
def test_profile() -> None:
    kernels = profile(compiled("x[x > 0]", "8, 16"), (X,), {}).kernels
    names = " ".join(kernel.name for kernel in kernels)
    assert "argwhere" in names
    assert "adv_index" in names


@pytest.mark.machine_code
def test_branches_whose_arrays_exchange_their_sizes():
    f = nnmagic.compile(
        'def f(x: Tensor[("n",), f64], y: Tensor[("m",), f64], straight: bool_):\n'
        "    if straight:\n"
        "        a, b = x * 2.0, y * 3.0\n"
        "    else:\n"
        "        a, b = y * 2.0, x * 3.0\n"
        "    c, d = sort(a), cumsum(b)\n"
        "    return c, d, concatenate((c, d))\n"
    )
    for n, m in ((700, 80), (80, 700), (50, 3)):
        x, y = np.random.default_rng(n).random(n), np.random.default_rng(m).random(m)
        for straight in (True, False):
            a, b = (x, y) if straight else (y, x)
            c, d = np.sort(a * 2), np.cumsum(b * 3)
            for ours, expected in zip(f(x, y, straight), (c, d, np.concatenate((c, d))), strict=True):
                np.testing.assert_allclose(ours, expected, rtol=1e-12)
