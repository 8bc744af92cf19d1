"""A sample of torch's own tests of operators; ``python -m tests.importers.torch.operators`` runs all."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

import nnmagic  # noqa: E402 - behind the skip
from tests.importers.torch import operators  # noqa: E402 - behind the skip

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own

#: Functions that each use others of core ATen's operators, and those of importers/torch/operators/counting
#: and importers/torch/operators/number_theory.
NAMES = (
    *("add", "addmm", "amax", "arange", "argmax", "as_strided", "atan2", "bmm", "cat", "clamp", "cumsum"),
    *("diagonal", "div.floor_rounding", "expand", "flip", "fmod", "gather", "index_put", "index_select"),
    *("masked_scatter", "max.reduction_with_dim", "nn.functional.avg_pool2d", "nn.functional.conv2d"),
    *("nn.functional.group_norm", "nn.functional.layer_norm", "nn.functional.max_pool2d", "nonzero"),
    *("permute", "pow", "prod", "remainder", "round", "scatter_add", "scatter_reduce.amax", "select_scatter"),
    *("slice_scatter", "softmax", "sort", "split", "topk", "tril", "var", "where"),
    *("bincount", "bucketize", "erfc", "gcd", "histc", "item", "lcm", "ldexp", "mode", "nextafter"),
    *("searchsorted", "special.erfcx"),
    *("angle", "diagonal_scatter", "index_reduce.mean", "logcumsumexp", "masked_select", "median"),
    *("nanmedian", "narrow_copy", "nn.functional.bilinear", "nn.functional.embedding", "put"),
    *("digamma", "dist", "lgamma", "polygamma.polygamma_n_4", "squeeze.multiple", "triu_indices"),
    *("frexp", "nonzero_static", "special.modified_bessel_i1", "special.spherical_bessel_j0"),
    *("erfinv", "i0", "special.i0e", "special.i1", "special.i1e", "special.log_ndtr", "special.ndtri"),
)
#: Functions of linear algebra, which SciPy's LAPACK computes.
LINEAR_ALGEBRA = (
    *("cholesky_inverse", "cholesky_solve", "linalg.eigh", "linalg.eigvalsh", "linalg.pinv"),
    *("linalg.pinv.hermitian", "linalg.solve", "linalg.solve_ex", "linalg.solve_triangular", "linalg.svd"),
    *("linalg.tensorsolve", "triangular_solve"),
)


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("name", NAMES)
def test_samples_of_torch(name: str) -> None:
    found = list(operators.run(name, operators.Options(2)))
    statuses = {item.status for item in found}
    assert "passes" in statuses
    assert statuses <= {"passes", "not run"}, [item.reason for item in found]


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("name", LINEAR_ALGEBRA)
def test_samples_of_linear_algebra(name: str) -> None:
    pytest.importorskip("scipy")
    test_samples_of_torch(name)


@pytest.mark.parametrize("name", ["remainder", "nn.functional.elu", "sum", "pow"])
def test_hostile_operands(name: str) -> None:
    found = list(operators.run(name, operators.Options(1, hostile=3, engine="numpy")))
    assert {item.status for item in found} <= {"passes", "sworn", "not run"}, found


@pytest.mark.full
@pytest.mark.skipif(
    os.environ.get("NNMAGIC_STRESS") != "1", reason="they take half an hour: NNMAGIC_STRESS=1"
)
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("engine", ["numpy", "relax"])
@pytest.mark.parametrize("dtype", operators.DTYPES)
def test_hostile_operands_of_many_functions(dtype: str, engine: str) -> None:
    """``python -m tests.importers.torch.operators --hostile N --seed S --dtype ...`` has all functions."""
    names = operators.part(operators.functions(), f"{operators.DTYPES.index(dtype) + 1}/40")
    found, unreached = operators.run_in_process(names, operators.Options(1, dtype, 3, 0, engine))
    assert not unreached
    assert not [item for item in found if item.status in ("wrong", "error")]


def test_the_logarithm_of_the_gamma_function_near_its_roots_and_poles() -> None:
    """Python's own function judges; near the roots, where it loses digits, the tangents do."""
    plain = [1.24, 1.26, 0.49, 0.51, -0.999999, -2.5, -30.25, 1e-300, -1e-20, -1e-12, 1e300, 171.0]
    plain += [5e-324, -5e-324, 2e-310]
    roots, poles = [1 + 1e-9, 2 - 1e-9], [math.inf, -1.0, 0.0, -1.7976931348623157e308]
    data = torch.tensor([*plain, *roots, *poles], dtype=torch.float64)
    found = nnmagic.from_torch(torch.lgamma, (data,))(data).numpy()
    np.testing.assert_allclose(found[: len(plain)], [math.lgamma(x) for x in plain], rtol=1e-13)
    tangents = [-np.euler_gamma * (roots[0] - 1), (1 - np.euler_gamma) * (roots[1] - 2)]
    np.testing.assert_allclose(found[len(plain) : -len(poles)], tangents, rtol=1e-8)
    assert np.isposinf(found[-len(poles) :]).all()


def test_the_norm_of_one_element_is_its_size() -> None:
    """Its square, or its cube, would overflow."""
    data = torch.tensor([[-1.7e308], [1e-300]], dtype=torch.float64)

    def norms(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        of_rows = [torch.linalg.vector_norm(x, p, dim=1) for p in (0, 1, 2, 3, math.inf)]
        return (*of_rows, torch.linalg.norm(x[:1, :1]), torch.nn.functional.pairwise_distance(x, x * 0))

    for found, expected in zip(nnmagic.from_torch(norms, (data,))(data), norms(data), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_integers_at_equal_distances(dtype: torch.dtype) -> None:
    """torch's own decomposition computes them in float32: it has 5 for eager torch's 4."""

    def sequences(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ends = ((4, 9, 50), (0, 10, 7), (7, 3, 1), (0, 100, 0), (120, 3, 33), (1.9, 77.9, 12))
        return tuple(torch.linspace(*each, dtype=dtype) + x for each in ends)

    x = torch.tensor(0, dtype=dtype)
    captured = nnmagic.from_torch(sequences, (x,), engine="numpy")(x)
    compiled = torch.compile(sequences, backend="nnmagic", options={"engine": "numpy"})(x)
    for one, other, expected in zip(captured, compiled, sequences(x), strict=True):
        assert torch.equal(one, expected)
        assert torch.equal(other, expected)


def test_the_extremes_of_scattered_bools() -> None:
    x = torch.tensor([[True, False, True], [False, False, True]])
    places = torch.tensor([[0, 2, 2], [1, 1, 0]])
    source = torch.tensor([[False, True, False], [False, True, True]])

    def extremes(x: torch.Tensor, places: torch.Tensor, source: torch.Tensor) -> list[torch.Tensor]:
        kinds = [(name, own) for name in ("amin", "amax") for own in (True, False)]
        return [x.scatter_reduce(1, places, source, name, include_self=own) for name, own in kinds]

    given = (x, places, source)
    found = nnmagic.from_torch(extremes, given, engine="numpy")(*given)
    assert all(map(torch.equal, found, extremes(*given)))


def test_the_factor_of_a_matrix_with_nan_is_refused() -> None:
    x = torch.eye(3, dtype=torch.float64)
    x[1, 1] = math.nan
    for function in (torch.linalg.cholesky, lambda x: torch.linalg.cholesky_ex(x)[0]):
        with pytest.raises(Exception, match="Matrix is not positive definite"):
            nnmagic.from_torch(function, (x,), engine="numpy")(x)


@pytest.mark.parametrize("number", [math.inf, math.nan])
def test_singular_values_of_infinite_matrices_end(number: float) -> None:
    """LAPACK has looked for those of infinities forever."""
    x = torch.arange(25.0, dtype=torch.float64).reshape(5, 5) ** 1.5
    x[4, 0] = number
    with pytest.raises(np.linalg.LinAlgError, match="SVD did not converge"):
        nnmagic.from_torch(torch.linalg.svdvals, (x,), engine="numpy")(x)


def test_the_derivatives_of_the_gamma_function_near_its_pole_at_0() -> None:
    """There they are those of -log(x), with terms of order 1 that are far below the tolerance."""
    x = np.array([-1e-17, -1e-12, 1e-17, 1e-12, -1e-300])
    data = torch.tensor(x)
    found = nnmagic.from_torch(lambda x: (torch.digamma(x), torch.polygamma(1, x)), (data,))(data)
    np.testing.assert_allclose(found[0].numpy(), -1 / x, rtol=1e-11)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(found[1].numpy(), 1 / x**2, rtol=1e-11)
    far = torch.tensor([math.inf], dtype=torch.float64)
    assert nnmagic.from_torch(lambda x: torch.polygamma(1, x), (far,))(far).item() == 0


@pytest.mark.parametrize("engine", ["numpy", "relax"])
def test_searches_and_running_extremes_of_hostile_numbers(engine: str) -> None:
    """NaN is behind all numbers; no element behind a prefix is its extreme."""
    floats = torch.tensor([math.nan, 1.5, -math.inf, math.nan, -math.inf, math.inf])
    bytes_ = torch.tensor([0, 0, 3, 0, 255, 7], dtype=torch.uint8)
    longs = torch.tensor([-(2**63), 5, -(2**63), 2**63 - 1])

    def f(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = torch.bucketize(x, torch.tensor([0.0, 1.0, 2.0]))
        return found, *x.cummax(0), *x.cummin(0), *y.cummax(0), *z.cummax(0), *z.cummin(0)

    arguments = (floats, bytes_, longs)
    found = nnmagic.from_torch(f, arguments, engine=engine)(*arguments)
    torch.testing.assert_close(found, f(*arguments), equal_nan=True)


def test_mantissas_and_exponents_of_hostile_floats() -> None:
    tiny = torch.tensor([0.0, -0.0, 1e-40, -1e-45, math.inf, math.nan, -3.5, 3e38, 1e-7])
    given = (tiny, tiny.double() * 1e-300, tiny.half())

    def parts(*given: torch.Tensor) -> list[torch.Tensor]:
        return [part for x in given for part in torch.frexp(x)]

    found = nnmagic.from_torch(parts, given, engine="numpy")(*given)
    for one, expected in zip(found, parts(*given), strict=True):
        torch.testing.assert_close(one, expected, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(torch.signbit(one), torch.signbit(expected)) or expected.isnan().any()


@pytest.mark.parametrize("shape", [(), (0, 2), (1,), (2, 1, 3)])
@pytest.mark.parametrize("size", [0, 2, 9])
def test_so_many_places_that_are_not_0(shape: tuple[int, ...], size: int) -> None:
    x = torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape) % 3

    def places(x: torch.Tensor) -> list[torch.Tensor]:
        each = (x, x > 0, torch.where(x > 1, math.nan, x))
        return [torch.nonzero_static(one, size=size, fill_value=-7) for one in each]

    found = nnmagic.from_torch(places, (x,), engine="numpy")(x)
    assert all(map(torch.equal, found, places(x)))


def test_negative_powers_of_integers() -> None:
    base, power = torch.tensor([-1, -1, 1, 2, -1]), torch.tensor([-5, -4, -7, -1, 3])
    found = nnmagic.from_torch(torch.pow, (base, power), engine="numpy")(base, power)
    assert found.tolist() == torch.pow(base, power).tolist()


def test_factors_that_are_arguments() -> None:
    matrix, right = torch.eye(3) + torch.arange(9.0).reshape(3, 3), torch.ones(3, 1)
    factors, pivots = torch.linalg.lu_factor(matrix)
    function = nnmagic.from_torch(torch.linalg.lu_solve, (factors, pivots, right), engine="numpy")
    expected = torch.linalg.lu_solve(factors, pivots, right)
    torch.testing.assert_close(function(factors, pivots, right), expected)
    with pytest.raises(AssertionError, match="a pivot is no row of the matrix"):
        function(factors, pivots + 3, right)


@pytest.mark.parametrize("dynamic", [False, True])
def test_distinct_slices(dynamic: bool) -> None:
    """They are in the order of their first element that differs, or one for each run."""

    def distinct(x: torch.Tensor) -> tuple[Any, ...]:
        rows = torch.unique(x, dim=0, return_inverse=True, return_counts=True)
        columns = torch.unique(x, dim=-1, return_counts=True)
        runs = torch.unique_consecutive(x.repeat_interleave(2, 0), dim=0, return_inverse=True)
        return *rows, *columns, *runs, torch.unique(x > 0, dim=1)

    torch._dynamo.reset()
    options = {"engine": "numpy"}
    compiled = torch.compile(distinct, backend="nnmagic", dynamic=dynamic, fullgraph=True, options=options)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for rows in ([[1, 2, 2], [0, 9, 9], [1, 2, 2], [1, -1, -1]], [[3, 1, 1], [3, 1, 1]]):
            x = torch.tensor(rows)
            for found, expected in zip(compiled(x), distinct(x), strict=True):
                torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_bools_that_are_added_up() -> None:
    x, places = torch.zeros(4, dtype=torch.bool), torch.tensor([1, 1, 3])
    updates = torch.tensor([True, False, False])

    def puts(x: torch.Tensor, places: torch.Tensor, updates: torch.Tensor) -> list[torch.Tensor]:
        together = [x.index_put((places,), updates, accumulate=True), x.put(places, updates, accumulate=True)]
        return [*together, (~x).index_put((places,), updates), (~x).put(places, updates)]

    given = (x, places, updates.logical_not())
    found = nnmagic.from_torch(puts, given, engine="numpy")
    for last in (given[2], updates & False):
        assert all(map(torch.equal, found(x, places, last), puts(x, places, last)))


def test_searches_of_numbers_of_another_dtype() -> None:
    """They are searched in the dtype of both: 1.5 is behind the integer 1, and 1e-300 is behind 0."""
    bounds = torch.tensor([0, 1, 2])
    values, small = torch.tensor([1.5, 0.0, -0.5, 2.5]), torch.tensor([1e-300, -1e-300], dtype=torch.float64)

    def search(bounds: torch.Tensor, values: torch.Tensor, small: torch.Tensor) -> list[torch.Tensor]:
        rows = torch.searchsorted(torch.stack([bounds, bounds + 1]), torch.stack([values, values]))
        numbers = torch.bucketize(0.5, bounds), torch.bucketize(small, bounds.float())
        return [torch.bucketize(values, bounds, right=True), rows, *numbers, torch.bucketize(bounds, values)]

    given = (bounds, values.sort().values, small)
    found = nnmagic.from_torch(search, given, engine="numpy")(*given)
    assert all(map(torch.equal, found, search(*given)))
