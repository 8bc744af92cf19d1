"""Declare random numbers: of the counter-based generator Threefry, and of NumPy's PCG64.

A key of Threefry is a vector of ten uint64 (Salmon et al. 2011); `nnmagic.relay.generators` says what the
state of PCG64 is. Real Relay lacks the latter.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.relay.expr import Attrs
from nnmagic.relay.generators import STATE
from nnmagic.relay.ops.attributes import DIM, DTYPE, STR, one_or_more
from nnmagic.relay.ops.declaration import Attr, Family, RelationError
from nnmagic.relay.ops.relations import dims, require_type, tensor
from nnmagic.relay.types import TensorType, TupleType, Type, is_integer, scalar_type

declare = Family("random").declare

_KEY = TensorType((10,), "uint64")


def _key(types: Sequence[Type]) -> TensorType:
    key = tensor(types)
    if key.dtype != _KEY.dtype:
        raise RelationError("expected a key of type {wanted}, found {key}", 0, wanted=_KEY, key=key)
    require_type(key, _KEY.shape, "the key", 0)
    return _KEY


def _distribution(types: Sequence[Type], attrs: Attrs) -> TupleType:
    dtype = str(attrs["out_dtype"])
    if dtype not in {"float32", "float64"}:
        message = "out_dtype must be {allowed:dtype or}, not {dtype!r}"
        raise RelationError(message, attr="out_dtype", allowed=("float32", "float64"), dtype=dtype)
    for index in (1, 2):
        if tensor(types, index) != scalar_type(dtype):
            message = "expected a scalar of dtype {dtype:dtype}, found {operand}"
            raise RelationError(message, index, attr="out_dtype", dtype=dtype, operand=types[index])
    return TupleType((_key(types), TensorType(dims(attrs, "out_shape"), dtype)))


def _generate_like(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    _key(types)
    return TensorType(tensor(types, 1).shape, "uint64")


_SHAPE = Attr("out_shape", one_or_more(DIM))
for _name, _args, _key_name, _summary, _defaults in (
    ("normal", "mean scale", "NormalAttrs", "normal distribution", {"mean": 0.0, "scale": 1.0}),
    (
        "uniform",
        "low high",
        "UniformAttrs",
        "uniform distribution over [low, high)",
        {"low": 0.0, "high": 1.0},
    ),
):
    declare(
        f"random.{_name}(key, {_args})",
        _distribution,
        f"A new key and numbers of a {_summary}.",
        _SHAPE,
        Attr("out_dtype", DTYPE, "", call_default="float32"),
        attrs_key=_key_name,
        call_order=f"key out_shape out_dtype {_args}",
        keywords={"shape": "out_shape", "dtype": "out_dtype"},
        arg_defaults=_defaults,
    )
declare(
    "random.threefry_generate(key)",
    lambda types, attrs: TupleType((_key(types), TensorType(dims(attrs, "out_shape"), "uint64"))),
    "A new key and random bits as uint64.",
    _SHAPE,
    keywords={"shape": "out_shape"},
)
declare(
    "numpy.random.bits_like(key, like)",
    _generate_like,
    "Random bits as uint64, in the shape of another tensor.",
)
declare(
    "random.threefry_split(key)",
    lambda types, _attrs: TupleType((_key(types), _KEY)),
    "Two independent keys from one.",
)


def _seed(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    seed = tensor(types)
    if seed.shape or not is_integer(seed.dtype):
        raise RelationError("expected an integer of rank 0, found {seed}", 0, seed=seed)
    return STATE


def _draw(types: Sequence[Type], attrs: Attrs) -> TupleType:
    state, like, parameters = tensor(types), tensor(types, 1), types[2]
    if state != STATE:
        raise RelationError("expected a state of type {wanted}, found {state}", 0, wanted=STATE, state=state)
    if not isinstance(parameters, TupleType):
        raise RelationError("expected a tuple of tensors, found {parameters}", 2, parameters=parameters)
    for parameter in parameters.fields:
        if not isinstance(parameter, TensorType):
            raise RelationError("expected tensors, found {parameter}", 2, parameter=parameter)
    function = str(attrs["function"])
    if len(parameters.fields) != FUNCTIONS.get(function):
        message = f"{function!r} of {len(parameters.fields)} parameters is no function of NumPy's generator"
        raise RelationError(message, attr="function")
    return TupleType((STATE, like))


#: How many parameters each function of NumPy's generator has. ``order`` are indices in random order,
#: ``orders`` rows of them, and ``choice`` some that differ; ``weighted`` ones have probabilities.
FUNCTIONS = {
    **dict.fromkeys(("random", "standard_normal", "standard_exponential", "standard_exponential inv"), 0),
    **dict.fromkeys(("standard_cauchy", "order", "orders"), 0),
    **dict.fromkeys(("exponential", "standard_gamma", "chisquare", "standard_t", "pareto", "weibull"), 1),
    **dict.fromkeys(("power", "rayleigh", "poisson", "zipf", "geometric", "logseries", "dirichlet"), 1),
    **dict.fromkeys(("choice", "choice unshuffled", "weighted", "weighted different"), 1),
    **dict.fromkeys(("normal", "uniform", "gamma", "beta", "f", "noncentral_chisquare", "vonmises"), 2),
    **dict.fromkeys(("laplace", "gumbel", "logistic", "lognormal", "wald", "binomial", "integers"), 2),
    **dict.fromkeys(("negative_binomial", "multinomial"), 2),
    **dict.fromkeys((f"multivariate_hypergeometric {method}" for method in ("marginals", "count")), 2),
    **dict.fromkeys(("noncentral_f", "triangular", "hypergeometric"), 3),
}

declare("numpy.pcg64_seed(seed)", _seed, "The state of NumPy's generator PCG64 for a seed.")
declare(
    "numpy.pcg64(state, like, parameters)",
    _draw,
    "A new state of NumPy's generator PCG64, and numbers in the shape and dtype of `like`.",
    Attr("function", STR),
)
