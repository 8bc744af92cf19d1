"""Targets for which LLVM would end the process: CPUs of 32 bits, and none of the features that code needs."""

from __future__ import annotations

import platform

import pytest

from tests.child_process import run_python

COMPILE = """
import json, sys
import nnmagic

for target in map(json.loads, sys.argv[1:]):
    try:
        nnmagic.compile("def f(x: Tensor[(3,), f32]):\\n    return x + 1\\n", target=target, cache=False)
    except nnmagic.EngineError as error:
        print(error.diagnostics[0].message)
    else:
        print("compiled for", target)
"""


@pytest.mark.full
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="CPUs and features of x86")
def test_no_cpu_and_no_feature_makes_llvm_end_the_process() -> None:
    named = [f'{{"kind": "llvm", "mcpu": "{cpu}"}}' for cpu in ("i386", "athlon", "yonah")]
    without = [f'{{"kind": "llvm", "mattr": ["-{feature}"]}}' for feature in ("64bit", "64bit-mode", "sse2")]
    lines = run_python("-c", COMPILE, *named, *without, '{"kind": "llvm", "mcpu": "nocona"}').stdout
    refused = lines.splitlines()[:-1]
    assert len(refused) == len(named) + len(without)
    assert [line for line in refused if not line.startswith("LLVM compiles no code of")] == []
    assert lines.splitlines()[-1].startswith("compiled for")
