"""Functions as values, data types, match and references on the relax engine, against NumPy and by hand.

`engine/relax/codegen/program_plan` plans the machine code of the kernels that the interpreter calls.
"""

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

import nnmagic
from nnmagic.engine import EngineError
from nnmagic.engine.relax.runtime.compiled_program import MAX_CALL_DEPTH
from nnmagic.relay import AdtValue
from tests.engine.programs import VERSION, compile_text

pytestmark = pytest.mark.sampled(every=3)

LIST = """type L[A] {
  Cons(A, L[A]),
  Nil,
}
"""
TOTAL = """def @total(%l: L[float32]) -> float32 {
  match (%l) {
    Cons(%h, %t) => { add(%h, @total(%t)) },
    Nil => { 0f },
  }
}
"""
NIL = AdtValue("Nil")


def make_list(items):
    result = NIL
    for item in reversed(items):
        result = AdtValue("Cons", (item, result))
    return result


def items(value):
    result = []
    while value.constructor == "Cons":
        result.append(value.fields[0])
        value = value.fields[1]
    assert value == NIL
    return result


def floats(*values):
    return [np.float32(value) for value in values]


def test_a_list_is_summed():
    total = compile_text(LIST + TOTAL, entry="total")
    assert total([make_list(floats(1, 2, 3.5))]) == 6.5
    assert total([NIL]) == 0


def test_a_generic_map_with_a_closure_gives_a_list():
    text = """
def @map[A, B](%f: fn (A) -> B, %l: L[A]) -> L[B] {
  match (%l) {
    Cons(%h, %t) => { Cons(%f(%h), @map(%f, %t)) },
    Nil => { Nil },
  }
}
def @main(%l: L[Tensor[(2), float32]], %k: Tensor[(2), float32]) -> L[Tensor[(2), float32]] {
  let %scale = fn (%v: Tensor[(2), float32]) { multiply(%v, %k) };
  @map(%scale, %l)
}
"""
    rows = np.arange(6, dtype="f4").reshape(3, 2)
    k = np.array([2, -1], "f4")
    result = items(compile_text(LIST + text)([make_list(list(rows)), k]))
    np.testing.assert_array_equal(np.stack(result), rows * k)


def test_fold_and_reverse_take_constructors_and_globals_as_functions():
    text = """
def @fold[A, B](%f: fn (B, A) -> B, %start: B, %l: L[A]) -> B {
  match (%l) {
    Cons(%h, %t) => { @fold(%f, %f(%start, %h), %t) },
    Nil => { %start },
  }
}
def @less_twice(%a: float32, %b: float32) -> float32 { subtract(%a, multiply(%b, 2f)) }
def @main(%l: L[float32]) -> (float32, L[float32]) {
  let %push = fn (%done: L[float32], %each: float32) -> L[float32] { Cons(%each, %done) };
  (@fold(@less_twice, 0f, %l), @fold(%push, Nil, %l))
}
"""
    total, backwards = compile_text(LIST + text)([make_list(floats(1, 2, 4))])
    assert total == -14
    assert items(backwards) == [4, 2, 1]


def test_functions_return_functions_that_remember():
    text = """
def @main(%x: float32, %y: float32) {
  let %adder = fn (%a: float32) { fn (%b: float32) { subtract(%a, %b) } };
  let %one = %adder(%x);
  let %two = %adder(%y);
  (%one(%y), %two(%x), %one(%x))
}
"""
    assert compile_text(text)(floats(5, 3)) == (2, -2, 0)


def test_a_local_loop_carries_tensors():
    text = """
def @main(%n: int32, %x: Tensor[(2, 2), float32]) {
  let %loop = fn (%i: int32, %z: Tensor[(2, 2), float32]) -> Tensor[(2, 2), float32] {
    if (greater(%i, 0)) { %loop(subtract(%i, 1), add(multiply(%z, %x), %x)) } else { %z }
  };
  %loop(%n, %x)
}
"""
    x = np.array([[0.5, 1], [-1, 2]], "f4")
    expected = x
    for _ in range(5):
        expected = expected * x + x
    np.testing.assert_allclose(compile_text(text)([np.int32(5), x]), expected, rtol=1e-6)


def test_references_are_shared_and_written_in_order():
    text = """
def @main(%x: float32) {
  let %r = ref(%x);
  let %same = %r;
  let %before = ref_read(%same);
  let %_ = ref_write(%r, add(%before, 1f));
  let %middle = ref_read(%same);
  let %twice = fn () { let %_1 = ref_write(%same, multiply(ref_read(%r), 2f)); ref_read(%r) };
  let %a = %twice();
  let %b = %twice();
  (%before, %middle, %a, %b, ref_read(%r))
}
"""
    assert compile_text(text)(floats(3)) == (3, 4, 8, 16, 16)


def test_trees_and_nested_patterns():
    text = """
type T[A] { Leaf(A), Node(T[A], (A, T[A])), }
def @main(%t: T[float32]) -> float32 {
  match (%t) {
    Node(Leaf(%a), (%b, Leaf(%c))) => { add(multiply(%a, 100f), add(multiply(%b, 10f), %c)) },
    Node(%l, (%b, %r)) => { add(@main(%l), add(%b, @main(%r))) },
    Leaf(%v) => { %v },
  }
}
"""
    one, two, three, four, five = (np.float32(value) for value in (1, 2, 3, 4, 5))
    small = AdtValue("Node", (AdtValue("Leaf", (one,)), (two, AdtValue("Leaf", (three,)))))
    assert compile_text(text)([AdtValue("Node", (small, (four, AdtValue("Leaf", (five,)))))]) == 123 + 4 + 5


def test_a_match_that_takes_nothing_names_the_constructor():
    text = LIST + "def @main(%l: L[float32]) { match? (%l) { Cons(%h, _) => { %h } } }"
    head = compile_text(text)
    assert head([make_list(floats(7))]) == 7
    with pytest.raises(RuntimeError, match=r"no arm of the match.* takes Nil"):
        head([NIL])
    assert head([make_list(floats(8))]) == 8


def test_results_do_not_share_memory_with_arguments():
    pair = compile_text(LIST + "def @main(%x: Tensor[(2), float32]) { let %l = Cons(%x, Nil); (%x, %l) }")
    x = np.zeros(2, "f4")
    first, second = pair([x])
    assert not any(np.shares_memory(x, other) for other in (first, second.fields[0]))
    assert not np.shares_memory(first, second.fields[0])


def test_dimensions_known_when_it_runs():
    text = """
def @main(%l: L[Tensor[(?, 2), float32]]) -> Tensor[(?, 2), float32] {
  match? (%l) { Cons(%a, Cons(%b, _)) => { concatenate((%a, %b), axis=0) } }
}
"""
    a, b = np.ones((1, 2), "f4"), np.zeros((3, 2), "f4")
    np.testing.assert_array_equal(compile_text(LIST + text)([make_list([a, b])]), np.concatenate([a, b]))


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (3.0, TypeError, r"must be L\[float32\], made by L.Cons\(...\) or L.Nil\(\), not a float"),
        (AdtValue("Leaf"), TypeError, "'Leaf' is none of its constructors"),
        (AdtValue("Cons", (np.float32(1),)), TypeError, "Cons has 2 fields, .*, not 1"),
        (make_list([np.array(1.0)]), TypeError, r"argument 'l'.Cons\[0\] must be f32"),
        (
            make_list([np.float32(1)] * 9 + [np.array(1.0)]),
            TypeError,
            r"'l'.Cons\[1\].*steps.*.Cons\[0\] must be",
        ),
        (make_list([np.ones(2, "f4")]), TypeError, r"Cons\[0\] must be f32, of rank 0"),
    ],
)
def test_a_wrong_argument_is_told_with_its_place(value, error, message):
    main = TOTAL.replace("@total", "@main")
    function = nnmagic.compile(nnmagic.relay.parse(VERSION + LIST + main))
    with pytest.raises(error, match=message):
        function(value)


def test_functions_and_references_stay_inside():
    with pytest.raises(EngineError, match="holds a function, which cannot go between Python and Relay"):
        compile_text("def @main(%f: fn (float32) -> float32, %x: float32) { %f(%x) }")
    with pytest.raises(EngineError, match="holds a reference"):
        compile_text("def @main(%x: float32) { ref(%x) }")


def test_threads_share_a_function():
    total = compile_text(LIST + TOTAL, entry="total")
    with ThreadPoolExecutor(4) as pool:
        result = list(pool.map(lambda n: total([make_list([np.float32(1)] * n)]), range(0, 200, 5)))
    assert result == list(range(0, 200, 5))


def test_a_kernel_beside_a_loop_that_contains_it_too():
    text = """
def @rounds(%x: Tensor[(3), float32], %k: int64) -> Tensor[(3), float32] {
  if (greater(%k, 0i64)) { @rounds(multiply(exp(%x), 0.5f), subtract(%k, 1i64)) } else { %x }
}
def @main(%x: Tensor[(3), float32], %k: int64) {
  let %r = ref(multiply(exp(%x), 0.5f));
  let %_ = ref_write(%r, @rounds(ref_read(%r), %k));
  ref_read(%r)
}
"""
    expected = x = np.array([-1, 0, 1], "f4")
    for _ in range(3):
        expected = np.exp(expected) * 0.5
    np.testing.assert_allclose(compile_text(text)([x, np.int64(2)]), expected, rtol=1e-5)


def test_stages_show_the_kernels():
    total = compile_text(LIST + TOTAL, entry="total")
    assert all(total.stage(name) for name in ("relax", "tir", "llvm", "asm"))
    through = compile_text("def @main(%x: float32) { let %r = ref(exp(%x)); ref_read(%r) }")
    assert "main_kernel0" in through.stage("relax")


@pytest.mark.full
@pytest.mark.parametrize("arm", ["Cons(f32({}), rest)", "Cons(f32({}), extend(n - 1, Nil()))"])
@pytest.mark.parametrize("chained", [True, False])
def test_branches_chain_and_nest(arm, chained):
    """Branches of one function, with and without calls in them, far deeper than Python's blocks nest."""
    many = 70
    if chained:
        branches = [
            f"    {'el' if i else ''}if n == {i}:\n        made = {arm.format(i)}" for i in range(many)
        ]
        lines = [*branches, f"    else:\n        made = {arm.format(many)}"]
    else:
        lines = [f"{'    ' * (i + 1)}if n > {i}:" for i in range(many)]
        lines.append("    " * (many + 1) + f"made = {arm.format(many)}")
        for i in reversed(range(many)):
            lines += ["    " * (i + 1) + "else:", "    " * (i + 2) + f"made = {arm.format(i)}"]
    source = "\n".join(
        [
            "class List:\n    def Nil(): ...\n    def Cons(head: f32, tail: List): ...\n",
            "def extend(n: i64, rest: List) -> List:\n    if n < 0:\n        return rest",
            *lines,
            "    return Cons(f32(n) / 2, made)\n",
            "def f(n: i64):\n    return extend(n, Cons(f32(-1), Nil()))\n",
        ]
    )

    def extend(n, rest):
        if n < 0:
            return rest
        return [n / 2, min(n, many), *(rest if "rest" in arm else extend(n - 1, []))]

    f = nnmagic.compile(source)
    for n in (-1, 0, 1, 2, 19, 20, 21, 41, many - 1, many, many + 30):
        assert items(f(n)) == extend(n, [-1])


HALVES = """def @main(%l: L[Tensor[(?, 64), {dtype}]]) -> L[Tensor[(?, 64), {dtype}]] {{
  match (%l) {{
    Cons(%h, %t) => {{ Cons(exp(multiply(%h, cast(0.5f, dtype="{dtype}"))), @main(%t)) }},
    Nil => {{ Nil }},
  }}
}}
"""


@pytest.mark.parametrize("opt_level", range(4))
def test_arrays_of_any_layout_in_a_list(opt_level):
    f = compile_text(LIST + HALVES.format(dtype="float32"), opt_level=opt_level)
    plain = np.linspace(-1, 1, 8 * 64, dtype=np.float32).reshape(8, 64)
    unaligned = np.frombuffer(b"x" + plain.tobytes(), np.float32, offset=1).reshape(8, 64)
    given = [plain, plain[::-2], np.asfortranarray(plain), plain.astype(">f4"), unaligned, plain[:0]]
    made = items(f([make_list(given)]))
    for array, result in zip(given, made, strict=True):
        np.testing.assert_allclose(result, np.exp(array.astype(np.float32) / 2), rtol=1e-6)


def test_bfloat16_in_a_list():
    f = compile_text(LIST + HALVES.format(dtype="bfloat16"))
    given = np.linspace(-1, 1, 64).astype(ml_dtypes.bfloat16).reshape(1, 64)
    (made,) = items(f([make_list([given])]))
    assert made.dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(made.astype(float), np.exp(given.astype(float) / 2), rtol=2**-7)


@pytest.mark.full
def test_parallel_kernels_between_matches_from_several_threads():
    f = compile_text(LIST + HALVES.format(dtype="float32"))
    large = np.random.default_rng(0).uniform(-1, 1, (20_000, 64)).astype(np.float32)
    wanted = np.exp(large / 2)

    def call(_):
        return all(np.allclose(made, wanted) for made in items(f([make_list([large] * 3)])))

    assert call(None)
    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(call, range(9)))


def test_kernels_that_recurse_deep():
    f = compile_text(
        LIST
        + """
def @steps(%n: int32, %x: int32) -> int32 {
  if (greater(%n, 0)) { add(@steps(subtract(%n, 1), %x), %x) } else { 0 }
}
def @main(%l: L[int32]) -> int32 {
  match (%l) {
    Cons(%h, Nil) => { @steps(subtract(%h, 1), 2) },
    Cons(%h, %t) => { add(@steps(%h, 2), @main(%t)) },
    Nil => { 0 },
  }
}""",
    )
    assert f([make_list([np.int32(3), np.int32(20_000), np.int32(2)])]) == 40_008
    with pytest.raises(RecursionError, match=f"deeper than {MAX_CALL_DEPTH} calls"):
        f([make_list([np.int32(1 << 20), np.int32(0)])])
    assert f([make_list([np.int32(3)])]) == 4


def test_shapes_that_depend_on_values_in_a_list():
    f = compile_text(
        LIST
        + """
def @main(%l: L[Tensor[(4), bool]]) -> (Tensor[(?, 1), int32], Tensor[(4), bool]) {
  match (%l) {
    Cons(%h, Nil) => { (argwhere(%h), logical_not(%h)) },
    Cons(%h, %t) => { @main(%t) },
    Nil => { (zeros(shape=[0, 1], dtype="int32"), zeros(shape=[4], dtype="bool")) },
  }
}""",
    )
    mask = np.array([True, False, True, True])
    where, inverse = f([make_list([~mask, mask])])
    np.testing.assert_array_equal(where, np.argwhere(mask))
    np.testing.assert_array_equal(inverse, ~mask)


def test_closures_refer_to_themselves_and_survive():
    f = compile_text(
        """
def @counter(%step: int32) -> fn (int32) -> int32 {
  let %count = fn (%n: int32) -> int32 {
    if (greater(%n, 0)) { add(%count(subtract(%n, 1)), %step) } else { 0 }
  };
  %count
}
def @main(%n: int32, %step: int32) {
  let %once = @counter(%step);
  let %twice = @counter(add(%step, %step));
  (%once(%n), %twice(%n), %once(subtract(%n, 1)))
}""",
    )
    assert f([np.int32(5), np.int32(3)]) == (15, 30, 12)


@pytest.mark.full
def test_deep_recursion_gives_a_result():
    script = """
        import numpy as np
        from tests.engine.relax.interpreter.test_control_flow import LIST, TOTAL, compile_text, make_list
        total = compile_text(LIST + TOTAL, entry="total")
        assert total([make_list([np.float32(1)] * 20000)]) == 20000
        loop = compile_text('''def @main(%n: int32) {
          let %loop = fn (%i: int32, %z: int32) -> int32 {
            if (greater(%i, 0)) { %loop(subtract(%i, 1), add(%z, 2)) } else { %z }
          };
          %loop(%n, 0)
        }''')
        assert loop([np.int32(100000)]) == 200000
        endless = compile_text('''def @main(%x: int32) {
          let %f = fn (%i: int32) -> int32 { add(%f(add(%i, 1)), 1) };
          %f(%x)
        }''')
        try:
            endless([np.int32(0)])
        except RecursionError as error:
            assert "deeper than" in str(error)
            print("done")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_a_result_is_a_projection_of_a_tuple_that_a_let_binds() -> None:
    text = """#[version = "0.0.5"]
type L { Nil, Cons(float64, L[]), }
def @main(%l: L[]) -> float64 {
  let %x = match (%l) {
    Nil => { 0f64 },
    Cons(%h: float64, %t: L[]) => { let %p = (%h, %t); let %q = %p.0; %q }
  };
  let %a = (%x, sin(%x));
  let %b = %a.0;
  %b
}
"""
    assert nnmagic.compile(nnmagic.relay.parse(text))(AdtValue("Cons", (2.0, NIL))) == 2
