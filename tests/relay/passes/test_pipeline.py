"""Passes in order: what is checked of their results, who watches them, and what random pipelines compute."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import nnmagic
from nnmagic import relay
from nnmagic.relay import call, constant
from nnmagic.relay.passes.library import LIBRARY

X = relay.Var("x", relay.TensorType((3,), "float32"))


def module_of(body: relay.Expr) -> relay.Module:
    return relay.infer_type(relay.Module({"main": relay.Function((X,), body)}))


TWICE = module_of(call("add", [call("exp", [X]), call("exp", [X])]))


def with_body(body: Callable[[relay.Function], relay.Expr]) -> Callable[[relay.Module], relay.Module]:
    def change(module: relay.Module) -> relay.Module:
        main = module.functions["main"]
        return relay.Module({"main": relay.Function(main.params, body(main))})

    return change


def wrong(_: relay.Module) -> relay.Module:
    raise LookupError("nothing here")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda _: None, "returned None, not a relay.Module"),
        (wrong, "the pass wrong raised LookupError: nothing here"),
        (lambda _: relay.Module(), "removed @main"),
        (with_body(lambda main: call("sum", [main.params[0]])), "changed the type of @main"),
        (
            with_body(lambda main: call("nn.dense", [main.params[0], main.params[0]])),
            "gave an ill-typed module",
        ),
        (with_body(lambda _: relay.Var("x")), "%x is used where nothing binds it"),
        (with_body(lambda _: None), "not valid Relay"),  # type: ignore[arg-type,return-value]  # what is refused
    ],
)
def test_a_pass_that_goes_wrong_is_named(given: Callable[[relay.Module], relay.Module], message: str) -> None:
    with pytest.raises(nnmagic.RelayError) as caught:
        relay.run_passes(TWICE, [given])
    assert message in str(caught.value)
    assert f"the pass {given.__name__}" in str(caught.value)


def test_the_error_of_a_pass_points_at_its_own_line() -> None:
    with pytest.raises(nnmagic.RelayError) as caught:
        relay.run_passes(TWICE, [wrong])
    span = caught.value.diagnostics[0].span
    assert span is not None
    assert span.filename == __file__
    assert 'raise LookupError("nothing here")' in str(caught.value)


@pytest.mark.parametrize(
    ("passes", "kind", "message"),
    [
        (["fold_constant"], ValueError, "did you mean fold_constants"),
        ("fold_constants", TypeError, "must be a list"),
        ([3], TypeError, "a pass is a function"),
        (None, TypeError, "must be a list"),
    ],
)
def test_what_is_no_pass_is_refused(passes: object, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        nnmagic.compile(TWICE, passes=passes)  # type: ignore[arg-type]  # what is refused


def test_instruments_see_every_pass_and_contexts_nest() -> None:
    recorder, timing, printed = relay.PassRecorder(), relay.PassTiming(), io.StringIO()
    with relay.PassContext(recorder):
        with relay.PassContext(timing, relay.PrintChanges(printed)):
            relay.run_passes(TWICE, ["eliminate_common_subexpr", "fold_constants"])
        relay.run_passes(TWICE, ["inline"])
    relay.run_passes(TWICE, ["inline"])
    assert [run.name for run in recorder.runs] == ["eliminate_common_subexpr", "fold_constants", "inline"]
    assert [run.changed for run in recorder.runs] == [True, False, False]
    assert list(timing.seconds) == ["eliminate_common_subexpr", "fold_constants"]
    shown = printed.getvalue()
    assert "-  %1 = exp(%x);" in shown
    assert "fold_constants" not in shown
    with pytest.raises(TypeError, match="instruments"):
        relay.PassContext(print)  # type: ignore[arg-type]  # what is refused


def test_an_instrument_can_stop_a_compilation() -> None:
    class NoChange(relay.PassInstrument):
        def after(self, run: relay.PassRun) -> None:
            if run.changed:
                raise AssertionError(run.name)

    with relay.PassContext(NoChange()), pytest.raises(AssertionError, match="eliminate_common_subexpr"):
        nnmagic.compile(TWICE, cache=False)


def random_program(chance: random.Random) -> tuple[relay.Module, Callable[[np.ndarray], np.ndarray]]:
    """Return a program of lets, tuples, branches and shared values, and what it computes by NumPy."""
    made: list[tuple[relay.Expr, Callable[[np.ndarray], np.ndarray]]] = [(X, lambda x: x)]
    binary = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum}
    unary = {"negative": np.negative, "abs": np.abs, "nn.relu": lambda x: np.maximum(x, 0)}
    lets: list[tuple[relay.Var, relay.Expr]] = []
    for _ in range(chance.randrange(4, 14)):
        (left, of_left), (right, of_right) = chance.choice(made), chance.choice(made)
        kind = chance.randrange(6)
        if kind == 0:
            number = np.float32(chance.randrange(-3, 4))
            made.append((constant(np.full(3, number)), lambda _, n=number: np.full(3, n, "float32")))
        elif kind == 1:
            name, of = chance.choice(sorted(unary.items()))
            made.append((call(name, [left]), lambda x, f=of, a=of_left: f(a(x))))
        elif kind == 2:
            pair = relay.TupleGetItem(relay.Tuple((left, right)), index := chance.randrange(2))
            made.append((pair, (of_left, of_right)[index]))
        elif kind == 3:
            held = chance.random() < 0.5
            choice = relay.If(constant(held, "bool"), left, right)
            made.append((choice, of_left if held else of_right))
        elif kind == 4:
            var = relay.Var(f"v{len(lets)}", X.type_annotation)
            lets.append((var, left))
            made.append((var, of_left))
        else:
            name, of = chance.choice(sorted(binary.items()))
            made.append((call(name, [left, right]), lambda x, f=of, a=of_left, b=of_right: f(a(x), b(x))))
    body, expected = made[-1]
    for var, value in reversed(lets):
        body = relay.Let(var, value, body)
    return relay.infer_type(relay.Module({"main": relay.Function((X,), body)})), expected


@pytest.mark.parametrize("seed", range(12))
def test_random_pipelines_leave_what_programs_compute(seed: int) -> None:
    chance = random.Random(seed)
    data = np.random.default_rng(seed).integers(-4, 5, 3).astype("float32")
    module, expected = random_program(chance)
    for _ in range(4):
        pipeline = chance.choices(sorted(LIBRARY), k=chance.randrange(1, 6))
        with relay.PassContext(relay.VerifyTypes()):
            f = nnmagic.compile(module, passes=pipeline, opt_level=chance.choice([0, 3]))
        assert isinstance(f, nnmagic.CompiledFunction)
        np.testing.assert_array_equal(f(data), expected(data), err_msg=f"{pipeline}\n{module}")


def test_passes_of_a_function_with_another_span_keep_the_rest() -> None:
    main = TWICE.functions["main"]
    same = relay.run_passes(TWICE, [lambda module: replace(module, functions={"main": replace(main)})])
    assert relay.structural_equal(same, TWICE)
