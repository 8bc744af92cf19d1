"""Read the metadata section of Relay text."""

from __future__ import annotations

import json

import numpy as np

from nnmagic.limits import MAX_CHARACTERS
from nnmagic.relay.expr import Constant, Var
from nnmagic.relay.text.metadata import BOOL, CLASSES, FLOAT, REF, STR
from nnmagic.relay.text.metadata_arrays import load_array
from nnmagic.relay.types import ANY, IncompleteType, Int64, TensorType, VarDim


class MetadataReader:
    """A metadata section. Raises ValueError for a section that is not as TVM writes it."""

    def __init__(self, text: str) -> None:
        try:
            graph = json.loads(text)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        if not isinstance(graph, dict):
            raise ValueError("not an object")  # noqa: TRY004  malformed input, like every other error here
        self._nodes = _list(graph.get("nodes"))
        self._parts_left = MAX_CHARACTERS + 10 * len(self._nodes)
        self._arrays = _list(graph.get("b64ndarrays", []))
        root = self._node(graph.get("root"))
        groups = _list(root.get("data", []))
        self._groups = {
            str(key): _list(self._node(group).get("data", []))
            for key, group in zip(_list(root.get("keys", [])), groups, strict=False)
        }

    def entry(self, key: str, index: int) -> object:
        """Return the constant, dimension or attributes of ``meta[key][index]``."""
        group = self._groups.get(key, [])
        if not 0 <= index < len(group):
            raise ValueError(f"the metadata section has no {key} number {index} (it has {len(group)})")
        return self._value(group[index], depth=0)

    def _node(self, number: object) -> dict[str, object]:
        if not isinstance(number, int) or not 0 <= number < len(self._nodes):
            raise ValueError(f"there is no node {number}")
        node = self._nodes[number]
        if not isinstance(node, dict):
            raise ValueError(f"node {number} is not an object")  # noqa: TRY004  malformed input
        return node

    def _value(self, number: object, depth: int) -> object:
        self._parts_left -= 1
        if self._parts_left < 0:  # arrays of arrays, each of which is named many times
            raise ValueError("the metadata section has too many parts")
        node = self._node(number)
        key = node.get("type_key")
        if not isinstance(key, str):
            raise ValueError(f"node {number} has no type_key")  # noqa: TRY004  malformed input
        fields = node.get("attrs", {})
        if depth > 32 or not isinstance(fields, dict):
            raise ValueError(f"node {number} cannot be read")
        match key:
            case "":
                return None
            case "runtime.String":
                return str(node.get("repr_str", ""))
            case "Array":
                return tuple(self._value(item, depth + 1) for item in _list(node.get("data", [])))
            case "IntImm":
                value = _number(fields.get("value"))
                if not -(2**63) <= value < 2**63:
                    raise ValueError(f"the number of node {number} does not fit 64 bits")
                dtype = fields.get("dtype")
                return bool(value) if dtype == "bool" else Int64(value) if dtype == "int64" else value
            case "FloatImm":
                return float(str(fields.get("value")))
            case "tir.Any":
                return ANY
            case "tir.Var":
                return VarDim(str(self._value(_number(fields.get("name")), depth + 1)))
            case "relay.Constant":
                return Constant(self._array(fields.get("data")))
            case "IncompleteType":
                return IncompleteType()
            case "relay.Id":
                return self._value(_number(fields.get("name_hint")), depth + 1)
            case "relay.TensorType":
                shape = self._value(_number(fields.get("shape")), depth + 1)
                return TensorType(shape if isinstance(shape, tuple) else (), str(fields.get("dtype")))
            case "relay.Var":
                name, annotation = (
                    self._value(_number(fields.get(field_name)), depth + 1)
                    for field_name in ("vid", "type_annotation")
                )
                return Var(str(name), annotation if isinstance(annotation, TensorType) else None)
        if key in CLASSES:
            storage = CLASSES[key].storage
            return {
                name: self._field(fields[name], kind, depth)
                for name, kind in storage.items()
                if name in fields
            }
        raise ValueError(f"metadata of the kind {key!r} is not known")

    def _field(self, text: object, storage: str, depth: int) -> object:
        if storage == REF:
            return self._value(_number(text), depth + 1)
        if storage == STR:
            return str(text)
        return (
            float(str(text))
            if storage == FLOAT
            else bool(_number(text))
            if storage == BOOL
            else _number(text)
        )

    def _array(self, number: object) -> np.ndarray:
        index = _number(number)
        if not 0 <= index < len(self._arrays):
            raise ValueError(f"there is no array {index}")
        return load_array(str(self._arrays[index]))


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError("a list is missing")  # noqa: TRY004  malformed input, like every other error here
    return value


def _number(text: object) -> int:
    return int(str(text))
