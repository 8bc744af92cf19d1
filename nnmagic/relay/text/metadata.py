"""The metadata section of Relay text: the JSON graph, in TVM's layout, that ``meta[...][...]`` refers to.

Writing: ``MetadataWriter``; reading: ``MetadataReader``. Knows the IR, not the grammar around the section.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nnmagic.relay.expr import Attrs, Constant
from nnmagic.relay.types import (
    ANY,
    NUMPY_DTYPES,
    AnyDim,
    IncompleteType,
    Int64,
    TensorType,
    Type,
    VarDim,
    dtype_of_array,
)

CONSTANT_KEY = "relay.Constant"
VAR_KEY = "tir.Var"
INCOMPLETE_KEY = "IncompleteType"

#: How TVM stores a field of an attribute class: as text in place, or as the number of another node.
_REF, _INT, _BOOL, _FLOAT, _STR = "ref", "int", "bool", "float", "str"


@dataclass(frozen=True, slots=True)
class AttrsClass:
    """An attribute class of TVM and how each field is stored."""

    key: str
    storage: Mapping[str, str]


def _attrs_class(name: str, **storage: str) -> AttrsClass:
    return AttrsClass(f"relay.attrs.{name}", storage)


_SCAN = _attrs_class("ScanopAttrs", axis=_REF, dtype=_STR, exclusive=_REF)

#: The operators that are registered without (or with another) attribute class. Where there is a metadata
#: section, Relay prints their attributes as ``meta[relay.attrs.X][k]``, elsewhere by name.
METADATA_ATTRS: dict[str, AttrsClass] = {
    "collapse_sum_to": _attrs_class("InitOpAttrs", shape=_REF, dtype=_STR),
    "cumprod": _SCAN,
    "cumsum": _SCAN,
    "dft": _attrs_class("DFTAttrs", inverse=_REF),
    "nn.avg_pool2d_grad": _attrs_class(
        "AvgPool2DAttrs",
        pool_size=_REF,
        strides=_REF,
        dilation=_REF,
        padding=_REF,
        layout=_REF,
        out_layout=_REF,
        ceil_mode=_BOOL,
        count_include_pad=_BOOL,
    ),
    "nn.dilate": _attrs_class("DilateAttrs", strides=_REF, dilation_value=_FLOAT),
    "scatter_elements": _attrs_class("ScatterElementsAttrs", axis=_REF, reduction=_REF),
    "scatter_nd": _attrs_class("ScatterNDAttrs", mode=_REF),
    "stft": _attrs_class(
        "StftAttrs", n_fft=_INT, hop_length=_INT, win_length=_INT, normalized=_BOOL, onesided=_BOOL
    ),
    "trilu": _attrs_class("TriluAttrs", upper=_BOOL),
    "unique": _attrs_class("UniqueAttrs", sorted=_BOOL, return_counts=_BOOL),
    "vision.all_class_non_max_suppression": _attrs_class(
        "AllClassNonMaximumSuppressionAttrs", output_format=_STR
    ),
    "vision.get_valid_counts": _attrs_class(
        "GetValidCountsAttrs", score_threshold=_REF, id_index=_INT, score_index=_INT
    ),
    "vision.non_max_suppression": _attrs_class(
        "NonMaximumSuppressionAttrs",
        force_suppress=_BOOL,
        top_k=_INT,
        coord_start=_INT,
        score_index=_INT,
        id_index=_INT,
        return_indices=_BOOL,
        invalid_to_bottom=_BOOL,
    ),
    "vision.roi_align": _attrs_class(
        "ROIAlignAttrs", pooled_size=_REF, spatial_scale=_FLOAT, sample_ratio=_INT, layout=_STR, mode=_STR
    ),
    "vision.roi_pool": _attrs_class("ROIPoolAttrs", pooled_size=_REF, spatial_scale=_FLOAT, layout=_STR),
}
_CLASSES = {attrs_class.key: attrs_class for attrs_class in METADATA_ATTRS.values()}

_NDARRAY_MAGIC = 0xDD5E40F096B4A13F
_NDARRAY_HEAD = struct.Struct(
    "<QQiiiBBH"
)  # magic, reserved, device type and id, rank, dtype: code, bits, lanes
_CPU = 1
_DTYPE_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4}
_CODE_OF_DTYPE = {
    name: (1, 1) if name == "bool" else (_DTYPE_CODES[name.rstrip("0123456789")], 8 * dtype.itemsize)
    for name, dtype in NUMPY_DTYPES.items()
}
_DTYPE_OF_CODE = {code: name for name, code in _CODE_OF_DTYPE.items()}


def save_array(data: np.ndarray) -> str:
    """An array as TVM saves it, in base64."""
    dtype = dtype_of_array(data)
    assert dtype is not None
    code, bits = _CODE_OF_DTYPE[dtype]
    head = _NDARRAY_HEAD.pack(_NDARRAY_MAGIC, 0, _CPU, 0, data.ndim, code, bits, 1)
    little = data.astype(data.dtype.newbyteorder("<"), order="C", copy=False)
    shape = struct.pack(f"<{data.ndim}q", *data.shape)
    blob = head + shape + struct.pack("<q", data.nbytes) + little.tobytes()
    return base64.b64encode(blob).decode("ascii")


def load_array(text: str) -> np.ndarray:
    """The read-only array of ``save_array``'s text. Raises ValueError."""
    try:
        blob = base64.b64decode(text, validate=True)
        magic, _, _, _, rank, code, bits, lanes = _NDARRAY_HEAD.unpack_from(blob)
        if magic != _NDARRAY_MAGIC or not 0 <= rank <= 64 or lanes != 1:
            raise ValueError("not a saved TVM array")
        *shape, size = struct.unpack_from(f"<{rank + 1}q", blob, _NDARRAY_HEAD.size)
    except (binascii.Error, struct.error):
        raise ValueError("not a saved TVM array") from None
    dtype = NUMPY_DTYPES.get(_DTYPE_OF_CODE.get((code, bits), ""))
    start = _NDARRAY_HEAD.size + 8 * (rank + 1)
    if dtype is None:
        raise ValueError(f"a saved array of an unknown dtype (code {code}, {bits} bits)")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size or len(blob) - start != size:
        raise ValueError("a saved array whose size does not fit its shape")
    data = np.frombuffer(blob, dtype.newbyteorder("<"), offset=start).astype(dtype).reshape(shape)
    data.flags.writeable = False
    return data


#: What the text can refer to.
_Entry = Constant | VarDim | IncompleteType | Attrs


@dataclass(slots=True)
class _JsonNode:
    """A node of the JSON graph; ``data`` and the ``attrs`` of kind ref hold numbers of other nodes."""

    type_key: str
    repr_str: str = ""
    attrs: dict[str, str] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    data: list[int] = field(default_factory=list)


class MetadataWriter:
    """Gives numbers to what the text refers to, and the section that holds it all."""

    def __init__(self) -> None:
        self._entries: dict[str, list[_Entry]] = {}
        self._numbers: dict[object, int] = {}

    def __bool__(self) -> bool:
        return bool(self._entries)

    def reference(self, value: Constant | VarDim | IncompleteType) -> str:
        """``meta[relay.Constant][k]``; the same constant has the same k."""
        keys = {Constant: CONSTANT_KEY, VarDim: VAR_KEY, IncompleteType: INCOMPLETE_KEY}
        return self._reference(keys[type(value)], value, identity=value)

    def attrs_reference(self, attrs_class: AttrsClass, attrs: Attrs) -> str:
        """``meta[relay.attrs.X][k]``; the same mapping has the same k."""
        return self._reference(attrs_class.key, attrs, identity=(attrs_class.key, id(attrs)))

    def _reference(self, key: str, value: _Entry, identity: object) -> str:
        entries = self._entries.setdefault(key, [])
        number = self._numbers.setdefault(identity, len(entries))
        if number == len(entries):
            entries.append(value)
        return f"meta[{key}][{number}]"

    def section(self) -> str:
        """The JSON text, as TVM writes it."""
        # TVM's map gives the key that was used last first.
        return _JsonGraph().text(dict(reversed(self._entries.items())))


class _JsonGraph:
    """Builds the JSON graph: a node is numbered when it is reached first, fields in declaration order."""

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
            case IncompleteType():
                return self._add(_JsonNode(INCOMPLETE_KEY, attrs={"kind": "0", "span": "0"}))
            case VarDim(name=name):
                number = self._add(_JsonNode(VAR_KEY))
                self.nodes[number].attrs = {
                    "dtype": "int32",
                    "name": str(self._value(name)),
                    "span": "0",
                    "type_annotation": str(self._add(_JsonNode("PrimType", attrs={"dtype": "int32"}))),
                }
                return number
        return self._attrs(_CLASSES[key], value)

    def _constant(self, constant: Constant) -> int:
        number = self._add(_JsonNode(CONSTANT_KEY))
        self.arrays.append(save_array(constant.data))
        self.nodes[number].attrs = {
            "data": str(len(self.arrays) - 1),
            "span": "0",
            "virtual_device_": str(self._device()),
            "_checked_type_": str(self._type(constant.checked_type)),
        }
        return number

    def _device(self) -> int:
        """The one node "any device", which all constants share."""
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
        self.nodes[number].attrs = {
            "dtype": type_.dtype,
            "shape": str(self._value(type_.shape)),
            "span": "0",
        }
        return number

    def _attrs(self, attrs_class: AttrsClass, attrs: Attrs) -> int:
        number = self._add(_JsonNode(attrs_class.key))
        for name, storage in attrs_class.storage.items():
            value = attrs.get(name)
            self.nodes[number].attrs[name] = (
                str(self._value(value)) if storage == _REF else _in_place(value, storage)
            )
        return number

    def _value(self, value: object) -> int:
        """The node of an attribute's value; 0 stands for None."""
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
            case AnyDim():
                return self._add(_JsonNode("tir.Any", attrs={"dtype": "int32", "span": "0"}))
            case VarDim():
                return self._entry(VAR_KEY, value)
        raise TypeError(f"not an attribute's value: {value!r}")


def _in_place(value: object, storage: str) -> str:
    if storage == _BOOL:
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
    return {name: part for name, part in parts.items() if part or name == "type_key"}


def _json_text(value: object, indent: str = "") -> str:
    """JSON with TVM's line breaks: short lists of numbers and one-field attributes stand on one line."""
    inner = indent + "  "
    match value:
        case dict():
            parts = [f"{json.dumps(name)}: {_json_text(part, inner)}" for name, part in value.items()]
            one_line = len(parts) <= 1 and "type_key" not in value
            brackets = "{}"
        case list():
            parts = [_json_text(part, inner) for part in value]
            one_line = not parts or (isinstance(value[0], int) and len(parts) <= 10)
            brackets = "[]"
        case _:
            return json.dumps(value, ensure_ascii=False)
    if one_line:
        return brackets[0] + ", ".join(parts) + brackets[1]
    lines = ", \n".join(inner + part for part in parts)
    return f"{brackets[0]}\n{lines}\n{indent}{brackets[1]}"


class MetadataReader:
    """What a metadata section holds. Raises ValueError for a section that is not as TVM writes it."""

    def __init__(self, text: str) -> None:
        try:
            graph = json.loads(text)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        if not isinstance(graph, dict):
            raise ValueError("not an object")  # noqa: TRY004  malformed input, like every other error here
        self._nodes = _list(graph.get("nodes"))
        self._arrays = _list(graph.get("b64ndarrays", []))
        root = self._node(graph.get("root"))
        groups = _list(root.get("data", []))
        self._groups = {
            str(key): _list(self._node(group).get("data", []))
            for key, group in zip(_list(root.get("keys", [])), groups, strict=False)
        }

    def entry(self, key: str, index: int) -> object:
        """The constant, dimension or attributes of ``meta[key][index]``."""
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
        node = self._node(number)
        key = node.get("type_key")
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
                value = int(str(fields.get("value")))
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
        if key in _CLASSES:
            storage = _CLASSES[str(key)].storage
            return {
                name: self._field(fields[name], kind, depth)
                for name, kind in storage.items()
                if name in fields
            }
        raise ValueError(f"metadata of the kind {key!r} is not known")

    def _field(self, text: object, storage: str, depth: int) -> object:
        if storage == _REF:
            return self._value(_number(text), depth + 1)
        if storage == _STR:
            return str(text)
        return (
            float(str(text))
            if storage == _FLOAT
            else bool(_number(text))
            if storage == _BOOL
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
