"""Constants folded by NumPy against what real Relay measured and what the engine's kernels compute."""

import numpy as np
import pytest

from nnmagic.engine.relax import build
from nnmagic.relay import Function, Module, Tuple, Var, call, constant, infer_type, parse
from nnmagic.relay.expr import Call, Constant, OpRef
from nnmagic.relay.passes import evaluate_with_numpy, fold_constants
from nnmagic.relay.passes.rewriting import substitute
from nnmagic.relay.types import NUMPY_DTYPES, AnyDim, TensorType
from tests.engine.programs import assert_close, make_input, read_array
from tests.relay.corpus import load_programs

TINY = np.float32(1e-45)
FLOATS = np.array([0.0, -0.0, 1.5, -2.5, 0.5, -0.5, 3.7, -1e10, np.inf, -np.inf, np.nan, TINY], np.float32)
NUMBERS = np.array([1.5, -2.5, 0.5, 3.7, -1e10, 2.5, 0.49999997, 1e-3], np.float32)
INTS = np.array([0, 1, -1, 7, -7, 2**31 - 1, -(2**31), 12], np.int32)
DIVISORS = np.array([3, -3, 7, 2, -2, 5, 3, -5], np.int32)
BYTES = np.array([0, 1, 255, 128, 7], np.uint8)
BOOLS = np.array([True, False, True, True, False])
GRID = np.arange(-12, 12, dtype=np.int32).reshape(2, 3, 4)

#: Operator, arguments, attributes: what NumPy answers.
CASES = [
    *((name, (FLOATS, FLOATS[::-1]), {}) for name in ("add", "subtract", "multiply", "divide")),
    *((name, (INTS, INTS[::-1]), {}) for name in ("add", "subtract", "multiply")),
    *((name, (BYTES, BYTES[::-1]), {}) for name in ("add", "subtract", "multiply")),
    *((name, (INTS, DIVISORS), {}) for name in ("divide", "floor_divide", "mod", "floor_mod")),
    *((name, (NUMBERS, NUMBERS[::-1]), {}) for name in ("maximum", "minimum")),
    *((name, (INTS, INTS[::-1]), {}) for name in ("maximum", "minimum")),
    *(
        (name, (data, data[::-1]), {})
        for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
        for data in (FLOATS, INTS)
    ),
    *((name, (BOOLS, BOOLS[::-1]), {}) for name in ("logical_and", "logical_or", "logical_xor")),
    *((name, (INTS, INTS[::-1]), {}) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")),
    ("logical_not", (BOOLS,), {}),
    ("bitwise_not", (INTS,), {}),
    ("left_shift", (INTS, np.arange(8, dtype=np.int32)), {}),
    ("right_shift", (INTS, np.arange(8, dtype=np.int32)), {}),
    *((name, (FLOATS,), {}) for name in ("negative", "abs", "floor", "ceil", "trunc", "round", "copy")),
    *((name, (INTS[:6],), {}) for name in ("negative", "abs", "nn.relu")),
    ("round", (NUMBERS,), {}),
    ("nn.relu", (NUMBERS,), {}),
    ("sqrt", (np.abs(NUMBERS),), {}),
    ("cast", (NUMBERS[[0, 1, 2, 3, 5, 7]],), {"dtype": "int8"}),
    ("cast", (FLOATS,), {"dtype": "bool"}),
    ("cast", (FLOATS,), {"dtype": "float16"}),
    ("cast", (INTS,), {"dtype": "float32"}),
    ("cast", (INTS,), {"dtype": "uint8"}),
    ("cast", (BOOLS,), {"dtype": "float32"}),
    ("where", (BOOLS, FLOATS[:5], FLOATS[5:10]), {}),
    ("reshape", (GRID,), {"newshape": [0, -1]}),
    ("squeeze", (GRID[:1],), {"axis": [0]}),
    ("expand_dims", (GRID,), {"axis": -2, "num_newaxis": 2}),
    ("nn.batch_flatten", (GRID,), {}),
    ("broadcast_to", (GRID[:1],), {"shape": [2, 3, 4]}),
    ("full", (np.float32(2.5),), {"shape": [2, 3], "dtype": "float32"}),
    ("transpose", (GRID,), {}),
    ("transpose", (GRID,), {"axes": [1, -1, 0]}),
    ("concatenate", ((GRID, GRID[:, :1]),), {"axis": 1}),
    ("stack", ((GRID, GRID),), {"axis": -1}),
    ("zeros_like", (GRID,), {}),
    ("ones_like", (FLOATS,), {}),
    ("take", (GRID, np.array([1, 0, 2], np.int32)), {"axis": 1}),
    ("take", (GRID, np.array([[5, 0]], np.int64)), {}),
    ("strided_slice", (GRID,), {"begin": [0, 2], "end": [2, -4], "strides": [1, -2]}),
    ("strided_slice", (GRID,), {"begin": [1, 0], "end": [-1, 2], "slice_mode": "size"}),
    ("strided_slice", (GRID,), {"begin": [-2], "end": [3], "axes": [2]}),
    *(
        (name, (GRID,), {"axis": axis, "keepdims": keep, "exclude": exclude})
        for name in ("sum", "prod", "max", "min")
        for axis, keep, exclude in ((None, False, False), ([-1, 0], True, False), ([1], False, True))
    ),
    ("max", (NUMBERS,), {}),
    ("min", (NUMBERS,), {}),
    ("sum", (NUMBERS.reshape(2, 1, 4),), {"axis": [1]}),
    ("all", (BOOLS,), {}),
    ("any", (BOOLS,), {}),
    ("arange", (np.int32(2), np.int32(11), np.int32(3)), None),
]

#: What NumPy is not asked, because the answer is open, or stops the machine.
REFUSED = [
    ("divide", (INTS, INTS), {}),
    ("mod", (np.int32(-(2**31)), np.int32(-1)), {}),
    ("maximum", (FLOATS, FLOATS[::-1]), {}),
    ("minimum", (np.float32(0.0), np.float32(-0.0)), {}),
    ("nn.relu", (np.float32(np.nan),), {}),
    ("max", (FLOATS,), {}),
    ("max", (INTS[:0],), {}),
    ("sum", (NUMBERS,), {}),
    ("sqrt", (FLOATS,), {}),
    ("cast", (np.array([300.0], np.float32),), {"dtype": "int8"}),
    ("cast", (np.array([2.0**63], np.float32),), {"dtype": "int64"}),
    ("cast", (np.array([np.nan], np.float32),), {"dtype": "int32"}),
    ("take", (GRID, np.array([3], np.int32)), {"axis": 1}),
    ("left_shift", (np.int32(1), np.int32(32)), {}),
    ("broadcast_to", (np.float32(1),), {"shape": [1000, 1000]}),
    ("exp", (np.float32(1),), {}),
    ("add", (INTS, FLOATS), {}),
    ("add", (NUMBERS, NUMBERS[:3]), {}),
]


def make_call(name, args, attrs):
    """The call of an operator on constants."""
    parts = [Tuple(tuple(map(constant, arg))) if isinstance(arg, tuple) else constant(arg) for arg in args]
    if name == "arange":
        names = zip(("start", "stop", "step"), parts, strict=True)
        return Call(OpRef("arange"), tuple(parts), {**dict(names), "dtype": "int32"})
    return call(name, parts, **attrs)


def identify(case):
    return f"{case[0]}-{'-'.join(str(getattr(arg, 'dtype', 'tuple')) for arg in case[1])}"


@pytest.mark.full
def test_numpy_computes_what_kernels_compute():
    """One program computes all cases from its parameters, so that nothing can be folded on the way."""
    params, results, arrays = [], [], []
    for name, args, attrs in CASES:
        made = make_call(name, args, attrs)
        if name in ("arange", "full"):
            results.append(made)  # their shape depends on the values
            continue
        exprs = []
        for arg in args:
            fields = arg if isinstance(arg, tuple) else (arg,)
            new = [Var("x", constant(field).tensor_type) for field in fields]
            params += new
            arrays += [np.asarray(field) for field in fields]
            exprs.append(Tuple(tuple(new)) if isinstance(arg, tuple) else new[0])
        results.append(Call(made.op, tuple(exprs), made.attrs))
    module = infer_type(Module({"main": Function(tuple(params), Tuple(tuple(results)))}))
    for (name, args, attrs), kernel in zip(CASES, build(module, "main")(arrays), strict=True):
        folded = evaluate_with_numpy(make_call(name, args, attrs))
        assert folded is not None, (name, args)
        assert folded.data.dtype == kernel.dtype, name
        np.testing.assert_array_equal(folded.data, kernel, err_msg=f"{name} {args} {attrs}")
        if folded.data.dtype.kind == "f" and not np.isnan(folded.data).any():
            np.testing.assert_array_equal(np.signbit(folded.data), np.signbit(kernel), err_msg=name)


@pytest.mark.parametrize("case", REFUSED, ids=identify)
def test_numpy_is_not_asked(case):
    assert evaluate_with_numpy(make_call(*case)) is None


def test_bfloat16_is_left_to_the_engine():
    ones = np.ones(3, NUMPY_DTYPES["bfloat16"])
    assert evaluate_with_numpy(make_call("add", (ones, ones), {})) is None


@pytest.mark.full
def test_measured_programs_fold_to_their_measured_outputs():
    """The corpus with its inputs as constants: what folds to a constant is what real Relay computed."""
    folded = []
    for record in load_programs():
        if not record["inputs"] or "data" not in (record["outputs"] or {}):
            continue
        main = infer_type(parse(record["text"])).functions["main"]
        given = [make_input(each) for each in record["inputs"]]
        if any(isinstance(each, tuple) for each in given):
            continue
        values = {param: constant(array) for param, array in zip(main.params, given, strict=True)}
        result = fold_constants(Module({"main": Function((), substitute(main.body, values))}))
        if isinstance(result.functions["main"].body, Constant):
            data = result.functions["main"].body.data
            assert_close(data, read_array(record["outputs"]), rtol=1e-6, atol=0)
            folded.append(record["id"])
    assert len(folded) >= 40, folded


def test_shapes_that_are_known_fold_and_others_do_not():
    x, n = Var("x", TensorType((2, 3))), Var("n", TensorType((2, AnyDim("n"))))
    exprs = [call(name, [var]) for name in ("shape_of", "ndarray_size") for var in (x, n)]
    new = fold_constants(infer_type(Module({"main": Function((x, n), Tuple(tuple(exprs)))})))
    shape, open_shape, size, open_size = new.functions["main"].body.fields
    assert shape.data.tolist() == [2, 3]
    assert size.data.tolist() == 6
    assert isinstance(open_shape, Call)
    assert isinstance(open_size, Call)
