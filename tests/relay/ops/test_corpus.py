"""The operators' declarations and type relations against what was measured on real Relay."""

from __future__ import annotations

import ast
import json
import re

import pytest

from nnmagic.relay.ops import NONE_GIVEN, OPERATORS, RelationError
from nnmagic.relay.text.types import type_text
from nnmagic.relay.types import ANY, TensorType, TupleType
from tests.relay import corpus

MEASURED = {entry["op"]: entry for entry in json.loads((corpus.FOLDER / "operators.json").read_text())["ops"]}
BY_OPERATOR = pytest.mark.parametrize("name", sorted(MEASURED))


# --- readers ------------------------------------------------------------------------------------------------


def split(text):
    """The parts between commas that stand outside brackets and strings."""
    parts, depth, quoted = [""], 0, False
    for char in text:
        quoted ^= char == '"'
        depth += (char in "[(") - (char in "])") if not quoted else 0
        if char == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


def read_type(text):
    """A type as Relay prints it, or as TVM's script form of it that the corpus has for tuples."""
    text = text.strip()
    if text.startswith("T.Tuple("):
        return TupleType(tuple(read_type(part) for part in split(text[len("T.Tuple(") : -1])))
    if text.startswith("("):
        return TupleType(tuple(read_type(part) for part in split(text[1:-1])))
    result = re.fullmatch(r'I\.TensorType\(\[(.*)\], "(\w+)"\)', text) or re.fullmatch(
        r"Tensor\[\((.*)\), (\w*)\]", text
    )
    if not result:
        return TensorType((), text)
    dims = (ANY if dim in ("?", "T.Any()") else int(dim) for dim in split(result[1]))
    return TensorType(tuple(dims), result[2])


def read_value(text):
    """An attribute's value as Relay prints it."""
    if text.startswith("["):
        return tuple(read_value(part) for part in split(text[1:-1]))
    if text.startswith('"'):
        return text[1:-1]
    if text in ("True", "False", "None"):
        return ast.literal_eval(text)
    return float(text[:-1]) if text.endswith("f") else int(text)


def read_example(name, text):
    """The attributes of a printed call and the text of its type; None where an attribute is a constant."""
    plain = re.sub(r"/\* ty=[^*]*\*/(?=.*\) /\* ty=)", "", text)
    result = re.search(re.escape(name) + r"\((.*)\) /\* ty=(.*) \*/", plain)
    attrs = dict(part.split("=", 1) for part in split(result[1]) if re.match(r"\w+=", part)) if result else {}
    if not result or any(value.startswith("meta[") for value in attrs.values()):
        return None
    return {key: read_value(value) for key, value in attrs.items()}, result[2]


def examples(name):
    entry = MEASURED[name]
    read = (read_example(name, text) for text in (entry["example"], *entry["more_examples"]))
    return [example for example in read if example is not None]


# --- declarations -------------------------------------------------------------------------------------------


def test_every_measured_operator_is_declared_and_no_other():
    """Those on quantized numbers, but for two, are measured in test_ops_qnn.py.

    Relay has no linear algebra, no histograms, no tables and few special functions, and calls no Python.
    """
    own = ("qnn.", "linalg.", "numpy.", "python.", "special.", "table.")
    assert set(MEASURED) <= set(OPERATORS)
    assert all(name.startswith(own) for name in set(OPERATORS) - set(MEASURED))


@BY_OPERATOR
def test_arguments_and_attributes_are_those_measured(name):
    operator, measured = OPERATORS[name], MEASURED[name]
    # dyn.strided_slice is registered with five argument names, but takes four arguments.
    assert list(operator.args) == [arg["name"] for arg in measured["arguments"]][: measured["num_inputs"]]
    assert [attr.name for attr in operator.attrs] == [attr["name"] for attr in measured["attrs"]]
    if measured["attrs_type"] and name != "nn.avg_pool2d_grad":  # whose attributes are of another class
        assert operator.attrs_key == measured["attrs_type"]
    assert bool(operator.attrs) == (operator.attrs_key is not None)


def corpus_default(attr):
    """A C++ default as a Python value."""
    text = attr["default"]
    if not attr["has_default"]:
        return NONE_GIVEN
    if text in ("(nullptr)", "void"):
        return {"(nullptr)": None, "void": ""}[text]
    if attr["type"] in ("str", "runtime.String", "DataType"):
        return text
    if attr["type"] == "bool":
        return {"0": False, "1": True}[text]
    value = ast.literal_eval(re.sub(r"T\.\w+\(([^)]*)\)", r"\1", text))
    return tuple(value) if isinstance(value, list) else value


@BY_OPERATOR
def test_defaults_are_those_measured(name):
    for attr, measured in zip(OPERATORS[name].attrs, MEASURED[name]["attrs"], strict=True):
        expected = corpus_default(measured)
        assert attr.default == expected, attr.name
        if expected is not NONE_GIVEN:
            assert attr.kind.coerce(attr.default) == attr.default, f"{attr.name}'s default is not coerced"


# --- calls from Python --------------------------------------------------------------------------------------

#: What these parameters of Relay's Python functions become is more than a renaming; see test_ops_calls.py.
PREPARED = {
    "image.affine_grid": {"target_shape"},  # None by default, which Relay itself then refuses
    "arange": {"end", "step"},
    "matrix_set_diag": {"k", "align"},
    "stft": {"hop_length", "win_length", "window"},
    "variance": {"mean"},
    "strided_set": {"strides"},
    "vision.get_valid_counts": {"score_threshold"},
}


def signature(text):
    """Parameter names and defaults (NONE_GIVEN where there is none) of a Python signature."""
    arguments = ast.parse(f"def f{text}: pass").body[0].args
    defaults = [NONE_GIVEN] * (len(arguments.args) - len(arguments.defaults)) + [
        ast.literal_eval(default) for default in arguments.defaults
    ]
    return {arg.arg: default for arg, default in zip(arguments.args, defaults, strict=True)}


@pytest.mark.parametrize("name", sorted(name for name, entry in MEASURED.items() if entry["signature"]))
def test_order_and_defaults_of_a_python_call_are_those_of_relays_function(name):
    operator, prepared = OPERATORS[name], PREPARED.get(name, set())
    parameters = signature(MEASURED[name]["signature"])
    measured = {operator.keywords.get(key, key): default for key, default in parameters.items()}
    order = operator.call_order or (*operator.args, *(attr.name for attr in operator.attrs))
    if name != "matrix_set_diag":
        assert list(order) == list(measured)
    for parameter, default in measured.items():
        if parameter in prepared or name.startswith("dyn."):
            continue
        if parameter in operator.args:
            assert operator.arg_defaults.get(parameter, NONE_GIVEN) == default, parameter
            continue
        attr = operator.attr(parameter)
        assert attr is not None, parameter
        if default is NONE_GIVEN:
            assert attr.default_in_call is NONE_GIVEN, parameter
        else:
            assert attr.kind.in_call(attr.default_in_call) == attr.kind.in_call(default), parameter


# --- type relations -----------------------------------------------------------------------------------------


def infer_text(operator, arg_types, attrs):
    """The result's type as text; what the operator refuses as the message."""
    try:
        return type_text(operator.result_type(arg_types, operator.complete_attrs(attrs)))
    except RelationError as error:
        return f"refused: {error.message}"


def type_examples(name):
    actual = {(tuple(case["args"]), case["result"]) for case in MEASURED[name]["type_examples"]}
    return [
        ([read_type(arg) for arg in args], type_text(read_type(result))) for args, result in sorted(actual)
    ]


#: Measured without the text of their calls.
WITHOUT_TEXT = {
    ("nn.conv2d", "Tensor[(1, 3, 5, 5), float32]"): {"padding": (1, 1, 1, 1)},
    ("reshape", "Tensor[(3, 2), float32]"): {"newshape": (3, 2)},
}


@pytest.mark.parametrize("name", sorted(set(MEASURED) - {"arange"}))
def test_types_are_those_measured(name):
    operator, cases = OPERATORS[name], type_examples(name)
    assert cases
    for arg_types, result in cases:
        attrs = [attrs for attrs, _ in examples(name)]
        attrs += [WITHOUT_TEXT[name, result]] if (name, result) in WITHOUT_TEXT else []
        actual = [infer_text(operator, arg_types, each) for each in attrs]
        assert result in actual, (arg_types, actual)
    for attrs, result in examples(name):
        assert result in [infer_text(operator, arg_types, attrs) for arg_types, _ in cases], (attrs, result)
