"""Define the methods of NumPy's generator of random numbers, and what makes one.

Each gives a `Draw`, which the elaboration carries out: the generator has another state afterwards.

Their reference: https://numpy.org/doc/stable/reference/random/generator.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from nnmagic.relay.generators import seeded, state_of
from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import is_integer
from nnmagic.tinynn.builtins.argument_checks import (
    as_formula,
    choice_argument,
    dtype_argument,
    flag,
    python_number,
    static_value_or_none,
)
from nnmagic.tinynn.builtins.distributions import (
    INTEGERS,
    ROWS,
    DistributionParameter,
    array_of,
    draw,
    draw_alone,
    is_not_negative,
    number_of_constant,
    of_size,
    parameter_words,
    require_number,
    shape,
    to_number,
)
from nnmagic.tinynn.builtins.random_orders import choice, permutation, permute
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import constant_of
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, cell_function
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.symbolic_sizes import as_number, size_along

#: The parameters of the distributions: their names with ``#`` after those of integers, their defaults, and
#: what NumPy requires of them.
_DISTRIBUTIONS = {
    "normal": ("loc=0, scale=1 >=0", "Return numbers of the normal distribution."),
    "uniform": ("low=0, high=1", "Return numbers of the uniform distribution over [low, high)."),
    "exponential": ("scale=1 >=0", "Return numbers of the exponential distribution."),
    "gamma": ("shape >=0, scale=1 >=0", "Return numbers of the gamma distribution."),
    "beta": ("a >0, b >0", "Return numbers of the beta distribution."),
    "chisquare": ("df >0", "Return numbers of the chi-square distribution."),
    "noncentral_chisquare": ("df >0, nonc >=0", "Return numbers of the noncentral chi-square distribution."),
    "f": ("dfnum >0, dfden >0", "Return numbers of the F distribution."),
    "noncentral_f": ("dfnum >0, dfden >0, nonc >=0", "Return numbers of the noncentral F distribution."),
    "standard_t": ("df >0", "Return numbers of Student's t distribution."),
    "standard_cauchy": ("", "Return numbers of the Cauchy distribution."),
    "vonmises": ("mu, kappa >=0", "Return angles of the von Mises distribution."),
    "pareto": ("a >0", "Return numbers of the Pareto II (Lomax) distribution."),
    "weibull": ("a >=0", "Return numbers of the Weibull distribution."),
    "power": ("a >0", "Return numbers of the power distribution."),
    "laplace": ("loc=0, scale=1 >=0", "Return numbers of the Laplace distribution."),
    "gumbel": ("loc=0, scale=1 >=0", "Return numbers of the Gumbel distribution."),
    "logistic": ("loc=0, scale=1 >=0", "Return numbers of the logistic distribution."),
    "lognormal": ("mean=0, sigma=1 >=0", "Return numbers of the log-normal distribution."),
    "rayleigh": ("scale=1 >=0", "Return numbers of the Rayleigh distribution."),
    "wald": ("mean >0, scale >0", "Return numbers of the Wald distribution."),
    "triangular": ("left, mode, right", "Return numbers of the triangular distribution."),
    "binomial": ("n# >=0, p 0..1", "Return integers of the binomial distribution."),
    "negative_binomial": ("n >0, p above 0..1", "Return integers of the negative binomial distribution."),
    "poisson": ("lam=1 mean", "Return integers of the Poisson distribution."),
    "zipf": ("a >1", "Return integers of the Zipf distribution."),
    "geometric": ("p above 0..1", "Return integers of the geometric distribution."),
    "hypergeometric": (
        "ngood# >=0, nbad# >=0, nsample# >=0",
        "Return integers of the hypergeometric distribution.",
    ),
    "logseries": ("p 0..below 1", "Return integers of the logarithmic series distribution."),
}


# -- distributions ---------------------------------------------------------------------------------------


def _distribution(name: str) -> Callable[[Arguments], v.Value]:
    text, _ = _DISTRIBUTIONS[name]
    declared = parameter_words(text) if text else ()

    def apply_to(call: Arguments) -> v.Value:
        parameters = _check(call, name, [each.read(call, "float64") for each in declared])
        like, fitted = shape(call, "int64" if name in INTEGERS else "float64", parameters)
        return draw(call, name, like, fitted, to_number if draw_alone(call, parameters) else None)

    return apply_to


def _check(call: Arguments, name: str, parameters: list[Formula]) -> list[Formula]:
    """Check parameters that are known with NumPy itself, and others that belong together."""
    numbers = [number_of_constant(parameter) for parameter in parameters]
    if all(number is not None for number in numbers):
        try:
            with np.errstate(all="ignore"):
                getattr(np.random.default_rng(0), name)(*numbers)
        except (ValueError, OverflowError) as error:
            raise v.RefusalError(f"{call.name}: {error}", call.span) from None
        return parameters
    match name, parameters:
        case "uniform", [low, high]:
            width = high - low
            low = require_number(call, low, width.op("isfinite"), "high - low range exceeds valid bounds")
            return [require_number(call, low, is_not_negative(width), "high - low < 0"), high]
        case "triangular", [lhs, mode, rhs]:
            lhs = require_number(call, lhs, ~(lhs > mode), "left > mode")
            lhs = require_number(call, lhs, ~(mode > rhs), "mode > right")
            return [require_number(call, lhs, ~lhs.equal(rhs), "left == right"), mode, rhs]
        case "hypergeometric", [good, bad, sample]:
            both = (good < 10**9) & (bad < 10**9)
            good = require_number(call, good, both, "both ngood and nbad must be less than 1000000000")
            return [require_number(call, good, ~(good + bad < sample), "ngood + nbad < nsample"), bad, sample]
    return parameters


def _float_dtype(call: Arguments) -> str:
    dtype = dtype_argument(call) or "float64"
    if dtype not in ("float32", "float64"):
        raise call.refusal("dtype", f"`dtype` must be f32 or f64, not {dtype_short_name(dtype)}")
    return dtype


def _standard(name: str) -> Callable[[Arguments], v.Value]:
    """Return a method without parameters, or with one, that draws f32 or f64."""

    def apply_to(call: Arguments) -> v.Value:
        dtype = _float_dtype(call)
        parameters = (
            [DistributionParameter("shape", ">=0").read(call, dtype)] if name == "standard_gamma" else []
        )
        if parameters and isinstance(number := number_of_constant(parameters[0]), float) and number < 0:
            raise call.refusal("shape", "shape < 0")
        like, fitted = shape(call, dtype, parameters)
        method = choice_argument(call, "method", ("zig", "inv"), "zig") if "method" in call else "zig"
        function = name if method == "zig" else f"{name} {method}"
        return draw(call, function, like, fitted, to_number if draw_alone(call, parameters) else None)

    return apply_to


def _integers(call: Arguments) -> v.Value:
    dtype = dtype_argument(call) or "int64"
    if not is_integer(dtype) and dtype != "bool":
        message = f"`dtype` must be an integer dtype or bool_, not {dtype_short_name(dtype)}"
        raise call.refusal("dtype", message)
    ends = [call.given["low"], call.given["high"]] if "high" in call else [None, call.given["low"]]
    low, high = (v.Operand(v.Known(0), call.span) if end is None else as_number(end) for end in ends)
    parameters = _range(call, low, high, dtype)
    like, fitted = shape(call, dtype, parameters)
    return draw(call, "integers", like, fitted)


def _range(call: Arguments, low: v.Operand, high: v.Operand, dtype: str) -> list[Formula]:
    """Return the least and the greatest integer of a range, checked. Raises RefusalError."""
    closed = flag(call, "endpoint")
    first, last = python_number(low.value), python_number(high.value)
    limits = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if isinstance(first, int) and isinstance(last, int):
        last -= not closed
        if first > last:
            raise v.RefusalError(f"{call.name}: low {'>' if closed else '>='} high", high.span)
        if first < limits[0] or last > limits[1]:
            message = f"{call.name}: {'low' if first < limits[0] else 'high'} is out of bounds for {dtype}"
            raise v.RefusalError(message, high.span, hint="write a wider dtype, as in dtype=np.int64")
        return [constant_of(np.array(end, dtype), dtype, call.span) for end in (first, last)]
    wide = "uint64" if dtype == "uint64" else "int64"
    start, stop = (_whole(call, end, wide) for end in (low, high))
    fine = start <= stop if closed else start < stop
    start = require_number(call, start, fine, f"low {'>' if closed else '>='} high")
    stop = stop if closed else stop - 1
    if dtype not in ("int64", "uint64"):
        start = require_number(call, start, start >= limits[0], f"low is out of bounds for {dtype}")
        stop = require_number(call, stop, stop <= limits[1], f"high is out of bounds for {dtype}")
    return [start.cast(dtype), stop.cast(dtype)]


def _whole(call: Arguments, operand: v.Operand, dtype: str) -> Formula:
    number = python_number(operand.value)
    if isinstance(number, int):
        return Formula(number_constant(number, dtype, operand.span), call.span)
    data = as_formula(operand, call.span, call.name)
    if not data.is_integer:
        message = f"{call.name}: the ends of the range must be integers, not {describe(operand.value)}"
        raise v.RefusalError(message, operand.span)
    return data.cast(dtype)


# -- vectors ---------------------------------------------------------------------------------------------


def _dirichlet(call: Arguments) -> v.Value:
    alpha = DistributionParameter("alpha").read(call, "float64")
    if alpha.rank != 1:
        raise call.refusal("alpha", "`alpha` must be a vector")
    alpha = require_number(call, alpha, ~(alpha < 0), "alpha < 0")
    like = of_size(call, "float64", size_along(alpha.value, 0, call.span))
    return draw(call, "dirichlet", like, [alpha])


def _multinomial(call: Arguments) -> v.Value:
    n = DistributionParameter("n", ">=0", is_integer=True).read(call, "int64")
    if isinstance(number := number_of_constant(n), int) and number < 0:
        raise call.refusal("n", "n < 0")
    pvals = DistributionParameter("pvals", "0..1").read(call, "float64")
    if pvals.rank != 1 or n.rank:
        raise call.refusal("pvals" if pvals.rank != 1 else "n", "`n` must be a number and `pvals` a vector")
    size = size_along(pvals.value, 0, call.span)
    if isinstance(size, v.Known) and not size.value:
        raise call.refusal("pvals", "`pvals` has no elements")
    last = pvals.between(0, -1, 2**40).reduce("sum")
    rest = pvals.reduce("sum") - last
    pvals = require_number(call, pvals, rest <= 1.0 + 1e-12, "sum(pvals[:-1]) > 1.0")
    return draw(call, "multinomial", of_size(call, "int64", size), [n, pvals])


def _multivariate_hypergeometric(call: Arguments) -> v.Value:
    method = choice_argument(call, "method", ("marginals", "count"), "marginals")
    colors = DistributionParameter("colors", ">=0", is_integer=True).read(call, "int64")
    sample = DistributionParameter("nsample", ">=0", is_integer=True).read(call, "int64")
    if colors.rank != 1 or sample.rank:
        raise call.refusal("colors", "`colors` must be a vector of integers and `nsample` an integer")
    total = colors.reduce("sum")
    if method == "marginals":
        message = 'When method is "marginals", sum(colors) must be less than 1000000000.'
        colors = require_number(call, colors, total < 10**9, message)
    colors = require_number(call, colors, sample <= total, "nsample > sum(colors)")
    colors = require_number(call, colors, sample >= 0, "nsample must be nonnegative.")
    size = size_along(colors.value, 0, call.span)
    function = f"multivariate_hypergeometric {method}"
    return draw(call, function, of_size(call, "int64", size), [colors, sample])


def _multivariate_normal(call: Arguments) -> v.Value:
    method = choice_argument(call, "method", ("svd", "eigh", "cholesky"), "svd")
    mean, cov = (array_of(call, name, "float64").cast("float64") for name in ("mean", "cov"))
    if mean.rank != 1 or cov.rank != 2:
        raise call.refusal("mean" if mean.rank != 1 else "cov", "`mean` must be a vector and `cov` a matrix")
    like = of_size(call, "float64", size_along(mean.value, 0, call.span))

    def finish(numbers: Formula) -> v.Value:
        factor = _factor(cov, method)
        product = ROWS["matmul"].call([_operand(numbers), _operand(factor.transpose([1, 0]))], call.span)
        return (Formula(v.dynamic(product), call.span) + mean).value

    return draw(call, "standard_normal", like, finish=finish)


def _factor(cov: Formula, method: str) -> Formula:
    """Return a matrix whose product with its transpose is a covariance matrix."""
    factor = ROWS[method].call([_operand(cov)], cov.span)
    if not isinstance(factor, v.TupleOf):
        return Formula(v.dynamic(factor), cov.span)
    columns = [Formula(v.dynamic(item), cov.span) for item in factor.items]
    if method == "eigh":
        return columns[1] * columns[0].abs().sqrt()
    return columns[0] * columns[1].sqrt()


def _operand(data: Formula) -> v.Operand:
    return v.Operand(data.value, data.span)


def _refuse(name: str, hint: str) -> Builtin:
    def apply_to(call: Arguments) -> v.Value:
        raise v.RefusalError(f"`{name}` of a generator is not supported in a cell", call.span, hint=hint)

    return cell_function(name, "*args", apply_to, f"Refused: {hint}.")


# -- tables ----------------------------------------------------------------------------------------------


def _signature(name: str) -> str:
    text, _ = _DISTRIBUTIONS[name]
    declared = parameter_words(text) if text else ()
    words = [
        parameter.name if parameter.default is None else f"{parameter.name}?={parameter.default:g}"
        for parameter in declared
    ]
    return " ".join(["rng", *words, "size?"])


def _row(name: str, signature: str, apply_to: Callable[[Arguments], v.Value], summary: str) -> Builtin:
    return cell_function(name, f"rng {signature}", apply_to, summary)


_SEED_HINT = "write np.random.default_rng(seed), or pass a generator as an argument: rng: np.random.Generator"

#: The methods of a generator.
GENERATOR_METHODS: Mapping[str, Builtin] = {
    row.name: row
    for row in (
        *(
            cell_function(name, _signature(name), _distribution(name), summary)
            for name, (_, summary) in _DISTRIBUTIONS.items()
        ),
        _row("random", "size? dtype?", _standard("random"), "Return numbers in [0, 1)."),
        _row(
            "standard_normal",
            "size? dtype?",
            _standard("standard_normal"),
            "Return numbers of the standard normal distribution.",
        ),
        _row(
            "standard_exponential",
            "size? dtype? method?=zig",
            _standard("standard_exponential"),
            "Return numbers of the standard exponential distribution.",
        ),
        _row(
            "standard_gamma",
            "shape size? dtype?",
            _standard("standard_gamma"),
            "Return numbers of the standard gamma distribution.",
        ),
        _row("integers", "low high? size? dtype? endpoint?", _integers, "Return integers of a range."),
        _row("choice", "a size? replace? p? axis? shuffle?", choice, "Return random items of an array."),
        _row("permutation", "x axis?", permutation, "Return an array in random order along an axis."),
        _row("permuted", "x * axis?", permute, "Return an array, each slice of which has its own order."),
        _row("dirichlet", "alpha size?", _dirichlet, "Return vectors of the Dirichlet distribution."),
        _row("multinomial", "n pvals size?", _multinomial, "Return counts of the multinomial distribution."),
        _row(
            "multivariate_hypergeometric",
            "colors nsample size? method?",
            _multivariate_hypergeometric,
            "Return counts of the multivariate hypergeometric distribution.",
        ),
        _refuse("spawn", "call it in Python, and pass the generators as arguments"),
        _refuse("bytes", "write rng.integers(0, 256, n, dtype=np.uint8)"),
        _row(
            "multivariate_normal",
            "mean cov size? check_valid? tol? * method?",
            _multivariate_normal,
            "Return vectors of the multivariate normal distribution.",
        ),
        _refuse("shuffle", "write rng.shuffle(x) as a statement, or y = rng.permutation(x)"),
    )
}


def _default_rng(call: Arguments) -> v.Value:
    operand = as_number(call.given.get("seed", v.Operand(v.Known(None), call.span)))
    if isinstance(operand.value, v.GeneratorOf):
        return operand.value
    seed = static_value_or_none(operand.value)
    if operand.value == v.Known(None):
        message = f"{call.name}: without a seed, a cell would give other numbers in each call"
        raise v.RefusalError(message, operand.span, hint=_SEED_HINT)
    if isinstance(seed, int | tuple) and not isinstance(seed, bool):
        try:
            words = seeded(seed) if isinstance(seed, int) else state_of(np.random.default_rng(seed))
        except (TypeError, ValueError) as error:
            raise v.RefusalError(f"{call.name}: {error}", operand.span) from None
        return v.Draw(None, "", constant_of(words, "uint64", call.span).value)
    data = as_formula(operand, call.span, call.name)
    if not data.is_integer or data.rank:
        message = f"{call.name}: `seed` must be an integer, not {describe(operand.value)}"
        raise v.RefusalError(message, operand.span)
    if data.dtype != "uint64":
        data = require_number(call, data.cast("int64"), data >= 0, "expected non-negative integer")
    return v.Draw(None, "", data.op("numpy.pcg64_seed").value)


#: What makes a generator, by the names in ``numpy.random``.
GENERATORS = {
    name: cell_function(name, "seed?", _default_rng, "Return a generator of random numbers.")
    for name in ("default_rng", "PCG64")
}
