"""Damage the models of the standard's own tests and import them; test_mutations.py starts this process."""

from __future__ import annotations

import random
import sys
import warnings
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from nnmagic import relay
from nnmagic.importers.onnx import OnnxError
from tests.mutations import FLOATS, NUMBERS, run

#: A field of a message, with the position in it if it holds several values.
Place = tuple[Any, Any, "int | None"]


def models() -> list[onnx.ModelProto]:
    """The models of single operators, and again with their small inputs as constants."""
    found = []
    for case in load_model_tests(kind="node"):
        if case.model is None:
            continue
        found.append(case.model)
        fixed = onnx.ModelProto()
        fixed.CopyFrom(case.model)
        for info, array in zip(case.model.graph.input, case.data_sets[0][0], strict=False):
            if isinstance(array, np.ndarray) and array.size <= 64 and array.dtype.kind in "iuf":
                fixed.graph.initializer.append(numpy_helper.from_array(array, info.name))
        found.append(fixed)
    return found


def places(message: Any) -> list[Place]:
    """All fields that are set in a message and in its parts."""
    found: list[Place] = []
    for field, value in message.ListFields():
        several = not isinstance(value, int | float | str | bytes) and not hasattr(value, "ListFields")
        for index, part in enumerate(value) if several else [(None, value)]:
            found.append((message, field, index))
            if field.message_type:
                found += places(part)
    return found


def damage(model: onnx.ModelProto, draw: random.Random) -> None:
    """Change, remove or double one field."""
    known = places(model.graph)
    if not known:
        return
    message, field, index = draw.choice(known)
    values = getattr(message, field.name)
    value = values if index is None else values[index]
    if draw.random() < 0.15:
        if index is None:
            message.ClearField(field.name)
        else:
            del values[index]
        return
    match value:
        case bytes():
            new: Any = draw.choice((value[:-1], value * 2, b"", b"\xff" + value[1:]))
        case str():
            texts = [getattr(each, of.name) for each, of, at in known if at is None]
            new = draw.choice(["", "zz", *(text for text in texts if isinstance(text, str))])
        case float():
            new = draw.choice(FLOATS)
        case int():
            new = draw.choice((*NUMBERS, value + 1, value - 1))
        case _:
            if index is not None:
                values.add().CopyFrom(value)
            return
    try:
        if index is None:
            setattr(message, field.name, new)
        else:
            values[index] = new
    except ValueError:
        return  # the format has no such value


def main() -> None:
    """Import damaged models; the arguments are the seed and the count of cases."""
    warnings.simplefilter("ignore")
    known = models()

    def attempt(draw: random.Random) -> None:
        model = onnx.ModelProto()
        model.CopyFrom(draw.choice(known))
        for _ in range(draw.choice((1, 1, 2, 3))):
            damage(model, draw)
        data = model.SerializeToString()
        if draw.random() < 0.1:  # a damaged file
            position = draw.randrange(len(data))
            data = data[:position] + bytes([draw.randrange(256)]) + data[position + draw.randrange(3) :]
        relay.from_onnx(data)

    run(attempt, [OnnxError], seed=int(sys.argv[1]), count=int(sys.argv[2]))


if __name__ == "__main__":
    main()
