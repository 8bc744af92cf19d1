"""Translate torch's element types, sizes and tensors to Relay's and NumPy's."""

from __future__ import annotations

from functools import cache, reduce
from typing import TYPE_CHECKING, cast

import numpy as np

from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.relay import polynomials
from nnmagic.relay.ops.dims import as_dim
from nnmagic.relay.polynomials import NoPolynomialError, Polynomial
from nnmagic.relay.types import ANY, ARRAY_DTYPES, NUMPY_DTYPES, Dim

if TYPE_CHECKING:
    import torch


_HINT = "convert the tensors to float32 before"
#: The denominators of scales by which sizes are multiplied without an error.
_LARGEST_DIVISOR = 64


@cache
def dtype_of(dtype: torch.dtype) -> str:
    """Return Relay's name of an element type. Raises UnsupportedError where Relay has none."""
    name = str(dtype).removeprefix("torch.")
    if name not in ARRAY_DTYPES:
        hint = "convert the tensors to complex64 before" if dtype.is_complex else _HINT
        raise UnsupportedError(f"the element type {name} is not supported", hint)
    return name


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """Return a tensor of the CPU as an array, in its own memory where NumPy can say it."""
    import torch

    if tensor.layout != torch.strided:
        raise TypeError(f"a tensor must be dense, not {tensor.layout}")
    if tensor.device.type != "cpu":
        raise TypeError(f"a tensor must be on the CPU, not on {tensor.device}")
    plain = (tensor.detach() if tensor.requires_grad else tensor).resolve_conj().resolve_neg()
    if plain.dtype == torch.bfloat16:
        return cast(np.ndarray, plain.view(torch.int16).numpy().view(NUMPY_DTYPES["bfloat16"]))
    return cast(np.ndarray, plain.numpy())


def tensor_of(array: np.ndarray) -> torch.Tensor:
    """Return an array as a contiguous tensor, in its own memory where that is so and may be written to."""
    import torch

    array = np.asarray(array, order="C")
    if not array.flags.writeable:
        array = array.copy()
    if array.dtype == NUMPY_DTYPES["bfloat16"]:
        tensor = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    else:
        tensor = torch.from_numpy(array)
    return tensor if array.size else tensor.new_empty(array.shape)  # with strides as torch has them


def expression_of(size: object) -> object:
    """Return what a size of a traced tensor is: an int, or a sympy expression."""
    node = getattr(size, "node", None)
    return size if node is None else node.expr


def dim_of(size: object, labels: dict[str, str]) -> Dim:
    """Return a size as a dimension; ``?`` where it is no polynomial of sizes."""
    expression = expression_of(size)
    if isinstance(expression, int):
        return int(expression)
    try:
        return as_dim(_polynomial(expression, labels))
    except NoPolynomialError:
        return ANY


def _polynomial(expression: object, labels: dict[str, str]) -> Polynomial:
    import sympy
    from torch.utils._sympy import functions

    match expression:
        case int() | sympy.Integer():
            return polynomials.constant(int(expression))
        case sympy.Symbol():
            return polynomials.polynomial(labels.setdefault(expression.name, expression.name))
    if isinstance(expression, functions.TruncToInt | functions.FloorToInt):
        return _scale(expression.args[0], labels)
    terms = [_polynomial(term, labels) for term in expression.args] if hasattr(expression, "args") else []
    match expression:
        case sympy.Add():
            total = polynomials.constant(0)
            for term in terms:
                total = total + term
            return total
        case sympy.Mul():
            total = polynomials.constant(1)
            for term in terms:
                total = total * term
            return total
        case sympy.Pow() if terms[1].number is not None and 0 < terms[1].number <= 8:
            total = polynomials.constant(1)
            for _ in range(terms[1].number):
                total = total * terms[0]
            return total
        case sympy.Max() | functions.Max():
            return reduce(polynomials.maximum, terms)
        case sympy.Min() | functions.Min():
            return reduce(polynomials.minimum, terms)
        case functions.FloorDiv() | functions.CleanDiv():
            return terms[0] // terms[1]
        case functions.Mod() | functions.PythonMod():
            return terms[0] - terms[1] * (terms[0] // terms[1])
    raise NoPolynomialError(str(expression))


def _scale(expression: object, labels: dict[str, str]) -> Polynomial:
    """Return a size times a float, rounded down, as a scaled image has it."""
    import sympy
    from torch.utils._sympy import functions

    factor, size = sympy.Mul(expression).as_coeff_Mul()
    if not isinstance(size, functions.ToFloat) or factor <= 0:
        raise NoPolynomialError(str(expression))
    above, below = float(factor).as_integer_ratio()
    if below > _LARGEST_DIVISOR:  # a product of floats is rounded
        raise NoPolynomialError(str(expression))
    return _polynomial(size.args[0], labels) * polynomials.constant(above) // polynomials.constant(below)
