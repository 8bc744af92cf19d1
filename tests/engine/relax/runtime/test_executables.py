"""What a compiled function promises: memory of its own, threads, forks, constants, stages, errors."""

import gc
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

from nnmagic.engine import EngineError
from nnmagic.engine.relax import build
from nnmagic.engine.relax.legalize import RULES
from nnmagic.engine.relax.runtime.compiled_program import MAX_CALL_DEPTH
from nnmagic.relay.expr import Call, Function, GlobalVar, If, OpRef, Var, constant
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.passes.expand_operators import EXPANSIONS
from nnmagic.relay.types import AnyDim, TensorType
from tests.engine.programs import compile_text, module
from tests.systems import POSIX

pytestmark = pytest.mark.sampled(every=3)

MATMUL_ADD = (
    "def @main(%a: Tensor[(2, 3), float32], %b: Tensor[(3, 4), float32], %c: Tensor[(2, 4), float32]) "
    "{ add(nn.matmul(%a, %b, units=None), %c) }"
)
RECURSION = """
def @double(%n: int32, %x: Tensor[(2), float32]) -> Tensor[(2), float32] {
  if (equal(%n, 0)) { %x } else { @double(subtract(%n, 1), add(%x, %x)) }
}
def @main(%n: int32, %x: Tensor[(2), float32]) { @double(%n, %x) }
"""


def call(name, *args, **attrs):
    return Call(OpRef(name), args, attrs)


def infer_main(params, body):
    return infer_type(Module({"main": Function(tuple(params), body)}))


def in_child(source, timeout=300):
    """Runs Python source in a new process from the project's root."""
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert run.returncode == 0, f"exit status {run.returncode}\n{run.stdout}\n{run.stderr}"
    return run


def test_results_are_writable_and_never_anyone_elses_memory():
    x = np.arange(6, dtype="f4")
    weight = np.full(6, 2, "f4")
    var = Var("x", TensorType((6,)))
    body = call("add", var, constant(weight))
    for result in (var, constant(weight), call("reshape", var, newshape=(2, 3), allowzero=False), body):
        executable = build(infer_main([var], result), "main")
        actual = executable([x])
        assert type(actual) is np.ndarray
        assert actual.flags.writeable
        actual[...] = -1
        np.testing.assert_array_equal(x, np.arange(6))
        np.testing.assert_array_equal(executable([x]) == -1, np.zeros(actual.shape, bool))


def test_two_results_of_one_value_do_not_share_memory():
    results = "(%y, %y, reshape(%y, newshape=[2, 2]), (%y, %x))"
    text = f"def @main(%x: Tensor[(4), float32]) {{ let %y = exp(%x); {results} }}"
    x = np.zeros(4, "f4")
    first, second, third, (fourth, fifth) = compile_text(text)([x])
    first[...], second[...], fifth[...] = 5, 6, 7
    assert [part.ravel()[0] for part in (first, second, third, fourth, x)] == [5, 6, 1, 1, 0]


def test_results_outlive_their_executable():
    executable = compile_text("def @main(%x: Tensor[(1000), float32]) { add(%x, %x) }")
    results = [executable([np.full(1000, value, "f4")]) for value in range(20)]
    del executable
    gc.collect()
    assert [result[999] for result in results] == [2 * value for value in range(20)]


def test_memory_of_results_is_given_back():
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    if sys.platform != "linux":
        pytest.skip("no /proc to read the memory in use from")
    executable = compile_text("def @main(%x: Tensor[(?), float32]) { add(%x, %x) }")
    executable([np.ones(10, "f4")])
    before = resident()
    for size in range(1_000_000, 1_000_040):  # no two of a size, as a pool of buffers would keep
        executable([np.ones(size, "f4")])
    assert resident() - before < 40_000_000


@pytest.mark.full
def test_a_constant_is_held_once_and_not_copied_at_a_call():
    """By the most memory that a process of its own has ever had."""
    if sys.platform != "linux":
        pytest.skip("no /proc to read the memory in use from")
    in_child(
        """
        import re
        from pathlib import Path
        import numpy as np
        from nnmagic.engine.relax import build
        from nnmagic.relay.expr import Constant, Var, constant
        from nnmagic.relay.types import TensorType
        from tests.engine.relax.runtime.test_executables import call, infer_main

        def most():
            return int(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

        def built(weight):
            var = Var("x", TensorType((1, 8)))
            index = constant(np.array([5], "i4"))
            rows = call("take", Constant(weight), index, batch_dims=0, axis=0, mode="clip")
            attrs = {"begin": (0, 0), "end": (1, 8), "strides": (1,), "slice_mode": "end", "axes": None}
            return build(infer_main([var], call("add", var, call("strided_slice", rows, **attrs))), "main")

        x = np.ones((1, 8), "f4")
        built(np.ones((8, 8), "f4"))([x])
        weight = np.full((8192, 8192), 2, "f4")
        weight.flags.writeable = False
        before = most()
        executable = built(weight)
        for _ in range(3):
            np.testing.assert_array_equal(executable([x]), x + 2)
        grown = most() - before
        assert grown < weight.nbytes / 2, grown
        """
    )


def test_calls_from_many_threads_at_once():
    body = "let %p = nn.matmul(%a, %a, units=None); (nn.softmax(%p), sum(%p))"
    text = f"def @main(%a: Tensor[(32, 32), float32]) {{ {body} }}"
    executable = compile_text(text)
    wrong = []

    def work(seed):
        generator = np.random.default_rng(seed)
        for _ in range(150):
            a = generator.standard_normal((32, 32)).astype("f4") * 0.2
            soft, total = executable([a])
            p = (a.astype("f8") @ a).astype("f8")
            e = np.exp(p - p.max(1, keepdims=True))
            if not np.allclose(soft, e / e.sum(1, keepdims=True), atol=1e-5) or not np.allclose(
                total, p.sum(), atol=1e-3
            ):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_compiling_from_several_threads_at_once():
    actual = {}

    def work(number):
        actual[number] = compile_text(f"def @main(%x: Tensor[({number}), float32]) {{ exp(add(%x, %x)) }}")(
            [np.zeros(number, "f4")]
        )

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {number: result.tolist() for number, result in actual.items()} == {
        n: [1.0] * n for n in range(1, 7)
    }


@pytest.mark.full
@POSIX
def test_a_forked_child_calls_and_compiles():
    in_child(
        """
import os, threading, numpy as np
from tests.engine.programs import compile_text
body = "(nn.matmul(%x, %x, units=None), cumsum(%x, axis=1, exclusive=None))"
text = f"def @main(%x: Tensor[(64, 64), float32]) {{ {body} }}"
parent = compile_text(text)
x = np.ones((64, 64), "f4")
parent([x])
threading.Thread(target=lambda: [parent([x]) for _ in range(300)]).start()
child = os.fork()
if child == 0:
    for executable in (parent, compile_text(text)):
        product, total = executable([x])
        assert product[0, 0] == 64 and total[0, -1] == 64
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    )


@pytest.mark.full
def test_nothing_is_printed():
    run = in_child(
        "import numpy as np\nfrom tests.engine.programs import compile_text\n"
        "text = 'def @main(%x: Tensor[(3, 4), float32], %i: Tensor[(3, 2), int32]) "
        "{ (cumsum(%x, axis=1, exclusive=None), sort(%x), "
        "scatter_elements(%x, %i, gather(%x, %i, axis=1), axis=1)) }'\n"
        "compile_text(text)([np.ones((3, 4), 'f4'), np.zeros((3, 2), 'i4')])\n"
    )
    assert (run.stdout, run.stderr) == ("", "")


def test_symbolic_dimensions_agree_and_reach_attributes():
    rows = TensorType((AnyDim("n"), 3))
    x, y = Var("x", rows), Var("y", rows)
    ones = call("ones", shape=(AnyDim("n"), 3), dtype="float32")
    executable = build(infer_main([x, y], call("add", call("add", x, y), ones)), "main")
    assert "broadcast" not in executable.stage("relax")
    for size in (0, 1, 2, 100):
        a = np.random.default_rng(size).random((size, 3), "f4")
        np.testing.assert_array_equal(executable([a, a]), a + a + 1)
    with pytest.raises(ValueError, match="shape"):
        executable([np.ones((2, 3), "f4"), np.ones((4, 3), "f4")])


def test_functions_call_each_other_and_themselves():
    executable = compile_text(RECURSION)
    for n in (0, 1, 5, 2000):
        with np.errstate(over="ignore"):
            expected = np.full(2, 1, "f4") * np.float32(2.0) ** n if n < 128 else np.full(2, np.inf, "f4")
        np.testing.assert_array_equal(executable([np.array(n, "i4"), np.ones(2, "f4")]), expected)
    many = "\n".join(
        f"def @f{i}(%x: Tensor[(2), float32]) -> Tensor[(2), float32] {{ add(@f{i - 1}(%x), @f{i - 1}(%x)) }}"
        for i in range(1, 13)
    )
    first = "def @f0(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { %x }"
    text = f"{first}\n{many}\ndef @main(%x: Tensor[(2), float32]) {{ @f12(%x) }}"
    np.testing.assert_array_equal(compile_text(text)([np.ones(2, "f4")]), np.full(2, 4096, "f4"))


def test_endless_recursion_is_an_error_and_not_the_end_of_the_process():
    executable = compile_text(RECURSION)
    with pytest.raises(RecursionError, match=f"deeper than {MAX_CALL_DEPTH} calls"):
        executable([np.array(-1, "i4"), np.ones(2, "f4")])
    np.testing.assert_array_equal(executable([np.array(1, "i4"), np.ones(2, "f4")]), [2, 2])


def test_branches_compute_only_what_they_need():
    text = (
        "def @main(%p: bool, %q: bool, %x: Tensor[(2), float32]) { let %s = add(%x, %x); "
        "let %r = if (%p) { if (%q) { (%s, exp(%s)) } else { (%x, %s) } } else { (negative(%s), %x) }; "
        "add(%r.0, %r.1) }"
    )
    executable = compile_text(text)
    x = np.array([1, 2], "f4")
    s = x + x
    for p, q, expected in ((1, 1, s + np.exp(s)), (1, 0, x + s), (0, 1, x - s)):
        np.testing.assert_allclose(executable([np.array(p, bool), np.array(q, bool), x]), expected, rtol=1e-6)


def test_tuples_go_in_and_out_nested():
    text = (
        "def @main(%t: (Tensor[(2), float32], (Tensor[(3), float32], int32)), %x: Tensor[(2), float32]) "
        "{ let %u = %t.1; ((add(%t.0, %x), ()), %u.1, (%u.0,)) }"
    )
    one = np.ones(2, "f4")
    result = compile_text(text)([(one, (np.zeros(3, "f4"), np.array(7, "i4"))), one])
    assert result[0][0].tolist() == [2, 2]
    assert result[0][1] == ()
    assert (int(result[1]), result[2][0].tolist()) == (7, [0, 0, 0])


def test_stages_are_texts_that_stay_the_same():
    stages = ("relax", "tir", "llvm", "asm")
    one, other = compile_text(MATMUL_ADD), compile_text(MATMUL_ADD)
    texts = {name: one.stage(name) for name in stages}
    assert texts == {name: other.stage(name) for name in stages}
    assert texts == {name: one.stage(name) for name in stages}
    assert "def main(a: R.Tensor((2, 3)" in texts["relax"]
    assert "T.prim_func" in texts["tir"]
    assert "define" in texts["llvm"]
    assert "ret" in texts["asm"]
    with pytest.raises(KeyError, match="no stage 'source'"):
        one.stage("source")


@pytest.mark.parametrize("opt_level", [0, 1, 2, 3])
def test_every_optimisation_level_computes_the_same(opt_level):
    executable = compile_text(MATMUL_ADD, opt_level=opt_level)
    generator = np.random.default_rng(opt_level)
    a, b, c = (generator.random(shape, "f4") for shape in ((2, 3), (3, 4), (2, 4)))
    np.testing.assert_allclose(executable([a, b, c]), a @ b + c, rtol=1e-5)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nonsense", "the kind must be 'llvm'"),
        ("rocm", "the target 'rocm' is another GPU's"),
        ({"kind": "vulkan"}, "the target 'vulkan' is another GPU's"),
        ("{not json", "does not know the target"),
        ({"kind": "llvm", "bad": 1}, "it has no setting 'bad'; its settings are mcpu, mattr, "),
        ({"kind": "llvm", "opt-level": True}, "opt-level must be an int from 0 to 3, not True"),
        ({"kind": "llvm", "mattr": ["+avx", 2]}, r"mattr must be a list such as \['\+avx2'\]"),
        ({"kind": "llvm", "mcpu": "pentium-9000"}, "LLVM does not know the CPU"),
    ],
)
def test_a_bad_target_is_refused(target, message):
    with pytest.raises(EngineError, match=message):
        compile_text(MATMUL_ADD, target=target)


def test_other_targets_and_levels():
    arrays = [np.ones(shape, "f4") for shape in ((2, 3), (3, 4), (2, 4))]
    for target in ("llvm", {"kind": "llvm"}, '{"kind": "llvm"}'):
        assert compile_text(MATMUL_ADD, target=target)(arrays)[0, 0] == 4
    with pytest.raises(ValueError, match="opt_level must be 0, 1, 2 or 3, not 4"):
        compile_text(MATMUL_ADD, opt_level=4)


def test_wrong_arrays_raise_and_leave_the_function_usable():
    executable = compile_text(MATMUL_ADD)
    a, b, c = (np.ones(shape, "f4") for shape in ((2, 3), (3, 4), (2, 4)))
    with pytest.raises(TypeError, match="b must be an array of float32, not of float64"):
        executable([a, b.astype("f8"), c])
    with pytest.raises(TypeError, match="a must be an array of float32, not of object"):
        executable([a.astype(object), b, c])
    with pytest.raises(ValueError, match="shape"):
        executable([a, np.ones((4, 4), "f4"), c])
    with pytest.raises(ValueError, match="zip"):
        executable([a, b])
    assert executable([a, b, c])[1, 3] == 4


def test_every_operator_can_be_run():
    assert set(OPERATORS) - set(RULES) - set(EXPANSIONS) == {"python.callback"}  # the interpreter calls it


def test_an_operator_that_tvm_refuses_is_told_at_its_place():
    with pytest.raises(EngineError, match="exp: needs floating-point numbers, not int32") as caught:
        compile_text("def @main(%x: Tensor[(2), int32]) { exp(%x) }")
    assert caught.value.diagnostics[0].span.line == 2


@pytest.mark.full
def test_long_programs_compile():
    """A chain that is longer than Python's recursion limit, fused in pieces."""
    text = "\n".join(f"%{i} = {'add' if i % 2 else 'subtract'}(%{i - 1}, 1f);" for i in range(1, 1500))
    executable = compile_text(
        f"def @main(%x: Tensor[(3), float32]) {{ %0 = negative(%x);\n{text}\nadd(%1499, 1f) }}"
    )
    np.testing.assert_array_equal(executable([np.zeros(3, "f4")]), [2, 2, 2])


def test_shared_branches_do_not_grow():
    """Each branch uses the one before in both arms: written out, this program has 2**40 nodes."""
    p, x = Var("p", TensorType((), "bool")), Var("x", TensorType((2,)))
    node = x
    for _ in range(40):
        node = If(p, call("add", node, constant(1.0)), call("negative", node))
    result = build(infer_main([p, x], node), "main")([np.array(1, bool), np.zeros(2, "f4")])
    np.testing.assert_array_equal(result, [40, 40])


def test_a_function_of_another_module_may_be_the_entry():
    function = "def @f(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { exp(%x) }"
    text = f"{function}\ndef @main(%x: Tensor[(2), float32]) {{ @f(%x) }}"
    assert compile_text(text, "f")([np.zeros(2, "f4")]).tolist() == [1, 1]
    assert isinstance(module(text).functions["main"].body.op, GlobalVar)
