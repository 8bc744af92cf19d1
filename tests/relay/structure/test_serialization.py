"""Modules as plain data and back, on every measured program and on what its text would lose.

They judge relay/structure/encoder and relay/structure/type_data, too.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from nnmagic.relay import (
    AnyDim,
    Function,
    Module,
    TensorType,
    TupleType,
    Var,
    call,
    constant,
    parse,
    structural_equal,
)
from nnmagic.relay.expr import Call, Tuple
from nnmagic.relay.infer import erase_types, infer_type
from nnmagic.relay.structure.serialization import module_from_data, module_to_data
from nnmagic.relay.text.parser import parse_module
from nnmagic.relay.types import Int64, VarDim

CORPUS = Path(__file__).parent.parent.parent / "relay_corpus" / "programs.jsonl"
PROGRAMS = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]


def through_json(module: Module) -> Module:
    data, arrays = module_to_data(module)
    return module_from_data(json.loads(json.dumps(data)), arrays)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program["id"])
def test_every_measured_program_comes_back(program: dict[str, str]) -> None:
    typed = infer_type(parse(program["text"]))
    again = infer_type(through_json(erase_types(typed)))
    assert structural_equal(typed, again)
    assert again.astext() == typed.astext()


@pytest.mark.parametrize("program", PROGRAMS[::10], ids=lambda program: program["id"])
def test_what_was_inferred_is_inferred_again(program: dict[str, str]) -> None:
    """A typed module comes back as it was written: what inference put in is not taken for an annotation."""
    written = parse_module(program["text"])
    again = through_json(infer_type(written))
    assert again.astext() == written.astext()
    assert erase_types(infer_type(again)).astext() == erase_types(infer_type(written)).astext()


def test_what_text_loses_is_kept() -> None:
    x = Var("x", TensorType((AnyDim("n"), 3, Int64(3), VarDim("m")), "float32"))
    y = Var("y", TensorType((AnyDim("n"), 3, 3, VarDim("m")), "float32"))
    body = call("nn.leaky_relu", [x], alpha=0.1234567890123456)
    body = call("add", [body, constant(1 / 3)])
    module = Module({"main": Function((x, y), body)})
    again = through_json(module).functions["main"]
    assert again.params[0].type_annotation == x.type_annotation
    types = [[type(dim) for dim in var.type_annotation.shape] for var in again.params]
    assert types == [[AnyDim, int, Int64, VarDim], [AnyDim, int, int, VarDim]]
    assert isinstance(again.body, Call)
    inner, number = again.body.args
    assert inner.attrs == {"alpha": 0.1234567890123456}
    assert number.data == np.float32(1 / 3)
    assert number.data.dtype == np.float32


@pytest.mark.full
def test_sharing_and_depth_are_kept() -> None:
    x = Var("x", TensorType((2,), "float32"))
    deep = x
    for _ in range(100_000):
        deep = call("exp", [deep])
    module = Module(
        {"main": Function((x,), Tuple((deep, deep)), TupleType((TensorType((2,)), TensorType((2,)))))}
    )
    data, _ = module_to_data(module)
    assert [record[0] for record in data["nodes"]].count("Call") == 100_000
    body = module_from_data(data, []).functions["main"].body
    assert isinstance(body, Tuple)
    assert body.fields[0] is body.fields[1]


@pytest.mark.parametrize(
    "data",
    [
        {"types": [], "nodes": [["Call", 0, [], [], []]], "functions": {"f": 0}, "data_types": {}},
        {"types": [["Tensor", ["x"], "float32"]], "nodes": [], "functions": {}, "data_types": {}},
        {"types": [], "nodes": [["Constant", 3]], "functions": {}, "data_types": {}},
        {"types": [], "nodes": [["GlobalVar", 7]], "functions": {}, "data_types": {}},
        {"types": [], "nodes": [], "functions": {"f": 0}, "data_types": {}},
        {},
    ],
)
def test_other_data_is_refused(data: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError, IndexError)):
        module_from_data(data, [])
