"""Asks real Relay, which runs in a child process of another environment; one that dies is started again."""

import difflib
import json
import os
import select
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from nnmagic.diagnostics import RelayError
from nnmagic.relay.infer import infer_type
from nnmagic.relay.text.parser import parse_module
from nnmagic.relay.values import AdtValue
from tests.relay.corpus import without_spans

WORKER = Path(__file__).with_name("worker.py")

#: How long real Relay may take to start, and for one program, in seconds.
START, PROGRAM = 120, 60


class Judge:
    """One child of the interpreter ``python``, kept from one question to the next."""

    def __init__(self, python):
        self.python = python
        self.folder = tempfile.TemporaryDirectory()
        self.child = None
        self.asked = 0

    def start(self):
        self.child = subprocess.Popen(
            [self.python, str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": ""},
        )
        first = self.read(START)
        if first is None or "version" not in first:
            self.stop()
            raise RuntimeError(f"{self.python} has no tvm.relay: run `make oracle`, which makes one that has")

    def stop(self):
        child, self.child = self.child, None
        if child is not None:
            child.kill()
            child.communicate()

    def close(self):
        self.stop()
        self.folder.cleanup()

    def ask(self, text, arguments=None):
        """The answer to a module's text: ``typed``, ``error``, ``outputs`` (arrays) or ``run_error``.

        ``crash`` says that the child died of it or did not answer in time.
        """
        if self.child is None:
            self.start()
        request = {"text": text}
        if arguments is not None:
            request |= self.store(arguments)
        self.child.stdin.write(json.dumps(request).encode() + b"\n")
        self.child.stdin.flush()
        reply = self.read(PROGRAM)
        if reply is None:
            self.stop()
            return {"error": "crash", "crash": True}
        if "outputs" in reply:
            with np.load(reply["outputs"]) as stored:
                reply["outputs"] = [stored[str(index)] for index in range(len(stored))]
        return reply

    def read(self, seconds):
        """The child's next answer; None where it died or took too long."""
        ready, _, _ = select.select([self.child.stdout], [], [], seconds)
        line = self.child.stdout.readline() if ready else b""
        return json.loads(line) if line.endswith(b"\n") else None

    def store(self, arguments):
        """The arguments in a file, and how the child puts them together."""
        arrays = []

        def reference(value):
            if isinstance(value, tuple):
                return [reference(part) for part in value]
            arrays.append(np.asarray(value))
            return len(arrays) - 1

        layout = [reference(value) for value in arguments]
        self.asked += 1
        path = Path(self.folder.name) / f"{self.asked}.npz"
        np.savez(path, **{str(index): bits(array) for index, array in enumerate(arrays)})
        return {
            "inputs": str(path),
            "dtypes": [array.dtype.name for array in arrays],
            "arguments": layout,
        }


def bits(array):
    """NumPy's files hold no bfloat16."""
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def flat(value, module):
    """The arrays of a result as the worker lays them flat."""
    if isinstance(value, AdtValue):
        constructors = [each for data in module.types.values() for each in data.constructors]
        tag = next(each.tag for each in constructors if each.name == value.constructor)
        return [np.int64(tag), *(array for field in value.fields for array in flat(field, module))]
    if isinstance(value, tuple):
        return [array for part in value for array in flat(part, module)]
    return [bits(value)]


def body_of(text):
    """A module's text without spans, and without the metadata or the comment that stands for it."""
    return without_spans(text).split("\n#[metadata]")[0].split("\n/* For debugging")[0]


def disagreement(text, reply):
    """How what we make of a text differs from real Relay's answer to it; None where they agree."""
    try:
        ours = body_of(infer_type(parse_module(text)).astext(show_meta_data=False))
    except RelayError as error:
        ours, refusal = None, error.diagnostics[0].message
    if ours is None and "error" in reply:
        return None
    if ours is None:
        return f"only we refuse it: {refusal}"
    if "error" in reply:
        return f"only real Relay refuses it: {reply['error'].strip().splitlines()[-1]}"
    theirs = body_of(reply["typed"])
    if ours == theirs:
        return None
    lines = difflib.unified_diff(
        ours.splitlines(), theirs.splitlines(), "ours", "real Relay's", n=0, lineterm=""
    )
    return "\n".join(list(lines)[2:12])
