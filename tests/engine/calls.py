"""A valid call of every operator, from the corpus and by hand, to be changed: other sizes, names, dtypes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from nnmagic.relay.expr import Call, Constant, Expr, Function, OpRef, Var
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.text.parser import parse_module
from nnmagic.relay.types import NUMPY_DTYPES, AnyDim, Dim, TensorType, TupleType, Type, VarDim
from tests.engine.programs import VERSION, make_input
from tests.relay.corpus import load_records

#: Calls of operators that no program of the corpus has, and others: parameters, body, values of parameters.
BY_HAND: list[tuple[str, str, dict[str, list[int]]]] = [
    ("%x: Tensor[(2, 4), int32], %y: Tensor[(2, 4), int32]", "floor_mod(%x, %y)", {}),
    ("%x: Tensor[(2, 4), int32], %y: Tensor[(2, 4), int32]", "trunc_mod(%x, %y)", {}),
    ("%x: Tensor[(2, 4), int32], %y: Tensor[(2, 4), int32]", "bitwise_or(%x, %y)", {}),
    ("%x: Tensor[(4), int32], %y: Tensor[(4), int32]", "left_shift(%x, %y)", {}),
    ("%x: Tensor[(2, 3, 4), float32]", "contrib_reverse_reshape(%x, newshape=[-1, 0])", {}),
    ("%x: Tensor[(2, 3), float32], %y: Tensor[(1, 3), float32]", "collapse_sum_like(%x, %y)", {}),
    ("%x: Tensor[(4, 3), float32], %y: Tensor[(3), float32]", "collapse_sum_like(%x, %y)", {}),
    ("%x: Tensor[(2, 3), float32], %s: Tensor[(1), int32]", "collapse_sum_to(%x, %s, shape=[3])", {"s": [3]}),
    (
        "%x: Tensor[(4, 2), float32], %l: Tensor[(2), int32]",
        "reverse_sequence(%x, %l, seq_axis=0, batch_axis=1)",
        {"l": [3, 2]},
    ),
    ("%x: Tensor[(2, 3), float32]", "tile(%x, reps=[2, 1])", {}),
    ("%x: Tensor[(9), float32], %e: Tensor[(4), float32]", "numpy.histogram(%x, %e)", {"e": [0, 1, 2, 3]}),
    ("%x: Tensor[(2, 3), float32], %y: Tensor[(4), float32]", "numpy.isin(%x, %y)", {}),
    *(
        ("%x: Tensor[(2, 3), float32], %k: Tensor[(2), int64]", f"numpy.{name}(%x, %k)", {"k": [0, 1]})
        for name in ("partition", "argpartition")
    ),
    *(
        (f"%x: Tensor[(3, 5), {dtype}]", f"numpy.{name}.accumulate(%x, axis={axis})", {})
        for name in ("maximum", "minimum")
        for dtype, axis in (("float32", 0), ("bfloat16", 1), ("int8", -1), ("bool", 0))
    ),
    *(
        (f"%x: Tensor[(3, 5), {dtype}]", f"numpy.bitwise_{name}.{method}(%x, axis={axis})", {})
        for name in ("and", "or", "xor")
        for method, axis in (("accumulate", 0), ("accumulate", 1), ("reduce", "[0]"), ("reduce", "[1]"))
        for dtype in ("uint8", "int64")
    ),
    *((f"%x: Tensor[(2, 3), {dtype}]", "numpy.rint(%x)", {}) for dtype in ("float16", "float32", "int8")),
    *(
        (f"%x: Tensor[(2, 3), {dtype}]", f"{name}(%x)", {})
        for name in ("numpy.cbrt", "numpy.expm1", "numpy.log1p", "numpy.signbit", "special.erfc")
        for dtype in ("float16", "float32")
    ),
    *(
        ("%x: Tensor[(2, 3), float64]", f"special.{name}(%x)", {"x": [0.1, 0.2, 0.3, 0.5, 0.8, 0.9]})
        for name in ("erfcinv", "erfinv", "gamma", "gammaln", "i0", "i0e", "i1", "i1e", "log_ndtr", "ndtri")
    ),
    ("%x: Tensor[(2, 3), float32]", "special.polygamma(%x, n=1)", {}),
    ("%k: Tensor[(10), uint64], %x: Tensor[(2, 3), uint8]", "numpy.random.bits_like(%k, %x)", {}),
    *(
        ("%x: Tensor[(2, 3), float32], %y: Tensor[(3), float32]", f"numpy.{name}(%x, %y)", {})
        for name in ("arctan2", "copysign", "hypot", "logaddexp")
    ),
    ("%x: Tensor[(2, 3, 3), float64]", "linalg.det(%x)", {}),
    ("%x: Tensor[(2, 3), int64], %y: Tensor[(4), int64]", "numpy.isin(%x, %y)", {}),
    ("%x: Tensor[(2, 3), float32], %y: Tensor[(), int64]", 'python.print((%x, %y), layout="[]")', {}),
    (
        "%x: Tensor[(2, 3), float32], %c: Tensor[(3), bool]",
        'python.require(%x, %c, message="no")',
        {"c": [True, True, True]},
    ),
    (
        "%x: Tensor[(2, 3), float32], %y: Tensor[(0, 3), int8]",
        'python.sized(%x, %y, axes=[-1], message="no")',
        {},
    ),
    ("%x: Tensor[(2, 6, 2), float64]", "numpy.fft(%x, axis=1, inverse=True, pairs=True)", {}),
    ("%x: Tensor[(2, 6), float32]", 'numpy.rfft(%x, axis=0, norm="ortho", pairs=True)', {}),
    ("%x: Tensor[(2, 4, 2), float32]", "numpy.irfft(%x, n=7, axis=1, pairs=True)", {}),
    ("%a: Tensor[(2, 3, 3), float64], %b: Tensor[(2, 3, 2), float64]", "linalg.solve(%a, %b)", {}),
    *(("%a: Tensor[(2, 3, 3), float32]", f"linalg.{name}(%a)", {}) for name in ("inv", "slogdet", "eigh")),
    ("%a: Tensor[(2, 2), float32]", "linalg.cholesky(%a)", {"a": [4, 1, 1, 4]}),
    *(("%a: Tensor[(2, 4, 3), float64]", f"linalg.{name}(%a)", {}) for name in ("qr", "svd")),
    *(("%a: Tensor[(4, 3, 2), float64]", f"linalg.{name}(%a, pairs=True)", {}) for name in ("qr", "svd")),
    *(
        ("%a: Tensor[(3, 3, 2), float32]", f"linalg.{name}(%a, pairs=True)", {})
        for name in ("inv", "slogdet", "eigh", "eig")
    ),
    ("%a: Tensor[(2, 3, 3), float64]", "linalg.eig(%a)", {}),
    ("%a: Tensor[(2, 4, 3), float64]", "linalg.lu(%a)", {}),
    ("%a: Tensor[(4, 3, 2), float32]", "linalg.lu(%a, pairs=True)", {}),
    ("%p: Tensor[(2, 3), int32]", "linalg.permutation(%p, rows=4)", {"p": [3, 2, 4, 1, 9, 3]}),
    (
        "%s: Tensor[(6), int32], %k: Tensor[(3), int64], %q: int64",
        "table.find(%s, %k, %q)",
        {"s": [-1, 2, -2, 0, 1, -1], "k": [3, 4, 5], "q": 4},
    ),
    (
        "%s: Tensor[(6), int32], %k: Tensor[(3, 2), float64], %q: Tensor[(2), float64]",
        "table.find(%s, %k, %q)",
        {"s": [-1, 2, -2, 0, 1, -1]},
    ),
    ("%e: int64", "table.found(%e)", {"e": 3}),
    ("%k: Tensor[(4), uint64], %n: int64", "table.slots(%k, %n)", {"k": [1, 5, 2, 7], "n": 3}),
    (
        "%s: Tensor[(6), int32], %k: Tensor[(3), int64]",
        "table.alive(%s, %k)",
        {"s": [-1, 2, -2, 0, -1, 9]},
    ),
    ("%a: Tensor[(4, 3), float64], %b: Tensor[(4, 2), float64]", "linalg.lstsq(%a, %b)", {}),
    (
        "%x: Tensor[(2), float64], %r: Tensor[(), int32], %a: Tensor[(4, 3), float64]",
        "linalg.full_rank(%x, %r, %a)",
        {"r": [3]},
    ),
    ("%x: Tensor[(2, 5), float32]", "sliding_window(%x, axis=1, window_shape=[3], strides=[1])", {}),
    (
        "%x: Tensor[(4, 2, 2, 1), float32]",
        "nn.batch_to_space_nd(%x, block_shape=[2, 2], crops=[[0, 0], [0, 1]])",
        {},
    ),
    (
        "%x: Tensor[(3, 2), float32], %l: Tensor[(2), int32]",
        "sequence_mask(%x, %l, mask_value=-1f)",
        {"l": [1, 2]},
    ),
    *(
        ("%x: Tensor[(2, 3), float32]", f"{name}(%x)", {})
        for name in (
            "acos",
            "acosh",
            "asinh",
            "atan",
            "erf",
            "rsqrt",
            "sin",
            "tan",
            "sigmoid",
            "fast_tanh",
            "abs",
            "sign",
            "floor",
            "ceil",
            "trunc",
            "isnan",
            "copy",
            "zeros_like",
        )
    ),
    ("%x: Tensor[(2, 4), int32]", "bitwise_not(%x)", {}),
    ("%x: Tensor[(4), float32]", 'reinterpret(%x, dtype="int32")', {}),
    ("%x: Tensor[(2, 3), float32]", "nn.dropout(%x, rate=0.3f)", {}),
    ("%x: Tensor[(3, 4), float32], %y: Tensor[(3, 4), float32]", "nn.cross_entropy(%x, %y)", {}),
    ("%t: (Tensor[(2, 3), float32], Tensor[(3, 4), float32])", 'einsum(%t, equation="ij,jk->ik")', {}),
    (
        "%x: Tensor[(1, 2, 5), float32], %w: Tensor[(2, 3, 3), float32]",
        "nn.conv1d_transpose(%x, %w, channels=3, kernel_size=[3], strides=[2], output_padding=[1], "
        "padding=[1])",
        {},
    ),
    (
        "%x: Tensor[(1, 2, 5, 5), float32], %o: Tensor[(1, 18, 3, 3), float32], "
        "%w: Tensor[(2, 2, 3, 3), float32]",
        "nn.deformable_conv2d(%x, %o, %w, padding=[0, 0, 0, 0], channels=2, kernel_size=[3, 3])",
        {},
    ),
    ("%x: Tensor[(1, 2, 5, 6), float32], %w: Tensor[(2, 3, 3), float32]", "image.dilation2d(%x, %w)", {}),
    ("%x: Tensor[(2, 3), float32], %v: float32", "full_like(%x, %v)", {}),
    ("%i: Tensor[(3), int32]", 'one_hot(%i, 1f, 0f, depth=4, dtype="float32")', {"i": [0, 3, 1]}),
    ("%x: Tensor[(3, 4), float32], %k: int32", "trilu(%x, %k)", {"k": [0]}),
    ("%x: Tensor[(2, 5), float32]", 'argsort(%x, dtype="int32")', {}),
    ("%v: float32, %s: Tensor[(2), int32]", 'dyn.full(%v, %s, shape=None, dtype="float32")', {"s": [2, 3]}),
    (
        "%x: Tensor[(1, 3), float32], %s: Tensor[(2), int64]",
        "dyn.broadcast_to(%x, %s, shape=None)",
        {"s": [2, 3]},
    ),
    (
        "%x: Tensor[(2, 3), float32], %s: Tensor[(2), int64]",
        "dyn.reshape(%x, %s, newshape=[])",
        {"s": [3, -1]},
    ),
    (
        "%i: Tensor[(3), int32], %d: int32",
        'dyn.one_hot(%i, 1f, 0f, %d, depth=0, dtype="float32")',
        {"i": [0, 2, 1], "d": [4]},
    ),
    (
        "%x: Tensor[(2, 5), float32], %k: Tensor[(1), int64]",
        'dyn.topk(%x, %k, k=None, dtype="int32")',
        {"k": [2]},
    ),
    (
        "%x: Tensor[(2, 8), float32], %w: Tensor[(4), float32]",
        "stft(%x, %w, n_fft=4, hop_length=2, win_length=4)",
        {},
    ),
    (
        "%x: Tensor[(2, 3, 4, 5, 2), float32]",
        'image.resize3d(%x, size=[3, 3, 3], roi=[0f, 0f, 0f, 0f, 0f, 0f], layout="NCDHW", '
        'rounding_method="")',
        {},
    ),
    (
        "%x: Tensor[(2, 4, 5, 3), float32], %b: Tensor[(6, 4), float32], %i: Tensor[(6), int32]",
        'image.crop_and_resize(%x, %b, %i, crop_size=[2, 2], layout="NHWC")',
        {},
    ),
    ("%x: Tensor[(2, 3, 4, 5), float32], %g: Tensor[(2, 2, 6, 7), float32]", "image.grid_sample(%x, %g)", {}),
    ("%x: Tensor[(2, 3, 4, 5), float32]", "nn.upsampling(%x, scale_h=2f, scale_w=2f)", {}),
    ("%x: Tensor[(2, 3, 4, 5, 2), float32]", "nn.upsampling3d(%x, scale_d=2f, scale_h=2f, scale_w=2f)", {}),
    ("%x: Tensor[(3, 4), float32]", "cumprod(%x, axis=1, exclusive=None)", {}),
    (
        "%x: Tensor[(2, 4, 3, 5), float32], %g: Tensor[(4), float32], %b: Tensor[(4), float32]",
        "nn.group_norm(%x, %g, %b, num_groups=2)",
        {},
    ),
    ("%x: Tensor[(2, 4), float32]", "nn.l2_normalize(%x, eps=1e-12f, axis=[1])", {}),
    ("%x: Tensor[(2, 3, 8), float32]", "nn.max_pool1d(%x, pool_size=[2], strides=[2], padding=[0, 0])", {}),
    (
        "%x: Tensor[(2, 3, 4, 5, 6), float32]",
        "nn.avg_pool3d(%x, pool_size=[2, 2, 2], strides=[2, 2, 2], padding=[0, 0, 0, 0, 0, 0])",
        {},
    ),
    ("%x: Tensor[(2, 3, 8), float32]", "nn.adaptive_max_pool1d(%x, output_size=[3])", {}),
    ("%x: Tensor[(2, 3, 4, 5, 6), float32]", "nn.adaptive_avg_pool3d(%x, output_size=[2, 2, 2])", {}),
    ("%x: Tensor[(2, 3, 5, 6), float32]", "nn.global_max_pool2d(%x)", {}),
    (
        "%g: Tensor[(1, 3, 2, 2), float32], %x: Tensor[(1, 3, 4, 4), float32]",
        "nn.max_pool2d_grad(%g, %x, pool_size=[2, 2], strides=[2, 2], dilation=[])",
        {},
    ),
    ("%x: Tensor[(2, 3), float32]", 'qnn.quantize(%x, 0.05f, 0, out_dtype="int8")', {}),
    # Shapes of more kinds than the corpus has.
    ("%x: Tensor[(2, 3, 4), float32]", "transpose(%x, axes=[2, 0, 1])", {}),
    ("%t: (Tensor[(2, 3), float32], Tensor[(4, 3), float32])", "concatenate(%t)", {}),
    ("%t: (Tensor[(2, 3), float32], Tensor[(2, 3), float32])", "stack(%t, axis=1)", {}),
    ("%x: Tensor[(2, 1, 4), float32]", "broadcast_to(%x, shape=[2, 3, 4])", {}),
    ("%x: Tensor[(1, 4), float32], %y: Tensor[(3, 4), float32]", "broadcast_to_like(%x, %y)", {}),
    ("%x: Tensor[(2, 3), float32], %i: Tensor[(2, 3), int64]", "gather(%x, %i, axis=1)", {}),
    (
        "%x: Tensor[(4, 3), float32], %i: Tensor[(2, 3), int64], %u: Tensor[(2, 3), float32]",
        "scatter_elements(%x, %i, %u, axis=0)",
        {},
    ),
    (
        "%x: Tensor[(4, 5), float32], %i: Tensor[(2, 3), int64], %u: Tensor[(3), float32]",
        "scatter_nd(%x, %i, %u)",
        {},
    ),
    (
        "%x: Tensor[(3, 4), float32], %i: Tensor[(3), int32], %u: Tensor[(4), float32]",
        "nn.nll_loss(%x, %i, %u, ignore_index=-100)",
        {},
    ),
    (
        "%a: Tensor[(2, 3, 4), float32], %b: Tensor[(2, 5, 4), float32]",
        "nn.batch_matmul(%a, %b, transpose_b=True)",
        {},
    ),
    (
        "%x: Tensor[(2, 4, 5, 6), float32], %w: Tensor[(8, 2, 3, 3), float32]",
        "nn.conv2d(%x, %w, padding=[1, 1, 1, 1], groups=2, channels=8, kernel_size=[3, 3])",
        {},
    ),
    (
        "%x: Tensor[(2, 4, 5, 6), float32], %w: Tensor[(8, 4, 3, 3), float32]",
        "nn.conv2d(%x, %w, padding=[0, 0, 0, 0])",
        {},
    ),
    ("%x: Tensor[(2, 3, 4), float32], %b: Tensor[(3), float32]", "nn.bias_add(%x, %b)", {}),
    ("%x: Tensor[(2, 3, 4), float32], %b: Tensor[(3), float32]", "nn.prelu(%x, %b)", {}),
    (
        "%x: Tensor[(2, 3, 4), float32], %y: Tensor[(5), float32], %c: Tensor[(2, 3, 5), bool]",
        "nn.fast_softmax(%x)",
        {},
    ),
    ("%x: Tensor[(2, 3, 4), float32]", "nn.softmax(%x, axis=1)", {}),
    ("%x: Tensor[(2, 3, 4), float32]", "nn.log_softmax(%x, axis=-1)", {}),
    ("%x: Tensor[(2, 3, 4), float32]", "max(%x, axis=[1])", {}),
    ("%x: Tensor[(2, 3, 4), float32]", "argmin(%x, axis=[2])", {}),
    ("%x: Tensor[(2, 3, 4), float32]", "nn.pad(%x, 0f, pad_width=[[0, 0], [1, 2], [0, 1]])", {}),
    (
        "%x: Tensor[(2, 3, 4), float32]",
        'nn.pad(%x, 0f, pad_width=[[0, 0], [1, 2], [0, 1]], pad_mode="reflect")',
        {},
    ),
    (
        "%x: Tensor[(2, 3, 4), float32]",
        'nn.pad(%x, 0f, pad_width=[[0, 0], [1, 2], [0, 1]], pad_mode="edge")',
        {},
    ),
    ("%x: Tensor[(6, 4), float32]", "split(%x, indices_or_sections=2, axis=0)", {}),
    ("%x: Tensor[(6, 4), float32]", "split(%x, indices_or_sections=[1, 4], axis=0)", {}),
    (
        "%x: Tensor[(6, 4), float32]",
        "strided_slice(%x, begin=[1, 3], end=[5, 0], strides=[2, -1], axes=None)",
        {},
    ),
]


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """A call: for every argument a type (it becomes a parameter) or a constant; and values of parameters."""

    name: str
    args: tuple[Type | Constant, ...]
    attrs: dict[str, object]
    values: dict[int, np.ndarray]

    def with_types(self, change: Callable[[int, TensorType], TensorType]) -> OperatorCall:
        """The call with each tensor of each parameter changed; the first argument counts parameters."""

        def change_part(index: int, type_: Type | Constant) -> Type | Constant:
            match type_:
                case TensorType():
                    return change(index, type_)
                case TupleType(fields=fields):
                    return TupleType(tuple(change_part(index, part) for part in fields))
            return type_

        return replace(self, args=tuple(change_part(i, arg) for i, arg in enumerate(self.args)))

    def tensors(self) -> Iterator[tuple[int, TensorType]]:
        """The tensors of the parameters."""
        work = [(i, arg) for i, arg in enumerate(self.args)]
        while work:
            index, arg = work.pop(0)
            match arg:
                case TensorType():
                    yield index, arg
                case TupleType(fields=fields):
                    work[:0] = [(index, part) for part in fields]

    def module(self) -> Module:
        """The typed module of the call as ``@main``. Raises RelayError."""
        params = {i: Var(f"p{i}", arg) for i, arg in enumerate(self.args) if not isinstance(arg, Constant)}
        args: list[Expr] = [params.get(i, arg) for i, arg in enumerate(self.args)]  # type: ignore[arg-type]
        body = Call(OpRef(self.name), tuple(args), self.attrs)
        return infer_type(Module({"main": Function(tuple(params.values()), body)}))


def of_the_operators() -> list[OperatorCall]:
    """The calls, those of the same operator in a row."""
    result: dict[str, dict[str, OperatorCall]] = {}
    for record in load_records("programs"):
        module = infer_type(parse_module(record["text"]))
        main = module.functions["main"]
        inputs = dict(zip(main.params, record["inputs"] or (), strict=False))
        for function in module.functions.values():
            for call in _calls(function):
                _add(result, call, {var: make_input(one) for var, one in inputs.items()})
    for params, body, values in BY_HAND:
        main = infer_type(parse_module(f"{VERSION}def @main({params}) {{ {body} }}")).functions["main"]
        known = {var: values[var.name_hint] for var in main.params if var.name_hint in values}
        arrays = {var: np.array(value) for var, value in known.items()}
        for call in _calls(main):
            _add(result, call, arrays)
    return [call for calls in result.values() for call in calls.values()]


def _calls(function: Function) -> Iterator[Call]:
    return (
        node for node in post_order(function.body) if isinstance(node, Call) and isinstance(node.op, OpRef)
    )


def _add(result: dict[str, dict[str, OperatorCall]], call: Call, inputs: dict[Var, object]) -> None:
    args: list[Type | Constant] = []
    values = {}
    for index, arg in enumerate(call.args):
        if isinstance(arg, Constant):
            args.append(arg)
            continue
        type_ = arg.checked_type
        if not _is_static(type_):
            return
        args.append(type_)
        if arg in inputs and isinstance(inputs[arg], np.ndarray):
            values[index] = inputs[arg]
    assert isinstance(call.op, OpRef)
    made = OperatorCall(call.op.name, tuple(args), dict(call.attrs), values)
    result.setdefault(made.name, {}).setdefault(f"{args} {made.attrs}", made)


def _is_static(type_: Type | None) -> bool:
    match type_:
        case TensorType(shape=shape):
            return all(isinstance(dim, int) for dim in shape)
        case TupleType(fields=fields):
            return all(map(_is_static, fields))
    return False


def label_of(dim: Dim) -> str | None:
    return dim.label if isinstance(dim, AnyDim) else dim.name if isinstance(dim, VarDim) else None


def arrays(call: OperatorCall, seed: int = 0, wild: bool = False) -> list[object]:
    """Arguments for the parameters of a call of known shapes."""

    def array(index: int, type_: Type) -> object:
        if isinstance(type_, TupleType):
            return tuple(array(index, part) for part in type_.fields)
        assert isinstance(type_, TensorType)
        generator = np.random.default_rng([seed, index])
        shape = tuple(int(dim) for dim in type_.shape)  # type: ignore[arg-type]
        dtype = NUMPY_DTYPES[type_.dtype]
        if index in call.values and not (wild and dtype.kind in "fV"):
            return np.resize(call.values[index], shape).astype(dtype)
        if dtype.kind == "b":
            return generator.integers(0, 2, shape).astype(dtype)
        if dtype.kind in "iu":
            return generator.integers(0, 2, shape).astype(dtype)
        if wild:
            return generator.choice(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5]), shape).astype(
                dtype
            )
        return (generator.integers(-8, 9, shape) / 4 + 0.125).astype(dtype)

    return [array(i, arg) for i, arg in enumerate(call.args) if not isinstance(arg, Constant)]
