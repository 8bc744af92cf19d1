"""Ask the standard about operators: their forms, attributes and inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nnmagic.diagnostics import closest
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.registry import NEWEST, OPERATORS
from nnmagic.importers.onnx.values import TensorSequence, Value

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto

#: Operators that no tensor can hold the results of: why, and what to do instead.
_REFUSED = {
    ("ai.onnx.ml", "ZipMap"): (
        "its result is a sequence of maps, not a tensor",
        'write the model with skl2onnx\'s options={"zipmap": False}, which gives a tensor of probabilities',
    )
}


def schema_of(domain: str, op_type: str, opset: int) -> Any:
    """Return the newest form of an operator that is not above an opset; None if there is none."""
    from onnx import defs

    try:
        return defs.get_schema(op_type, opset, domain)
    except defs.SchemaError:
        return None


def has_body(schema: Any) -> bool:
    """Return whether the standard defines an operator by others."""
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def unknown_operator(domain: str, op_type: str, schema: Any, opset: int) -> UnsupportedError:
    """Return the error for an operator that cannot be imported."""
    if (domain, op_type) in _REFUSED:
        return UnsupportedError(*_REFUSED[domain, op_type])
    if schema is not None:
        return UnsupportedError("the operator is not supported", "docs/models.md lists those that are")
    if domain not in NEWEST:
        hint = f"the domains are {', '.join(map(repr, NEWEST))}; others need local functions"
        return UnsupportedError(f"the domain {domain!r} is not known", hint)
    near = closest(op_type, [name for of, name in OPERATORS if of == domain])
    hint = f"did you mean {near!r}?" if near else "docs/models.md lists the operators"
    return UnsupportedError(f"opset {opset} has no such operator", hint)


def check_attributes(attributes: Mapping[str, AttributeProto], schema: Any) -> None:
    """Raise UnsupportedError for attributes that an operator has not, or lacks."""
    for name, attribute in attributes.items():
        declared = schema.attributes.get(name)
        if declared is None:
            near = closest(name, schema.attributes)
            hint = f"did you mean {near!r}?" if near else f"its attributes: {', '.join(schema.attributes)}"
            raise UnsupportedError(f"there is no attribute {name!r} in opset {schema.since_version}", hint)
        if int(declared.type.value) != attribute.type:
            raise UnsupportedError(f"the attribute {name!r} must be a {declared.type.name.lower()}")
    for name, declared in schema.attributes.items():
        if declared.required and name not in attributes:
            raise UnsupportedError(f"the attribute {name!r} is missing")


def check_counts(inputs: int, outputs: int, schema: Any) -> None:
    """Raise UnsupportedError for numbers of inputs and outputs that an operator has not."""
    if schema is None:
        return
    for count, least, most, what in (
        (inputs, schema.min_input, schema.max_input, "inputs"),
        (outputs, schema.min_output, schema.max_output, "outputs"),
    ):
        if not least <= count <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise UnsupportedError(f"it has {count} {what}, and the operator has {wanted}")


def check_dtypes(inputs: Sequence[Value | TensorSequence | None], schema: Any) -> None:
    """Raise UnsupportedError for inputs of different dtypes where the operator wants one dtype."""
    dtypes: dict[str, tuple[str, str]] = {}
    for value, declared in zip(inputs, _declared_inputs(schema, len(inputs)), strict=False):
        if not isinstance(value, Value) or not declared.is_homogeneous:
            continue
        name, dtype = dtypes.setdefault(declared.type_str, (declared.name, value.dtype))
        if dtype != value.dtype:
            reason = f"the inputs {name!r} and {declared.name!r} are of the dtypes {dtype} and {value.dtype}"
            raise UnsupportedError(f"{reason}, and must be of one", "put a Cast before one of them")


def _declared_inputs(schema: Any, count: int) -> Sequence[Any]:
    """Return what an operator declares of each input; the last one may stand for several."""
    declared = list(schema.inputs)
    return declared + declared[-1:] * (count - len(declared))


def attribute_names(function: FunctionProto) -> set[str]:
    """Return the attributes that a function takes."""
    return {*function.attribute, *(item.name for item in function.attribute_proto)}


def names_of_inputs(schema: Any, count: int) -> list[str]:
    """Return an operator's own names of its inputs."""
    names = [item.name for item in schema.inputs] if schema is not None else []
    return names + names[-1:] * (count - len(names))
