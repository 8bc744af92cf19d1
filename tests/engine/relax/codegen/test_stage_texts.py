"""The texts of the stages have no noise."""

from __future__ import annotations

import re

import nnmagic


def test_tir_and_assembly_have_what_computes() -> None:
    f = nnmagic.compile('def f(x: Tensor[("n", 4), f32]):\n    return (x @ x.T).sum(axis=1)')
    assert "T.int64(" not in f.stages["tir"]
    assert "T.Buffer((n, 4)," in f.stages["tir"]
    lines = f.stages["asm"].splitlines()
    assert any(line.startswith("nnmagic_kernel_nn_matmul:") for line in lines)
    assert not [line for line in lines if re.match(r"\s*(\.[a-z_]\w*\b(?!:)|\.Ltmp|#)", line)]
    assert sum(line.strip().startswith("ret") for line in lines) >= 3


def test_llvm_code_has_nothing_for_debuggers() -> None:
    text = nnmagic.compile("def f(x: Tensor[(64,), f32]):\n    return (x * x).sum()").stages["llvm"]
    assert text.startswith("target ")
    assert "define " in text
    assert not re.search(r"dbg|DILocation|DISub", text)
    assert set(re.findall(r"!\d+", text)) == set(re.findall(r"(?m)^!\d+(?= = )", text)), "none is missing"
