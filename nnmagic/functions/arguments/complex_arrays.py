"""Call machine code, which has pairs of floats, with complex arrays: views of them, not copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnmagic.engine.executable import Executable, KernelCode, Remark, kernels_of, remarks_of
from nnmagic.relay import types as ty
from nnmagic.relay.complex_numbers.pairs import complex_of, pairs_of
from nnmagic.relay.values import AdtValue

if TYPE_CHECKING:
    from nnmagic.engine.relax.artifact import Artifact
    from nnmagic.relay.failures import Failure
    from nnmagic.relay.module import Module, TypeData


class ComplexExecutable:
    """The machine code of a function with complex parameters or results, called with complex arrays."""

    def __init__(self, run: Executable, module: Module, name: str) -> None:
        """Take the machine code, and the module that has the complex types."""
        function = module.functions[name]
        self._run = run
        self._data_types = module.types
        self._parameters = [param.checked_type or param.type_annotation for param in function.params]
        self._result = function.ret_type
        #: The result for the arguments of a call as they are; None where they need a look.
        self.fast_path = self._make_fast_path()

    def _make_fast_path(self) -> Callable[[tuple[Any, ...]], Any] | None:
        """Return the path of the machine code between views, where all arguments are tensors."""
        inner = getattr(self._run, "fast_path", None)
        result_type, data_types = self._result, self._data_types
        dtypes: list[np.dtype[Any] | None] = []
        for type_ in self._parameters:
            if not isinstance(type_, ty.TensorType):
                return None
            dtypes.append(ty.COMPLEX_DTYPES[type_.dtype] if ty.is_complex(type_.dtype) else None)
        if inner is None:
            return None

        def fast_path(args: tuple[Any, ...]) -> Any:
            pairs = []
            for value, dtype in zip(args, dtypes, strict=True):
                if dtype is None:
                    pairs.append(value)
                elif type(value) is np.ndarray and value.dtype is dtype and value.flags.c_contiguous:
                    pairs.append(pairs_of(value))
                else:
                    return None
            result = inner(tuple(pairs))
            return None if result is None else _convert(result, result_type, data_types, to_pairs=False)

        return fast_path  # which does not hold this object: a cycle would keep the machine code

    @property
    def artifact(self) -> Artifact | None:
        """The artifact to cache, if there is one."""
        return self._run.artifact

    @property
    def assertions(self) -> Sequence[Failure]:
        """What the function's assertions raise, by number."""
        return getattr(self._run, "assertions", ())

    def stage(self, name: str) -> str:
        """Return the text of a stage of the engine."""
        return self._run.stage(name)

    def kernels(self) -> Sequence[KernelCode]:
        """Return the functions of the machine code. Raises EngineError if the engine does not know them."""
        return kernels_of(self._run)

    def remarks(self) -> Sequence[Remark]:
        """Return how its loops and kernels run, and what costs."""
        return remarks_of(self._run)

    def without_views(self, arrays: Sequence[Any]) -> tuple[Executable, list[Any]]:
        """Return the machine code itself, and what it takes for these arguments."""
        return self._run, self._as_pairs(arrays)

    def __call__(self, arrays: Sequence[Any]) -> Any:
        """Return the results for these arguments."""
        return self._as_complex(self._run(self._as_pairs(arrays)), self._result)

    def call_into(
        self, arrays: Sequence[Any], destinations: Sequence[tuple[int, bool]], changed: list[int]
    ) -> Any:
        """Return the results; the last are arguments where the machine code has written into these."""
        pairs = self._as_pairs(arrays)
        call_into = getattr(self._run, "call_into", None)
        results = self._run(pairs) if call_into is None else call_into(pairs, destinations, changed)
        parts = results if isinstance(results, tuple) else (results,)
        written = {id(pairs[number]): arrays[number] for number, _ in destinations}
        if isinstance(self._result, ty.TupleType) and isinstance(results, tuple):
            types: Sequence[ty.Type | None] = self._result.fields
        else:
            types = [self._result]
        results_ = tuple(
            written[id(value_part)] if id(value_part) in written else self._as_complex(value_part, type_)
            for value_part, type_ in zip(parts, types, strict=True)
        )
        return results_ if isinstance(results, tuple) else results_[0]

    def _as_pairs(self, arrays: Sequence[Any]) -> list[Any]:
        return [
            _convert(value, type_, self._data_types, to_pairs=True)
            for value, type_ in zip(arrays, self._parameters, strict=True)
        ]

    def _as_complex(self, value: Any, type_: ty.Type | None) -> Any:
        return _convert(value, type_, self._data_types, to_pairs=False)


def _convert(value: Any, type_: ty.Type | None, data_types: Mapping[str, TypeData], *, to_pairs: bool) -> Any:
    """Return a value with its complex arrays as pairs, or the reverse."""
    match type_:
        case ty.TensorType(dtype=dtype) if ty.is_complex(dtype):
            return pairs_of(np.asarray(value)) if to_pairs else complex_of(value)
        case ty.TupleType(fields=fields):
            parts = zip(value, fields, strict=True)
            return tuple(
                _convert(value_part, field, data_types, to_pairs=to_pairs) for value_part, field in parts
            )
        case ty.TypeCall() if isinstance(value, AdtValue):
            from nnmagic.relay.infer.unify import substitute

            data = data_types[type_.func.name]
            variables = dict(zip(data.type_vars, type_.args, strict=True))
            (constructor,) = (
                candidate for candidate in data.constructors if candidate.name == value.constructor
            )
            given = zip(value.fields, constructor.inputs, strict=True)
            converted = (
                _convert(field, substitute(value_part, variables), data_types, to_pairs=to_pairs)
                for field, value_part in given
            )
            return AdtValue(value.constructor, tuple(converted))
    return value
