"""The mistakes of newcomers in a notebook: the message and the hint are shown."""

from __future__ import annotations

from tests.kernels import Kernel, error
from tests.tinynn.errors.test_newcomers import MISTAKES


def test_a_kernel_shows_the_message_and_the_hint(kernel: Kernel) -> None:
    kernel.run("%load_ext nnmagic\nimport numpy as np\nweights = {'layer1': np.ones(6, 'float32')}")
    for source, message, hint in MISTAKES:
        shown = error(kernel.run(f"%%tinynn\n{source}", allow_errors=True))
        assert shown.ename == "TinyNNError"
        assert shown.evalue.startswith(f"error: {message}\n")
        assert hint is None or f"help: {hint}" in shown.evalue
