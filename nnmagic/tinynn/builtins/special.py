"""Define functions of ``scipy.special``, which are called by the names that a notebook has for them.

Integers are converted to the floats that SciPy chooses; a Python number gives a Python number.

Their reference: https://docs.scipy.org/doc/scipy/reference/special.html
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nnmagic.relay.functions import normal_distribution, scipy_special, special
from nnmagic.relay.ops.unary import MAX_ORDER
from nnmagic.relay.reference.special import ArrayExpr
from nnmagic.tinynn.builtins.argument_checks import axes, flag, formula, pair, python_number, static_int
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, cell_function
from nnmagic.tinynn.values.values import Known, RefusalError, Value


def _as_float(data: Formula) -> Formula:
    """Convert integers and bools to float64, as SciPy does."""
    return data if data.is_float else data.cast("float64")


def _numbers(call: Arguments, parameters: tuple[str, ...]) -> list[float] | None:
    """Return the arguments as floats if all of them are known numbers; else None."""
    found = [python_number(call.given[parameter].value) for parameter in parameters]
    numbers = [float(each) for each in found if isinstance(each, bool | int | float)]
    return numbers if len(numbers) == len(found) else None


def _function(name: str, signature: str, function: Callable[..., Any], summary: str) -> Builtin:
    """Declare a function of floats, element by element, of one or two tensors."""
    parameters = tuple(signature.split())

    def apply_to(call: Arguments) -> Value:
        if (numbers := _numbers(call, parameters)) is not None:
            return Known(float(function(*(ArrayExpr(np.array(number)) for number in numbers)).array))
        if len(parameters) == 1:
            return function(_as_float(formula(call, parameters[0]))).value  # type: ignore[no-any-return]
        lhs, rhs = map(_as_float, pair(call, *parameters))
        return function(lhs, rhs).value  # type: ignore[no-any-return]

    return cell_function(name, signature, apply_to, summary)


def _operator(name: str, summary: str, operator: str = "", **attrs: object) -> Builtin:
    return _function(name, "x", lambda x: x.op(operator or f"special.{name}", **attrs), summary)


def _polygamma(call: Arguments) -> Value:
    order = static_int(call, "n")
    if not 0 <= order <= MAX_ORDER:
        raise RefusalError(f"polygamma: the order must be from 0 to {MAX_ORDER}, not {order}", call.at("n"))
    if (numbers := _numbers(call, ("x",))) is not None:
        return Known(float(ArrayExpr(np.array(numbers[0])).op("special.polygamma", n=order).array))
    data = _as_float(formula(call, "x"))
    return data.cast("float64").op("special.polygamma", n=order).value


def _huber(delta: Any, r: Any) -> Any:
    size = r.abs()
    result = (size <= delta).choose(r * r * 0.5, delta * (size - 0.5 * delta))
    return (delta < 0).choose(math.inf, result)


def _pseudo_huber(delta: Any, r: Any) -> Any:
    zero = delta.equal(0) | r.equal(0)
    ratio = r / zero.choose(1.0, delta)
    far = ratio.abs() > 1e8
    squares = far.choose(0.0, ratio * ratio)
    result = delta * delta * (squares / (1 + (1 + squares).op("sqrt")))
    result = far.choose(delta * (r.abs() - delta), result)
    return (delta < 0).choose(math.inf, zero.choose(0.0, result))


def _log_sum(call: Arguments) -> Value:
    """Compute log(sum(b * exp(a))) along axes."""
    data = _as_float(formula(call, "a"))
    if flag(call, "return_sign"):
        raise RefusalError("logsumexp: a sign is not returned", call.at("return_sign"))
    keepdims = flag(call, "keepdims")
    along = axes(call, data.rank)
    every = tuple(range(data.rank)) if along is None else along
    if "b" not in call:
        return special.logsumexp(data, every, keepdims=keepdims).value
    data, weights = map(_as_float, pair(call, "a", "b"))
    data = weights.equal(0).choose(-math.inf, data)
    data, weights = data + weights * 0, weights + data.op("zeros_like")
    every = tuple(range(data.rank)) if along is None else along
    largest = data.op("max", axis=every, keepdims=True) if every else data
    start = largest.op("isfinite").choose(largest, 0)
    total = (weights * (data - start).exp()).reduce("sum", every, keepdims=True).log() + start
    return (total if keepdims else total.op("squeeze", axis=every)).value


def _soft(call: Arguments) -> tuple[Formula, tuple[int, ...]]:
    data = _as_float(formula(call, "x"))
    along = axes(call, data.rank)
    return data, tuple(range(data.rank)) if along is None else along


def _softmax(call: Arguments) -> Value:
    data, along = _soft(call)
    if len(along) == 1:
        return data.op("nn.softmax", axis=along[0]).value
    shifted = (data - data.reduce("max", along, keepdims=True)).exp()
    return (shifted / shifted.reduce("sum", along, keepdims=True)).value


def _log_softmax(call: Arguments) -> Value:
    data, along = _soft(call)
    if len(along) == 1:
        return data.op("nn.log_softmax", axis=along[0]).value
    shifted = data - data.reduce("max", along, keepdims=True)
    return (shifted - shifted.exp().reduce("sum", along, keepdims=True).log()).value


def _refuse_exact(call: Arguments) -> None:
    if flag(call, "exact"):
        hint = "write math.comb(n, k) or math.factorial(n) of single numbers"
        raise call.refusal("exact", "`exact` is not supported", hint=hint)


def _combinations(n: Any, k: Any) -> Any:
    inside = (k >= 0) & (k <= n) & (n >= 0)
    return inside.choose(scipy_special.binom(inside.choose(n, 1.0), inside.choose(k, 1.0)), 0.0)


def _multisets(n: Any, k: Any) -> Any:
    return (k.equal(0) & (n >= 0)).choose(1.0, scipy_special.binom(n + k - 1, k))


def _comb(call: Arguments) -> Value:
    _refuse_exact(call)
    row = _MULTISETS if flag(call, "repetition") else _COMB
    return row.apply(Arguments(call.name, {"N": call.given["N"], "k": call.given["k"]}, call.span))


def _factorials(n: Any) -> Any:
    return (n < 0).choose(0.0, (n + 1).op("special.gamma"))


def _factorial(call: Arguments) -> Value:
    _refuse_exact(call)
    if python_number(call.given["n"].value) is not None:
        return _FACTORIAL.apply(call)
    data = formula(call, "n")
    wide = data if data.dtype == "float32" and not data.rank else data.cast("float64")  # as SciPy chooses
    return _factorials(wide).value  # type: ignore[no-any-return]


_COMB = _function("comb", "N k", _combinations, "")
_MULTISETS = _function("comb", "N k", _multisets, "")
_FACTORIAL = _function("factorial", "n", _factorials, "")


def special_functions(rows: Mapping[str, Builtin]) -> dict[str, Builtin]:
    """Return the functions of ``scipy.special`` by name; ``rows`` are NumPy's."""
    numpy_rows = (rows[name] for name in ("exp2", "expm1", "log1p", "cbrt", "sinc", "round"))
    return {row.name: row for row in (*_gamma_and_bessel(), *_probabilities(), *numpy_rows)}


def _gamma_and_bessel() -> tuple[Builtin, ...]:
    """Return the error functions, the gamma functions, Bessel's and those of the normal distribution."""
    return (
        _operator("erf", "Compute the error function.", "erf"),
        _operator("erfc", "Compute 1 - erf(x)."),
        _operator("erfinv", "Compute the inverse of the error function."),
        _operator("erfcinv", "Compute the inverse of 1 - erf(x)."),
        _operator("gamma", "Compute the gamma function."),
        _operator("gammaln", "Compute the logarithm of the absolute value of the gamma function."),
        _function(
            "loggamma",
            "x",
            lambda x: (x < 0).choose(math.nan, x.op("special.gammaln")),
            "Compute the logarithm of the gamma function, which is real from 0 on.",
        ),
        _function(
            "rgamma",
            "x",
            lambda x: ((x <= 0) & x.op("floor").equal(x)).choose(0.0, 1 / x.op("special.gamma")),
            "Compute 1 / gamma(x).",
        ),
        _operator("digamma", "Compute the derivative of gammaln.", "special.polygamma", n=0),
        _operator("psi", "Compute the derivative of gammaln.", "special.polygamma", n=0),
        cell_function(
            "polygamma",
            "n x",
            _polygamma,
            "Compute the derivative of order n of digamma; n is known at compile time.",
        ),
        _operator("i0", "Compute the modified Bessel function of order 0."),
        _operator("i0e", "Compute i0(x) * exp(-abs(x))."),
        _operator("i1", "Compute the modified Bessel function of order 1."),
        _operator("i1e", "Compute i1(x) * exp(-abs(x))."),
        _operator("ndtri", "Compute the inverse of ndtr."),
        _operator("log_ndtr", "Compute log(ndtr(x))."),
        _function(
            "ndtr", "x", normal_distribution.ndtr, "Compute the share of the normal distribution below x."
        ),
    )


def _probabilities() -> tuple[Builtin, ...]:
    """Return the logistic functions, entropies, losses, combinations and sums of exponentials."""
    return (
        _operator("expit", "Compute 1 / (1 + exp(-x)).", "sigmoid"),
        _function("log_expit", "x", scipy_special.log_expit, "Compute log(expit(x))."),
        _function("logit", "x", scipy_special.logit, "Compute log(x / (1 - x))."),
        _function("softplus", "x", special.softplus, "Compute log(1 + exp(x))."),
        _function("xlogy", "x y", scipy_special.xlogy, "Compute x * log(y), which is 0 where x is."),
        _function("xlog1py", "x y", scipy_special.xlog1py, "Compute x * log(1 + y), which is 0 where x is."),
        _function("entr", "x", scipy_special.entr, "Compute -x * log(x)."),
        _function("rel_entr", "x y", scipy_special.rel_entr, "Compute x * log(x / y)."),
        _function("kl_div", "x y", scipy_special.kl_div, "Compute x * log(x / y) - x + y."),
        _function("huber", "delta r", _huber, "Compute Huber's loss: r ** 2 / 2 up to delta, then linear."),
        _function("pseudo_huber", "delta r", _pseudo_huber, "Compute a smooth form of Huber's loss."),
        _function("beta", "a b", scipy_special.beta, "Compute gamma(a) * gamma(b) / gamma(a + b)."),
        _function("betaln", "a b", scipy_special.betaln, "Compute the logarithm of abs(beta(a, b))."),
        _function("binom", "x y", scipy_special.binom, "Compute the binomial coefficient of real numbers."),
        _function("exp10", "x", lambda x: x.like(10.0) ** x, "Compute 10 ** x."),
        cell_function(
            "comb",
            "N k * exact? repetition?",
            _comb,
            "Compute the number of combinations, with or without repetition, as a float.",
        ),
        cell_function(
            "factorial",
            "n exact?",
            _factorial,
            "Compute the factorial, as a float: gamma(n + 1), and 0 of negative numbers.",
        ),
        cell_function(
            "logsumexp",
            "a axis? b? keepdims? return_sign?",
            _log_sum,
            "Compute log(sum(b * exp(a))) along axes, by default of all elements.",
        ),
        cell_function(
            "softmax",
            "x axis?",
            _softmax,
            "Compute exp(x) divided by its sum along axes, by default of all elements.",
        ),
        cell_function("log_softmax", "x axis?", _log_softmax, "Compute log(softmax(x))."),
    )
