"""Lower scheduled kernels to CUDA with exact arithmetic; start none that has no threads."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import tvm
import tvm_ffi
from tvm import s_tir, tirx

from nnmagic.engine.relax.legalize import reduction, scalar_functions
from nnmagic.engine.relax.tir.builders import dtype_of, static_int
from nnmagic.engine.relax.tir.strict_float import keep_float_arithmetic
from nnmagic.engine.relax.tir.types import PrimExpr, Stmt
from nnmagic.engine.relax.tir.visitors import VarMap, rewrite

#: The name of the passes for CUDA, by which TVM finds them.
CUDA_PIPELINE = "nnmagic_cuda"

#: CUDA's functions that round a product and a sum once.
_MULTIPLY_ADD = {"float32": "fmaf", "float64": "fma"}

_LAUNCH = tvm.ir.Op.get("tirx.call_ffi_kernel")

#: Names that mean something in C++ or CUDA, which TVM lets variables have.
_CUDA_NAMES = frozenset(
    (
        *("half", "half2", "half4", "nv_bfloat16", "uint", "uchar", "ushort", "dim3", "warpSize", "bool"),
        *("threadIdx", "blockIdx", "blockDim", "gridDim", "min", "max", "abs", "fma", "exp", "log", "pow"),
        *("sqrt", "rsqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "atan", "erf", "floor", "ceil"),
        *("trunc", "round", "fmod", "nearbyint", "acos", "asin", "signed", "auto", "class", "const", "new"),
        *("delete", "this", "template", "typename", "operator", "private", "public", "protected", "using"),
        *("namespace", "register", "inline", "static", "sizeof", "volatile", "explicit", "friend", "virtual"),
        *("and", "or", "not", "xor", "true", "false", "nullptr", "try", "catch", "throw", "asm", "union"),
    )
)


@cache
def teach_reducers() -> None:
    """Let TVM's schedules share the work of reductions that it does not know: NaN is the best value there."""
    register = tvm.get_global_func("s_tir.schedule.RegisterReducer")

    def teach(count: int, *functions: Callable[..., list[PrimExpr]]) -> None:
        converted = list(map(tvm_ffi.convert, functions))
        for function in converted:  # TVM would free them when Python has ended
            tvm_ffi.LIB.TVMFFIObjectIncRef(ctypes.c_void_p(function.__chandle__()))
        register(count, *converted)

    for best, worst in (
        (scalar_functions.maximum, reduction.lowest),
        (scalar_functions.minimum, reduction.highest),
    ):
        teach(1, _combine_one(best), _identity(worst))
    for name in ("argmax", "argmin"):
        for ties in ("first", "last"):
            teach(2, _combine_pairs(reduction.better_pair(f"{name}_{ties}")), _no_pair)


def _combine_one(best: Callable[..., PrimExpr]) -> Callable[..., list[PrimExpr]]:
    return lambda lhs, rhs: [best(lhs[0], rhs[0])]


def _identity(worst: Callable[[str], PrimExpr]) -> Callable[..., list[PrimExpr]]:
    return lambda values: [worst(dtype_of(values[0]))]


def _combine_pairs(better: Callable[..., Any]) -> Callable[..., list[PrimExpr]]:
    return lambda lhs, rhs: list(better(tuple(lhs), tuple(rhs)))


def _no_pair(values: Sequence[PrimExpr]) -> list[PrimExpr]:
    return list(reduction.no_pair(dtype_of(values[0]), dtype_of(values[1])))


def _keep_exact(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """Let sums of products be computed by instructions that multiply and add, as every library's are.

    Other arithmetic stays as it is written: contracted by CUDA, ``x * x - x * x`` would not be 0.
    """
    kernel = rewrite(kernel, [(tirx.Cast, _wrap_in_uint64)], before_parts=True)
    kernel = rewrite(kernel, [(tirx.BufferStore, _accumulate_at_once), (tvm.ir.Call, _widen_half)])
    return keep_float_arithmetic(kernel)


def _wrap_in_uint64(cast: tirx.Cast) -> PrimExpr:
    """Compute in uint64, whose arithmetic wraps in C++, what kernels compute in int128, which CUDA lacks."""
    if dtype_of(cast.value) != "int128":
        return cast
    return tirx.reinterpret(dtype_of(cast), _in_uint64(cast.value))  # TVM's simplifier does not look into it


def _in_uint64(value: PrimExpr) -> PrimExpr:
    if isinstance(value, tirx.IntImm):
        return tirx.Cast("uint64", scalar_functions.wrap_constant(value, "int64"))
    if isinstance(value, tirx.Cast):
        return tirx.Cast("uint64", value.value)
    assert isinstance(value, tirx.Add | tirx.Sub | tirx.Mul), type(value)
    return type(value)(_in_uint64(value.a), _in_uint64(value.b))


def _widen_half(call: PrimExpr) -> PrimExpr:
    """Round a half float in single precision: TVM calls a function that CUDA has not."""
    if getattr(call.op, "name", "") != "tirx.nearbyint" or dtype_of(call) != "float16":
        return call
    return tirx.nearbyint(call.args[0].astype("float32")).astype("float16")


def _accumulate_at_once(store: tirx.BufferStore) -> tirx.BufferStore:
    """Write ``c[i] = c[i] + a * b`` as one operation."""
    value = store.value
    if not isinstance(value, tirx.Add) or dtype_of(value) not in _MULTIPLY_ADD:
        return store
    for old, product in ((value.a, value.b), (value.b, value.a)):
        if isinstance(product, tirx.Mul) and _is_old_value(old, store):
            name = _MULTIPLY_ADD[dtype_of(value)]
            whole = tirx.call_pure_extern(dtype_of(value), name, product.a, product.b, old)
            return tirx.BufferStore(store.buffer, whole, store.indices)
    return store


def _is_old_value(load: PrimExpr, store: tirx.BufferStore) -> bool:
    """Return whether an expression is the element that a statement writes."""
    return (
        isinstance(load, tvm.ir.TensorLoad)
        and bool(load.source.same_as(store.buffer))
        and bool(tvm_ffi.structural_equal(load.indices, store.indices))
    )


def _guard_launches(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Start a kernel only if it has threads: CUDA refuses to start none."""
    return rewrite(function, [(tirx.Evaluate, _guard_launch)])


def _guard_launch(statement: tirx.Evaluate) -> Stmt:
    call = statement.value
    if not isinstance(call, tvm.ir.Call) or call.op != _LAUNCH:
        return statement
    tags = [str(tag) for tag in call.attrs.launch_params]
    extents = [
        extent
        for tag, extent in zip(tags, call.args[-len(tags) :], strict=True)
        if tag.startswith(("blockIdx", "threadIdx"))
    ]
    if any(static_int(extent) == 0 for extent in extents):
        return tirx.Evaluate(0)
    unknown = [extent > 0 for extent in extents if static_int(extent) is None]
    return tirx.IfThenElse(tirx.all(*unknown), statement, None) if unknown else statement


def _write_constants(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """Write constants by their bits that TVM's text would change."""
    return rewrite(kernel, [(tirx.FloatImm, _write_constant)])


def _write_constant(value: tirx.FloatImm) -> PrimExpr:
    dtype, number = dtype_of(value), value.value
    if dtype == "bfloat16" and not math.isfinite(number):  # TVM has no text for it
        bits = int(np.array(number, ml_dtypes.bfloat16).view(np.int16))
        return tirx.reinterpret(dtype, tirx.const(bits, "int16"))
    if dtype != "float64" or not math.isfinite(number) or _is_exact(number):
        return value
    bits = int(np.array(number).view(np.int64))
    return tirx.call_pure_extern(dtype, "__longlong_as_double", tirx.const(bits, "int64"))


def _is_exact(number: float) -> bool:
    """Return whether TVM's text of a double, which has 15 decimals and no exponent, is its value."""
    return float(f"{number:.15f}") == number and (number != 0 or math.copysign(1, number) > 0)


def _allow_aliases(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """Leave ``__restrict__`` out of the parameters.

    With it, ptxas of CUDA 13.0 computed a reduction to (index, value) pairs in global memory wrongly.
    """
    return kernel.without_attr("tirx.noalias")


def _rename_variables(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """Give variables other names than types and functions of CUDA have."""
    renamed = VarMap()

    def rename(var: tirx.Var) -> tirx.Var:
        if var.name in _CUDA_NAMES and renamed.replace(var) is var:
            renamed[var] = tirx.Var(f"{var.name}_", var.ty)
        return renamed.replace(var)

    return rewrite(kernel, [(tirx.Var, rename)])


def _pass(change: Callable[[tirx.PrimFunc], tirx.PrimFunc], name: str) -> tvm.transform.Pass:
    return tirx.transform.prim_func_pass(lambda kernel, *_: change(kernel), opt_level=0, name=name)


_KEEP_EXACT, _GUARD_LAUNCHES = _pass(_keep_exact, "KeepExact"), _pass(_guard_launches, "GuardLaunches")
_RENAME_VARIABLES = _pass(_rename_variables, "RenameVariables")
_ALLOW_ALIASES = _pass(_allow_aliases, "AllowAliases")
_WRITE_CONSTANTS = _pass(_write_constants, "WriteConstants")


def _pipeline() -> tuple[
    tvm.transform.Sequential, Callable[[], tvm.transform.Sequential], Callable[[], tvm.transform.Sequential]
]:
    """Return TVM's own passes for kernels with those above, then those that finish host and device code."""
    lower, finish_host, finish_device = tirx.get_tir_pipeline("s_tir")
    # Reductions by several threads are recognised by their arithmetic, which must be as it was until then.
    first = (s_tir.transform.CanonicalizeLoop(), s_tir.transform.LowerCrossThreadReduction(), _KEEP_EXACT)

    def finish_kernels() -> tvm.transform.Sequential:
        return tvm.transform.Sequential(
            [_ALLOW_ALIASES, _RENAME_VARIABLES, finish_device(), _WRITE_CONSTANTS]
        )

    def finish_callers() -> tvm.transform.Sequential:
        return tvm.transform.Sequential([_GUARD_LAUNCHES, finish_host()])

    return tvm.transform.Sequential([*first, lower]), finish_callers, finish_kernels


tirx.register_tir_pipeline(CUDA_PIPELINE, _pipeline)
