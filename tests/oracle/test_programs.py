"""Whole programs: real Relay types and prints them as we do, and computes what the relax engine does."""

import itertools

import numpy as np
import pytest

from nnmagic.engine import EngineError
from nnmagic.engine.legacy_relay.text import for_relay
from nnmagic.engine.relax import build
from nnmagic.relay.infer import infer_type
from nnmagic.relay.text.parser import parse_module
from tests.engine.programs import make_input
from tests.oracle.judge import disagreement, flat
from tests.random_programs.families.relay import arguments_of, write_module
from tests.relay.corpus import load_programs
from tests.rendering.test_shape_values import MASKS, SCORES, SIZES, attention

#: Programs of the corpus whose numbers cannot be compared.
NO_NUMBERS = {
    "fixed_point_multiply": "real Relay gives uninitialised memory",
    "random_uniform": "random numbers are the engine's own",
    "random_threefry_split": "random numbers are the engine's own",
    "cast_bf16_roundtrip": "real Relay keeps float32 where the program rounds to bfloat16",
}
#: What real Relay prints and cannot read, or reads as something else (`flag=True` as `flag=1`).
NOT_READ = ("match_in_arg", "p_match_numbered", "p_name_unicode", "p_fn_attr_bool")
NOT_READ_IDS = {f"language_{name}" for name in NOT_READ}
PROGRAMS = [record for record in load_programs() if record["id"] not in NOT_READ_IDS]
#: So end programs whose typed text real Relay cannot read: `ref(T)`, `fn [A](A) -> A`, unknown types.
UNREADABLE = "only the relax engine runs it"
#: How real Relay fails to give a convolution a layout in blocks of channels, beside some other operators.
LAYOUT_ERRORS = ("Invalid layout", "Input shape mismatch at index 4")
PARTS = 6
#: How many random programs a test takes, and in how many tests.
EACH, TESTS = 50, 10


@pytest.mark.parametrize("part", range(PARTS))
def test_the_corpus(judge, count, part):
    wrong, computed = {}, 0
    programs = PROGRAMS[part::PARTS]
    for record in programs:
        difference = disagreement(record["text"], judge.ask(record["text"]))
        if difference is None and record["outputs"] is not None and record["id"] not in NO_NUMBERS:
            rtol = record.get("rtol", 2e-3 if "f16" in record["features"] else 1e-5)
            valid = 3 if record.get("compare") == "valid_prefix" else None
            arguments = [make_input(one) for one in record["inputs"]]
            difference, ran = numbers(judge, parse_module(record["text"]), arguments, rtol, valid)
            computed += ran
            unreadable = difference is not None and difference.startswith(UNREADABLE)
            if unreadable and "language" in record["features"]:
                difference = None
        if difference is not None:
            wrong[record["id"]] = difference
    count("programs of the corpus", len(programs))
    count("programs of the corpus that the relax engine and real Relay ran", computed)
    assert not wrong, report(wrong)
    assert computed >= 0.9 * len(programs)


def test_attention(judge):
    """A page shows it in twelve lines; its text is whole."""
    for spelling in itertools.product(SIZES, MASKS, SCORES):
        text = str(attention(*spelling).relay)
        assert disagreement(text, judge.ask(text)) is None, spelling


@pytest.mark.parametrize("start", range(0, EACH * TESTS, EACH))
def test_random_programs(judge, count, start):
    wrong, computed = {}, 0
    for seed in range(start, start + EACH):
        module = infer_type(write_module(seed))
        text = module.astext()
        difference = disagreement(text, judge.ask(text))
        if difference is None:
            difference, ran = numbers(judge, module, arguments_of(seed), 1e-4)
            computed += ran
        is_layout = difference is not None and difference.startswith(UNREADABLE)
        if is_layout and any(words in difference for words in LAYOUT_ERRORS):
            difference = None
        if difference is not None:
            wrong[seed] = difference
    count("random programs", EACH)
    count("random programs that the relax engine and real Relay ran", computed)
    assert not wrong, report(wrong)
    assert computed >= 0.9 * EACH


def numbers(judge, module, arguments, rtol, valid=None):
    """How the relax engine's results differ from real Relay's, or None; and whether both ran the program."""
    typed = infer_type(module)
    try:
        executable = build(typed, "main")
    except EngineError:
        return None, False  # what the engine lacks is for its own tests; here it is counted
    ours = flat(executable(arguments), typed)
    reply = judge.ask(for_relay(typed, "main").text, arguments)
    if "outputs" not in reply:
        reason = (reply.get("run_error") or reply["error"]).strip().rpartition("\n")[2]
        return f"only the relax engine runs it: {reason}", False
    theirs = reply["outputs"]
    kinds = [[(array.dtype, array.shape) for array in arrays] for arrays in (ours, theirs)]
    if kinds[0] != kinds[1]:
        return f"results of {kinds[0]}, real Relay's are of {kinds[1]}", True
    for left, right in zip(ours, theirs, strict=True):
        if not np.allclose(
            left[:valid] if valid else left, right[:valid] if valid else right, rtol, rtol / 10, True
        ):
            return f"{left}\nreal Relay's:\n{right}", True
    return None, True


def report(wrong):
    return f"{len(wrong)} differ\n" + "\n".join(f"{name}: {difference}" for name, difference in wrong.items())
