"""The texts of the stages TIR and assembly have no noise."""

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
