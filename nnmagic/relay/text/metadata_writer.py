"""Write the metadata section of Relay text: the JSON graph that ``meta[...]`` refers to, as TVM does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nnmagic.relay.expr import Attrs, Constant, Var
from nnmagic.relay.text import metadata
from nnmagic.relay.text.metadata_arrays import save_array
from nnmagic.relay.types import AnyDim, IncompleteType, Int64, TensorType, Type, VarDim

#: The objects that the text can refer to.
_Entry = Constant | Var | VarDim | IncompleteType | Attrs

#: The number of keys that TVM keeps in insertion order, and the factor of its hash for more.
_SMALL_MAP, _GOLDEN_RATIO = 4, 11400714819323198485


@dataclass(slots=True)
class _JsonNode:
    """A node of the JSON graph; ``data`` and the ``attrs`` of kind ref hold numbers of other nodes."""

    type_key: str
    repr_str: str = ""
    attrs: dict[str, str] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    data: list[int] = field(default_factory=list)


class MetadataWriter:
    """The numbers of what the text refers to, and the section that holds it all."""

    def __init__(self) -> None:
        self._entries: dict[str, list[_Entry]] = {}
        self._numbers: dict[object, int] = {}

    def __bool__(self) -> bool:
        return bool(self._entries)

    def reference(self, value: Constant | Var | VarDim | IncompleteType) -> str:
        """Return ``meta[relay.Constant][k]``; the same constant has the same k."""
        keys = {
            Constant: metadata.CONSTANT_KEY,
            Var: metadata.RELAY_VAR_KEY,
            VarDim: metadata.VAR_KEY,
            IncompleteType: metadata.INCOMPLETE_KEY,
        }
        return self._reference(keys[type(value)], value, identity=value)

    def attrs_reference(self, attrs_class: metadata.AttrsClass, attrs: Attrs) -> str:
        """Return ``meta[relay.attrs.X][k]``; the same mapping has the same k."""
        return self._reference(attrs_class.key, attrs, identity=(attrs_class.key, id(attrs)))

    def _reference(self, key: str, value: _Entry, identity: object) -> str:
        entries = self._entries.setdefault(key, [])
        number = self._numbers.setdefault(identity, len(entries))
        if number == len(entries):
            entries.append(value)
        return f"meta[{key}][{number}]"

    def section(self) -> str:
        """Return the JSON text, as TVM writes it."""
        return _JsonGraph().text({key: self._entries[key] for key in _sort_by_hash(self._entries)})


def _sort_by_hash(keys: Iterable[str]) -> list[str]:
    """Sort the keys as the hash map from which TVM writes them.

    That is GNU's ``std::unordered_map`` of 13 buckets: a new key comes first, or, if its bucket has keys,
    before these. Up to four keys stay so; more go through TVM's own map, which sorts them by another hash.
    """
    order: list[str] = []
    for key in keys:
        bucket = [other for other in order if _hash(other) % 13 == _hash(key) % 13]
        order.insert(order.index(bucket[0]) if bucket else 0, key)
    if len(order) <= _SMALL_MAP:
        return order
    slots = 16 if len(order) < 8 else 32  # TVM's are twice the next power of two
    return sorted(order, key=lambda key: _hash(key) * _GOLDEN_RATIO % 2**64 * slots >> 64)


def _hash(key: str) -> int:
    """Return TVM's hash of a string."""
    data, result = key.encode(), 0
    for start in range(0, len(data), 8):
        part = int.from_bytes(data[start : start + 8], "little")
        result = (result * 1099511628211 + part) % 2**64 % 2147483647
    return result


class _JsonGraph:
    """A JSON graph: a node is numbered when it is reached first, fields in declaration order."""

    def __init__(self) -> None:
        self.nodes = [_JsonNode("")]
        self.arrays: list[str] = []
        self.device: int | None = None

    def text(self, entries: Mapping[str, Sequence[_Entry]]) -> str:
        root = self._add(_JsonNode("Map", keys=list(entries)))
        for key, values in entries.items():
            group = self._add(_JsonNode("Array"))
            self.nodes[root].data.append(group)
            self.nodes[group].data = [self._entry(key, value) for value in values]
        parts = {
            "root": root,
            "nodes": [_node_json(node) for node in self.nodes],
            "b64ndarrays": self.arrays,
            "attrs": {"tvm_version": "0.16.dev0"},
        }
        return _json_text(parts)

    def _add(self, node: _JsonNode) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _entry(self, key: str, value: _Entry) -> int:
        match value:
            case Constant():
                return self._constant(value)
            case Var():
                return self._variable(value)
            case IncompleteType():
                return self._add(_JsonNode(metadata.INCOMPLETE_KEY, attrs={"kind": "0", "span": "0"}))
            case VarDim(name=name):
                number = self._add(_JsonNode(metadata.VAR_KEY))
                self.nodes[number].attrs = {
                    "dtype": "int32",
                    "name": str(self._value(name)),
                    "span": "0",
                    "type_annotation": str(self._add(_JsonNode("PrimType", attrs={"dtype": "int32"}))),
                }
                return number
        return self._attrs(metadata.CLASSES[key], value)

    def _constant(self, constant: Constant) -> int:
        number = self._add(_JsonNode(metadata.CONSTANT_KEY))
        self.arrays.append(save_array(constant.data))
        self.nodes[number].attrs = {
            "data": str(len(self.arrays) - 1),
            "span": "0",
            "virtual_device_": str(self._device()),
            "_checked_type_": str(self._type(constant.checked_type)),
        }
        return number

    def _variable(self, var: Var) -> int:
        number = self._add(_JsonNode(metadata.RELAY_VAR_KEY))
        name = self._add(_JsonNode("relay.Id"))
        self.nodes[name].attrs = {"name_hint": str(self._value(var.name_hint))}
        self.nodes[number].attrs = {
            "vid": str(name),
            "type_annotation": str(self._type(var.type_annotation)),
            "virtual_device_": str(self._device()),
            "span": "0",
            "_checked_type_": "0",
        }
        return number

    def _device(self) -> int:
        """Return the node "any device", which all constants share."""
        if self.device is None:
            self.device = self._add(_JsonNode("VirtualDevice"))
            self.nodes[self.device].attrs = {
                "device_type_int": "-1",
                "memory_scope": str(self._value("")),
                "target": "0",
                "virtual_device_id": "-1",
            }
        return self.device

    def _type(self, type_: Type | None) -> int:
        if not isinstance(type_, TensorType):
            return 0
        number = self._add(_JsonNode("relay.TensorType"))
        self.nodes[number].attrs = {"dtype": type_.dtype, "shape": str(self._value(type_.shape)), "span": "0"}
        return number

    def _attrs(self, attrs_class: metadata.AttrsClass, attrs: Attrs) -> int:
        number = self._add(_JsonNode(attrs_class.key))
        for name, storage in attrs_class.storage.items():
            value = attrs.get(name)
            self.nodes[number].attrs[name] = (
                str(self._value(value)) if storage == metadata.REF else _inline_text(value, storage)
            )
        return number

    def _value(self, value: object) -> int:
        """Return the node of an attribute's value; 0 stands for None."""
        match value:
            case None:
                return 0
            case str():
                return self._add(_JsonNode("runtime.String", repr_str=value))
            case bool() | int():
                dtype = (
                    "bool" if isinstance(value, bool) else "int64" if isinstance(value, Int64) else "int32"
                )
                attrs = {"dtype": dtype, "span": "0", "value": str(int(value))}
                return self._add(_JsonNode("IntImm", attrs=attrs))
            case float():
                attrs = {"dtype": "float32", "span": "0", "value": f"{value:.17g}"}
                return self._add(_JsonNode("FloatImm", attrs=attrs))
            case tuple() | list():
                number = self._add(_JsonNode("Array"))
                self.nodes[number].data = [self._value(item) for item in value]
                return number
            case Constant():
                return self._constant(value)
            case Var():
                return self._variable(value)
            case AnyDim():
                return self._add(_JsonNode("tir.Any", attrs={"dtype": "int32", "span": "0"}))
            case VarDim():
                return self._entry(metadata.VAR_KEY, value)
        raise TypeError(f"not an attribute's value: {value!r}")


def _inline_text(value: object, storage: str) -> str:
    if storage == metadata.BOOL:
        return "1" if value else "0"
    return f"{value:.17g}" if isinstance(value, float) else str(value)


def _node_json(node: _JsonNode) -> dict[str, object]:
    parts = {
        "type_key": node.type_key,
        "repr_str": node.repr_str,
        "attrs": dict(sorted(node.attrs.items())),
        "keys": node.keys,
        "data": node.data,
    }
    return {name: field for name, field in parts.items() if field or name == "type_key"}


def _json_text(value: object, indent: str = "") -> str:
    """Return JSON with TVM's line breaks: short lists of numbers and one-field attributes on one line."""
    inner = indent + "  "
    match value:
        case dict():
            items = [f"{json.dumps(name)}: {_json_text(item, inner)}" for name, item in value.items()]
            one_line = len(items) <= 1 and "type_key" not in value
            brackets = "{}"
        case list():
            items = [_json_text(item, inner) for item in value]
            one_line = not items or (isinstance(value[0], int) and len(items) <= 10)
            brackets = "[]"
        case _:
            return json.dumps(value, ensure_ascii=False)
    if one_line:
        return brackets[0] + ", ".join(items) + brackets[1]
    lines = ", \n".join(inner + item for item in items)
    return f"{brackets[0]}\n{lines}\n{indent}{brackets[1]}"
