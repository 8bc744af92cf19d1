"""Hash Relay by content: arrays, data that holds arrays, and what machine code is made of.

A hash is SHA-256 in hexadecimal digits, the same in every process and on every machine.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import xxhash

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay import types as ty
from nnmagic.relay.callbacks import PythonFunction
from nnmagic.relay.module import Module
from nnmagic.relay.polynomials import NoPolynomialError, constant, evaluate, names, polynomial
from nnmagic.relay.structure.encoder import Encoder, Json

#: The size in bytes from which an array's hash is cached, and the number of hashes kept.
_LARGE, _MOST = 1 << 14, 4096

#: The hashes of large arrays, by their fast hashes.
_known: dict[Hashable, str] = {}

#: Different in each process, so that nobody can construct two arrays with one fast hash.
_SEED = secrets.randbits(64)


def array_digest(array: np.ndarray) -> str:
    """Hash of dtype, shape and elements, whatever their order in memory and their byte order.

    All of the array is read each time: by XXH3, some 30 GB/s, and by SHA-256 what was not seen before.
    """
    if array.nbytes < _LARGE:
        return _sha(array)
    digest = _known.get(_fast_hash(array))
    if digest is None:
        copy = array.copy(order="K")  # cannot change between the two hashes
        digest = _sha(copy)
        if len(_known) >= _MOST:
            _known.clear()
        _known[_fast_hash(copy)] = digest
    return digest


def _sha(array: np.ndarray) -> str:
    dtype = array.dtype.newbyteorder("=")
    state = hashlib.sha256(f"{dtype.str} {dtype.name} {array.shape}".encode())
    state.update(np.ascontiguousarray(array, dtype).reshape(-1).view(np.uint8).data)
    return state.hexdigest()


def _fast_hash(array: np.ndarray) -> Hashable:
    """Return a hash that is equal for equal arrays whose axes lie in memory in the same order."""
    order = tuple(sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis])))
    lying = np.ascontiguousarray(array.transpose(order))  # copies only if the array has gaps
    data = lying.reshape(-1).view(np.uint8).data
    return xxhash.xxh3_128_intdigest(data, _SEED), order, lying.shape, array.dtype


def content_digest(data: Json, arrays: Iterable[np.ndarray]) -> str:
    """Hash of data for JSON, and of the arrays that it refers to by index."""
    return hashlib.sha256(json.dumps([data, [*map(array_digest, arrays)]]).encode()).hexdigest()


def code_data(module: Module, roots: Sequence[str], *, labels: bool = True) -> tuple[Json, list[np.ndarray]]:
    """Return all that determines the machine code of some functions of a module, as JSON data and its arrays.

    It is equal for modules that differ only in names (of functions, variables, dimensions, data types and
    constructors), in the order of functions, in source locations and in what ``roots`` do not need. labels:
    whether it says which dimensions have one name.
    """
    functions, data_types = _NameNumbers(roots), _NameNumbers()
    arrays: list[np.ndarray] = []
    coded: dict[str, list[Json]] = {"functions": [], "data types": []}
    for name in functions.names:  # the loop appends to it
        coder = _Nameless(functions, data_types, arrays, labels=labels)
        index = coder.graph(module.functions[name])
        coded["functions"].append([coder.types, coder.nodes, index, coder.spelled])
    for name in data_types.names:
        data = module.types[name]
        coder = _Nameless(functions, data_types, arrays, labels=labels)
        parts = [
            [coder.type(input_type) for input_type in constructor.inputs] for constructor in data.constructors
        ]
        coded["data types"].append(
            [[coder.type(var) for var in data.type_vars], parts, coder.types, coder.spelled]
        )
    return coded, arrays


class _NameNumbers:
    """Numbers for names, in the order in which they are first mentioned."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}
        for name in names:
            self.of(name)

    def of(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = len(self.names)
            self.names.append(name)
        return self._numbers[name]


class _Nameless(Encoder):
    """An encoder of one function or data type without names; dimensions are numbered separately."""

    def __init__(
        self, functions: _NameNumbers, data_types: _NameNumbers, arrays: list[np.ndarray], *, labels: bool
    ) -> None:
        super().__init__()
        self.arrays = arrays
        self._functions = functions
        self._data_types = data_types
        self._labels = labels
        self._dims = _NameNumbers()
        #: The dimensions' names, if a label is no polynomial.
        self.spelled: list[str] | None = None

    def variable(self, _name: str) -> Json:
        return ""

    def function(self, name: str) -> Json:
        return self._functions.of(name)

    def data_type(self, name: str) -> Json:
        return self._data_types.of(name)

    def constructor(self, node: ir.Constructor) -> list[Json]:
        return [self.data_type(node.belong_to.name), node.tag]

    def dim(self, dim: ty.Dim) -> Json:
        if not (self._labels or isinstance(dim, int)):
            return "?"
        match dim:
            case ty.AnyDim(label=str() as label):
                return {"any": self._label(label)}
            case ty.VarDim(name=name):
                return {"var": self._label(name)}
        return super().dim(dim)

    def span(self, _span: Span | None) -> Json:
        return None

    def python_function(self, _function: PythonFunction) -> Json:
        return ""  # machine code is around its calls

    def _label(self, label: str) -> str:
        try:
            parsed = polynomial(label)
        except NoPolynomialError:
            self.spelled = self._dims.names
            return f"text {label}"
        numbered = {name: polynomial(f"d{self._dims.of(name)}") for name in names(parsed)}
        return str(evaluate(parsed, numbered, constant))
