"""The defaults that help shows: a call that gives one is the same program as a call that leaves it out."""

from __future__ import annotations

import ast

import pytest

from nnmagic.diagnostics import CompileError, Source
from nnmagic.tinynn import compile_source
from nnmagic.tinynn.builtins import BUILTINS
from nnmagic.tinynn.editor.symbols import function_symbol

HEAD = """
def f(
    x: Tensor[(4, 6), f32], v: Tensor[(7,), f32], w: Tensor[(6,), f32], b: Tensor[(3, 6, 6), f32],
    i: Tensor[(5,), i64], i4: Tensor[(4,), i64], c: Tensor[(2,), f32],
    d1: Tensor[(1, 2, 8), f32], d2: Tensor[(1, 2, 8, 8), f32], d3: Tensor[(1, 2, 8, 8, 8), f32],
    k1: Tensor[(2, 2, 3), f32], k2: Tensor[(2, 2, 3, 3), f32], k3: Tensor[(2, 2, 3, 3, 3), f32],
):
    return """

#: How functions are called that take something else than matrices.
CALLS = {
    "clip": "clip(x, -1.0, 1.0)",
    "reshape": "reshape(x, (6, 4))",
    "expand_dims": "expand_dims(x, 0)",
    "meshgrid": "meshgrid(v, w)",
    "dstack": "dstack([x, x])",
    "column_stack": "column_stack([x, x])",
    "concatenate": "concatenate([x, x])",
    "stack": "stack([x, x])",
    "pad": "pad(x, 1)",
    "zeros": "zeros((2, 3))",
    "full": "full((2, 3), 1.0)",
    "arange": "arange(3)",
    "linspace": "linspace(0.0, 1.0)",
    "eye": "eye(3)",
    "tri": "tri(3)",
    "take": "take(x, i)",
    "take_along_axis": "take_along_axis(x, argsort(x))",
    "array": "array([1.0, 2.0])",
    "searchsorted": "searchsorted(v, x)",
    "gradient": "gradient(v)",
    "roll": "roll(x, 1)",
    "repeat": "repeat(x, 2)",
    "quantile": "quantile(x, 0.5)",
    "split": "split(x, 2)",
    "prelu": "prelu(x, w)",
    "bilinear": "bilinear(x, x, b)",
    "batch_norm": "batch_norm(d2, c, c)",
    "layer_norm": "layer_norm(x, (6,))",
    "rms_norm": "rms_norm(x, (6,))",
    "group_norm": "group_norm(d2, 1)",
    "instance_norm": "instance_norm(d2)",
    "embedding": "embedding(i, x)",
    "one_hot": "one_hot(i, 5)",
    "interpolate": "interpolate(d2, scale_factor=2)",
    "upsample": "upsample(d2, scale_factor=2)",
    "nll_loss": "nll_loss(x, i4)",
    "cross_entropy": "cross_entropy(x, i4)",
    **{f"conv{n}d": f"conv{n}d(d{n}, k{n})" for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": f"conv_transpose{n}d(d{n}, k{n})" for n in (1, 2, 3)},
    **{f"{kind}_pool{n}d": f"{kind}_pool{n}d(d{n}, 2)" for kind in ("max", "avg") for n in (1, 2, 3)},
    **{
        f"adaptive_{kind}_pool{n}d": f"adaptive_{kind}_pool{n}d(d{n}, 2)"
        for kind in ("max", "avg")
        for n in (1, 2, 3)
    },
}
#: Two names of one parameter, of which one is given above.
SAME = {"pool_size", "running_mean", "running_var"}


def program(call: str) -> str:
    return str(compile_source(Source("<test>", f"{HEAD}{call}\n"), {}).module)


def plain_call(name: str) -> str:
    """A call with matrices for all that must be given."""
    required = [
        part for part in function_symbol(BUILTINS[name]).parameters if "=" not in part and "*" not in part
    ]
    return f"{name}({', '.join('x' for _ in required)})"


CALLED = {name: CALLS.get(name, plain_call(name)) for name in BUILTINS}


@pytest.mark.machine_code
@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("name", CALLED)
def test_a_default_that_is_given_changes_nothing(name: str) -> None:
    call = CALLED[name]
    try:
        without = program(call)
    except CompileError:
        assert name not in CALLS
        pytest.skip("takes something else than matrices")
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    given = {*(keyword.arg for keyword in node.keywords)} | SAME
    parts = [part for part in function_symbol(BUILTINS[name]).parameters[len(node.args) :] if "=" in part]
    for part in parts:
        if part.partition("=")[0] not in given:
            assert program(f"{call[:-1]}, {part})") == without, part


def test_no_default_is_left_open() -> None:
    for name, builtin in BUILTINS.items():
        assert "..." not in function_symbol(builtin).signature, name
