"""What ``print`` of a cell shows in a notebook."""

from __future__ import annotations

from tests.kernels import Kernel


def test_a_cell_shows_what_is_printed(kernel: Kernel) -> None:
    kernel.run("%load_ext nnmagic\nimport numpy as np")
    kernel.run(
        "%%tinynn -q\ndef f(x: Tensor[(2,), f64], k: i64):\n    for i in range(k):\n"
        "        print('round', i, x * i)\n    return x\n"
    )
    outputs = kernel.run("print('before')\n_ = f(np.ones(2), 2)\nprint('after')")
    shown = "".join(output.text for output in outputs if output.output_type == "stream")
    assert shown == "before\nround 0 [0. 0.]\nround 1 [1. 1.]\nafter\n"
