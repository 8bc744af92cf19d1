"""Share between the ways to resize: kernels, rounding to the nearest element, dtypes."""

from __future__ import annotations

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import Node
from nnmagic.importers.onnx.values import Value, op


def cubic(distance: Value, a: float) -> Value:
    """Return Keys' cubic kernel (IEEE Trans. ASSP 29, 1981)."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return (distance <= 1).choose(near, (distance < 2).choose(far, distance * 0))


def rounded(node: Node, x: Value, scale: Value) -> Value:
    """Return the old place that is nearest to each new one.

    Before opset 11 the standard does not say which that is: onnxruntime's is the one before, and where an
    axis shrinks the one behind.
    """
    if node.since < 11:
        x = x.cast("float32")  # as is 12 / 2.4, where 5 comes out
        return (scale < 1).choose(op("ceil", x), op("floor", x)).cast("float64")
    match node.text("nearest_mode", "round_prefer_floor"):
        case "round_prefer_floor":
            return op("ceil", x - 0.5)
        case "round_prefer_ceil":
            return op("floor", x + 0.5)
        case "floor":
            return op("floor", x)
        case "ceil":
            return op("ceil", x)
        case other:
            raise UnsupportedError(f"the nearest_mode {other!r} is not known")


def as_dtype(result: Value, dtype: str) -> Value:
    """Return a result in the dtype of the data, rounded to integers."""
    if result.dtype == dtype:
        return result
    if dtype.startswith(("float", "bfloat")):
        return result.cast(dtype)
    from nnmagic.importers.onnx.operators.quantization import quantize

    return quantize(result, None, dtype)


def item(vector: Value, index: int) -> Value:
    """Return an element of a vector as a scalar."""
    return shapes.scalar(shapes.slice_axis(vector, 0, index, index + 1))
