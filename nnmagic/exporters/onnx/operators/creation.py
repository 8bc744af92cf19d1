"""Export operators that make tensors of a shape.

The standard: https://onnx.ai/onnx/operators/onnx__Expand.html
"""

from __future__ import annotations

from nnmagic.exporters.onnx.registry import Rule, operator, operators
from nnmagic.exporters.onnx.sites import ExportCall, static


def _of_shape(value: int) -> Rule:
    """Return the rule of a tensor of one number, of the shape that the type of the result says."""
    return lambda site: site.node(
        "Expand", site.constant(value, site.result_dtype), site.vector(list(static(site.type.shape)))
    )


def _like(value: int) -> Rule:
    return lambda site: site.node("Expand", site.constant(value), site.node("Shape", site.args[0]))


@operator("broadcast_to_like")
def _broadcast_to_like(site: ExportCall) -> str:
    expanded = site.node("Expand", site.args[0], site.node("Shape", site.args[1]))
    return expanded if site.result_dtype == site.dtype else site.cast(expanded, site.result_dtype)


@operator("arange")
def _arange(site: ExportCall) -> str:
    return site.to_result(
        site.node("Range", *(site.operand(index, site.dtype) for index in range(3))), site.dtype
    )


@operator("one_hot", "dyn.one_hot")
def _one_hot(site: ExportCall) -> str:
    """Compare with the range of classes: ONNX's OneHot takes negative indices, Relay's gives zeros."""
    axis = site.integer("axis") % (site.rank + 1)
    if len(site.args) == 3:
        classes = site.constant(list(range(site.integer("depth"))), "int64")
    else:
        zero, one = site.constant(0, "int64"), site.constant(1, "int64")
        classes = site.node("Range", zero, site.reshape(site.operand(3, "int64"), []), one)
    classes = site.unsqueeze(classes, range(1, site.rank - axis + 1))
    hit = site.node("Equal", site.unsqueeze(site.operand(0, "int64"), [axis]), classes)
    return site.node("Where", hit, site.operand(1, site.result_dtype), site.operand(2, site.result_dtype))


@operator("trilu")
def _trilu(site: ExportCall) -> str:
    return site.node("Trilu", site.args[0], site.operand(1, "int64"), upper=int(bool(site.attrs["upper"])))


@operator("nn.pad")
def _pad(site: ExportCall) -> str:
    mode = str(site.attrs["pad_mode"])
    return _padded(site, site.args[0], mode, [site.operand(1, site.dtype)] if mode == "constant" else [])


def _padded(site: ExportCall, name: str, mode: str, value: list[str]) -> str:
    pairs = site.attrs["pad_width"]
    assert isinstance(pairs, tuple | list)
    widths = [int(pair[0]) for pair in pairs] + [int(pair[1]) for pair in pairs]
    return site.node("Pad", name, site.vector(widths), *value, mode=mode)


@operator("nn.mirror_pad")
def _mirror_pad(site: ExportCall) -> str:
    if site.attrs["mode"] == "REFLECT":
        return _padded(site, site.args[0], "reflect", [])
    name, pairs = site.args[0], site.attrs["pad_width"]
    assert isinstance(pairs, tuple | list)
    for axis, (size, (before, after)) in enumerate(zip(site.static_shape(), pairs, strict=True)):
        if before or after:
            order = [*range(int(before))[::-1], *range(size), *range(size - int(after), size)[::-1]]
            name = site.node("Gather", name, site.constant(order, "int64"), axis=axis)
    return name


@operator("dyn.nn.pad")
def _dyn_pad(site: ExportCall) -> str:
    mode = str(site.attrs["pad_mode"])
    widths = site.reshape(site.transpose(site.operand(1, "int64"), (1, 0)), [-1])
    return site.node(
        "Pad", site.args[0], widths, *([site.operand(2, site.dtype)] if mode == "constant" else []), mode=mode
    )


@operator("nn.dilate")
def _dilate(site: ExportCall) -> str:
    """Put each element before its gap, and cut off the last gap."""
    name, value = site.args[0], site.constant(site.number("dilation_value"))
    for axis, stride in enumerate(site.integers("strides")):
        if stride == 1:
            continue
        rank = site.rank
        widths = [0] * (2 * (rank + 1))
        widths[rank + 1 + axis + 1] = stride - 1
        spread = site.node("Pad", site.unsqueeze(name, [axis + 1]), site.vector(widths), value)
        shape = site.node("Shape", name)
        times = site.constant([stride if index == axis else 1 for index in range(rank)], "int64")
        spread = site.node("Reshape", spread, site.node("Mul", shape, times))
        name = site.node("Slice", spread, site.vector([0]), site.vector([1 - stride]), site.vector([axis]))
    return name


operators(
    {
        "broadcast_to": lambda site: site.node(
            "Expand", site.args[0], site.vector(list(static(site.type.shape)))
        ),
        "dyn.broadcast_to": lambda site: site.node("Expand", site.args[0], site.operand(1, "int64")),
        "dyn.full": lambda site: site.node(
            "Expand", site.operand(0, site.result_dtype), site.operand(1, "int64")
        ),
        "dyn.zeros": lambda site: site.node(
            "Expand", site.constant(0, site.result_dtype), site.operand(0, "int64")
        ),
        "full": lambda site: site.node(
            "Expand", site.operand(0, site.result_dtype), site.vector(list(static(site.type.shape)))
        ),
        "full_like": lambda site: site.node(
            "Expand", site.operand(1, site.dtype), site.node("Shape", site.args[0])
        ),
        "ones": _of_shape(1),
        "ones_like": _like(1),
        "zeros": _of_shape(0),
        "zeros_like": _like(0),
    }
)
