"""Compare what ``torch.compile(f, backend="nnmagic")`` gives and changes with what eager torch does."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tests.random_programs.judges import Fault, Verdict
from tests.random_programs.program import Program

#: What eager torch raises for a program that has no meaning; the writer writes none, but a smaller one may.
_MEANINGLESS = (RuntimeError, IndexError, TypeError, ValueError, AttributeError, NameError)


def judge_memory(program: Program, verdict: Verdict, *, engine: str) -> None:
    """Compare results and arguments after each call: numbers, strides, and which share memory.

    A difference that the backend aot_eager has, too, is torch's own.
    """
    names: dict[str, Any] = {"torch": torch}
    exec(program.source, names)
    sizes = [size for (size,) in program.calls]
    try:
        expected = [_outcome(names["f"], names, size) for size in sizes]
    except _MEANINGLESS:
        verdict.count("meaningless")
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = _difference(names, sizes, expected, "nnmagic", {"options": {"engine": engine}})
        of_torch = None if found is None else _difference(names, sizes, expected, "aot_eager", {})
        if found is not None and of_torch is not None and _kind(of_torch) == _kind(found):
            verdict.count("torch differs from itself", found[0])
        elif found is not None:
            verdict.faults.append(Fault(*found, program))
        else:
            verdict.count("equal")


def _difference(
    names: dict[str, Any], sizes: Sequence[object], expected: Sequence[Any], backend: str, options: Any
) -> tuple[str, str] | None:
    """Return how a backend's outcomes differ from those of eager torch, and by how much."""
    torch._dynamo.reset()
    compiled = torch.compile(names["f"], backend=backend, dynamic=names["dynamic"], **options)
    for size, wanted in zip(sizes, expected, strict=True):
        try:
            outcome = _outcome(compiled, names, size)
        except Exception as error:  # noqa: BLE001 - any of them is a fault
            text = str(error)
            where = text.find("Error: ")
            return f"{type(error).__name__}: {text[max(where, 0) :][:110]}".split("\n")[0], text[:1500]
        for number, (one, other) in enumerate(zip(outcome, wanted, strict=True)):
            if kind := _differ(one, other):
                return kind, f"n = {size}, tensor {number}: {one}\ninstead of\n{other}"
    return None


def _kind(difference: tuple[str, str]) -> str:
    """Return what differs; that torch's backend raises something, too, is enough of an error."""
    return difference[0] if difference[0].startswith("torch: ") else "raises"


def _outcome(function: Callable[..., Any], names: dict[str, Any], size: object) -> list[dict[str, Any]]:
    """Return what a call gives, and its arguments after it, each as what can be said of it."""
    arguments = names["arguments"](size)
    results = function(*arguments)
    if not isinstance(results, tuple):
        raise TypeError("a smaller program returns something else")
    tensors = [*results, *arguments]
    described = [_describe(tensor, tensors) for tensor in tensors]
    if names["grad"] and any(result.requires_grad for result in results):
        total = sum((result.double() * (k + 1)).sum() for k, result in enumerate(results))
        if total.requires_grad:
            total.backward()
        described += [{"values": item.grad} for item in arguments if item.is_leaf]
    return described


def _describe(tensor: torch.Tensor, others: Sequence[torch.Tensor]) -> dict[str, Any]:
    storages = [other.untyped_storage()._cdata for other in others]
    owner = next(
        other for other in others if other.untyped_storage()._cdata == tensor.untyped_storage()._cdata
    )
    strides = [step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]
    return {
        "shape": tuple(tensor.shape),
        "dtype": tensor.dtype,
        "values": tensor.detach().clone(),
        "strides": strides if tensor.numel() else [],
        "offset": tensor.storage_offset() - owner.storage_offset(),
        "shared memory": [storage == tensor.untyped_storage()._cdata for storage in storages],
        "requires_grad": tensor.requires_grad,
    }


def _differ(one: dict[str, Any], other: dict[str, Any]) -> str | None:
    for what, value in other.items():
        if isinstance(value, torch.Tensor):
            same = one[what] is not None and torch.equal(one[what], value)
        else:
            same = one[what] == value
        if not same:
            return f"torch: {what}"
    return None
