"""Damage saved functions, and load them as data; test_file_mutations.py starts this process."""

from __future__ import annotations

import io
import json
import random
import sys
import warnings
import zipfile

import numpy as np

import nnmagic
from nnmagic.cache import Content, from_members, to_members
from nnmagic.functions.saving import from_bytes, to_bytes
from tests.mutations import damage_json, run

CELLS = {
    "a captured array": "def f(x: Tensor[('n', 3), f32], k: f32 = 2.0):\n    return exp(x) * table + k\n",
    "a loop": (
        "def f(x: Tensor[('n',), f64]):\n    s = 0.0\n    for i in range(len(x)):\n"
        "        if x[i] > 0:\n            s += x[i]\n    return s, x[x > 0]\n"
    ),
    "an array that is changed": (
        "def f(a: InOut[Tensor[('n',), f32]], *, x: f32):\n    a[0] = x\n    return a.sum(), a[::-1]\n"
    ),
    "a class": (
        "class Shape:\n    def Circle(r: f32): ...\n    def Box(w: f32, h: f32): ...\n\n"
        "def f(s: Shape, k: f32):\n    match s:\n        case Shape.Circle(r):\n            return r * k\n"
        "        case Shape.Box(w, h):\n            return w * h\n"
    ),
    "a recursion": "def f(n: i64) -> i64:\n    return 1 if n < 2 else n * f(n - 1)\n",
    "products": "def f(x: Tensor[('n', 'm'), f32]):\n    assert x.sum() > 0, 'no'\n    return x.T @ x\n",
}
TABLE = np.arange(3, dtype="float32")


def contents() -> list[tuple[str, dict[str, bytes]]]:
    """The headers and the other files of some saved functions, which the engine `numpy` runs."""
    found = []
    for source in CELLS.values():
        function = nnmagic.compile(source, namespace={"np": np, "table": TABLE}, cache=False, engine="numpy")
        with zipfile.ZipFile(io.BytesIO(to_bytes(function))) as archive:
            content = from_members(archive.read)
        header = {name: part for name, part in content.header.items() if name != "files"}
        found.append((json.dumps(header), {name: bytes(data) for name, data in content.files.items()}))
    return found


def damaged_file(known: list[tuple[str, dict[str, bytes]]], draw: random.Random) -> bytes:
    """Return a file whose checksums agree with its damaged parts; seldom one with a damaged byte."""
    text, files = draw.choice(known)
    header, files = json.loads(text), dict(files)
    head = header["definition"]
    parts = [head, head["module"], head["parameters"]]
    for _ in range(draw.choice((1, 1, 2, 3))):
        damage_json(draw.choice(parts), draw)
    if draw.random() < 0.1:
        name = draw.choice(list(files))
        position = draw.randrange(len(files[name]) + 1)
        files[name] = files[name][:position] + bytes([draw.randrange(256)]) + files[name][position + 1 :]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in to_members(Content(header, files)).items():
            archive.writestr(name, data)
    data = packed.getvalue()
    if draw.random() < 0.1:
        position = draw.randrange(len(data))
        data = data[:position] + bytes([draw.randrange(256)]) + data[position + 1 :]
    return data


def main() -> None:
    """Load damaged files, and build them; the arguments are the seed and the count of cases."""
    warnings.simplefilter("ignore")
    known = contents()

    def attempt(draw: random.Random) -> None:
        function = from_bytes(damaged_file(known, draw), code=False)
        function.build()
        str(function), function.relay_text, to_bytes(function)

    run(attempt, [ValueError, nnmagic.CompileError], seed=int(sys.argv[1]), count=int(sys.argv[2]))


if __name__ == "__main__":
    main()
