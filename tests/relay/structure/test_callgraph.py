"""What loops say about themselves: their rounds, what these keep, and who else uses their functions."""

from __future__ import annotations

from nnmagic.relay.structure.callgraph import find_invariants, is_passed_on, mentions, rounds_of
from nnmagic.relay.text.parser import parse_module

MODULE = parse_module(
    """#[version = "0.0.5"]
def @loop(%i: int64, %n: int64, %x: Tensor[(3), float32], %s: Tensor[(3), float32]) -> Tensor[(3), float32] {
  if (less(%i, %n)) {
    if (equal(%i, 2i64)) {
      @loop(add(%i, 2i64), %n, %x, add(%s, %x))
    } else {
      @loop(add(%i, 1i64), %n, %s, add(%s, %x))
    }
  } else {
    %s
  }
}
def @apply(%f: fn (int64) -> int64, %i: int64) -> int64 { %f(%i) }
def @next(%i: int64) -> int64 { add(%i, 1i64) }
def @main(%i: int64) -> int64 { @apply(@next, %i) }
"""
)


def test_a_loop_keeps_what_every_round_hands_on() -> None:
    function = MODULE.functions["loop"]
    assert len(rounds_of("loop", function)) == 2
    assert find_invariants("loop", function) == [1]
    assert not rounds_of("next", MODULE.functions["next"])


def test_a_function_that_is_a_value_is_passed_on() -> None:
    main = MODULE.functions["main"]
    assert mentions("next", main)
    assert mentions("apply", main)
    assert is_passed_on("next", main.body)
    assert not is_passed_on("apply", main.body)
