"""Compute the error function as vectors."""

from __future__ import annotations

from tvm import tirx

from nnmagic.engine.relax.tir.types import PrimExpr
from nnmagic.engine.relax.tir.vector_math.core import LOG2_E, Computation, vector_function
from nnmagic.engine.relax.tir.vector_math.exponential import exp_near_zero, reduce_exp_argument, scale
from nnmagic.relay.functions.normal_distribution import EXP_ERFC, EXP_ERFC_RANGE, EXP_ERFC_SHIFT

#: The argument from which on the second polynomial is used.
_NEAR = {"float32": 0.92578125, "float64": 1.0}

#: ``erf(x) / x`` in terms of ``x**2``.
_ERF = {
    "float32": (
        -0.0005451472825370729,
        0.004879152402281761,
        -0.026682602241635323,
        0.11279303580522537,
        -0.3761223256587982,
        1.1283791065216064,
    ),
    "float64": (
        -7.604893939416911e-10,
        1.3615500190615924e-08,
        -1.618378483802683e-07,
        1.6444131184613003e-06,
        -1.4924464552177811e-05,
        0.00012055280459127031,
        -0.0008548325484215734,
        0.005223977596726416,
        -0.02686617064195855,
        0.11283791670936949,
        -0.37612638903183343,
        1.1283791670955126,
    ),
}

#: ``-log(1 - erf(t)) / t``.
_LOG_ERFC = {
    "float32": (
        -0.00021398744138423353,
        0.0032149816397577524,
        -0.022890063002705574,
        0.10526201874017715,
        0.6357181668281555,
        1.1285144090652466,
    ),
    "float64": (
        -1.5186431918803928e-12,
        6.743967830961625e-11,
        -1.4022846615011811e-09,
        1.8129277322258554e-08,
        -1.6301297379018747e-07,
        1.078066798591386e-06,
        -5.384975973967239e-06,
        2.035045408538701e-05,
        -5.603610467475479e-05,
        9.548150282871834e-05,
        -9.666334368796417e-07,
        -0.0005746690610908167,
        0.0016926179829996485,
        -0.00021204382982163803,
        -0.01912496067811372,
        0.10277082558489263,
        0.6366202530235452,
        1.12837911082127,
    ),
}

#: The argument from which on erfc is computed by itself, and the one from which on it is 0.
_ERFC_RANGE = {"float32": (0.5, 10.5), "float64": EXP_ERFC_RANGE}
#: ``exp(t**2) * erfc(t) * (t + shift)`` in terms of ``w = 1 / (t + shift)``, moved and scaled to -1 to 1.
_ERFC_SHIFT = {"float32": 3.0, "float64": EXP_ERFC_SHIFT}
_ERFC = {
    "float32": (
        4.885276184295659e-06,
        -6.7865590882228885e-06,
        -0.00013657203862518503,
        -0.000196781383673862,
        0.0026649335454116017,
        0.021127375340272224,
        0.08960531848431373,
        0.26960926705165267,
        0.6242492129140962,
        1.1479953494369397,
    ),
    "float64": EXP_ERFC,
}


@vector_function
def erf(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute the error function: a polynomial near 0, else ``1 - exp(-t p(t))`` of ``t = |x|``."""
    t = steps.bind("t", tirx.abs(x))
    # erfc(6) is 2.2e-17, less than half a unit in the last place of 1 even in float64: from there
    # on the result is 1, and the polynomial is not evaluated where it does not approximate.
    far = steps.bind("far", steps.at_most(t, 6.0))
    minus = steps.bind("minus", -(far * steps.polynomial(_LOG_ERFC, far)))
    rounded, _, r = reduce_exp_argument(steps, minus)
    e = exp_near_zero(steps, r) * steps.power_of_two(rounded)
    outer = steps.bind("outer", steps.copy_sign(steps.number(1) - e, x))
    inner = steps.bind("inner", x * steps.polynomial(_ERF, x * x))
    return tirx.Select(t < steps.number(_NEAR[steps.form.dtype]), inner, outer)


@vector_function
def erfc(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute ``1 - erf(x)`` to the last digits: from 1/2 on ``exp(-t**2)`` times a function of ``t = |x|``.

    The square is split, as its rounding would become the error of the exponential: ``t = head + rest``.
    """
    near, most = _ERFC_RANGE[steps.form.dtype]
    t = steps.bind("t", steps.at_most(steps.bind("size", tirx.abs(x)), most))
    # t**2 is up to 784, so half a unit in its last place would be an error of hundreds of units in
    # exp(-t**2). ``head**2`` is exact, and ``(t - head) * (t + head)`` is what is left of t**2.
    head = steps.head(t)
    form, one = steps.form, steps.number(1)
    rounded = steps.bind("rounded", steps.round_to_bits(t * t * steps.number(-LOG2_E)))
    n = steps.bind("n", steps.from_bits(rounded) - steps.number(form.round_to_integer))
    high = steps.bind("high", -(head * head) - n * steps.number(form.ln2_high))
    r = steps.bind("r", high - n * steps.number(form.ln2_low) - (t - head) * (t + head))
    shift = _ERFC_SHIFT[form.dtype]
    # A rational variable maps the long interval to a short one on which a polynomial converges
    # fast, as in M. M. Shepherd and J. G. Laframboise, Chebyshev approximation of (1 + 2x)
    # exp(x**2) erfc x (1981).
    w = steps.bind("w", one / (t + steps.number(shift)))
    low, top = 1 / (most + shift), 1 / (near + shift)
    u = steps.bind("u", (w - steps.number((low + top) / 2)) * steps.number(2 / (top - low)))
    factor = steps.bind("factor", w * steps.polynomial(_ERFC, u))
    far = steps.bind("far", scale(steps, exp_near_zero(steps, r) * factor, n, rounded))
    inner = steps.bind("inner", one - x * steps.polynomial(_ERF, x * x))
    outer = tirx.Select(x < steps.number(0), steps.number(2) - far, far)
    return tirx.Select(tirx.abs(x) < steps.number(near), inner, outer)
