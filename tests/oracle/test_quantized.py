"""Random calls of quantized operators: real Relay types and prints them as we do and computes the same."""

import numpy as np
import pytest

from nnmagic.engine.relax import build
from nnmagic.relay.infer import infer_type
from nnmagic.relay.text.parser import parse_module
from tests.engine.programs import make_input
from tests.oracle.judge import disagreement
from tests.oracle.quantized import KINDS, generate

#: Beyond the seeds whose measurements are stored.
FIRST = 1000


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_random_calls(judge, count, kind):
    wrong, computed, each = {}, 0, 3
    start = FIRST - FIRST % len(KINDS) + kind
    for seed in range(start, start + each * len(KINDS), len(KINDS)):
        module, records = generate(seed)
        text, arguments = module.astext(), [make_input(record) for record in records]
        reply = judge.ask(text, arguments)
        difference = disagreement(text, reply)
        if difference is None and "outputs" in reply:  # real Relay cannot build every call that it types
            ours = build(infer_type(parse_module(text)), "main")(arguments)
            theirs = reply["outputs"][0]
            difference = None if np.array_equal(ours, theirs) else f"{ours}\n{theirs}"
            computed += 1
        if difference is not None:
            wrong[seed] = f"{difference}\n{text}"
    count("calls of quantized operators", each)
    count("calls of quantized operators that both ran", computed)
    assert not wrong, "\n".join(f"{seed}: {difference}" for seed, difference in wrong.items())
