"""Dimensions that only the call knows, through closures, tuples, data types, references and recursion."""

import numpy as np
import pytest
from tvm.target import codegen

import nnmagic
from nnmagic.engine import EngineError
from nnmagic.engine.relax.runtime.aot_executable import AotExecutable
from nnmagic.relay import AdtValue
from tests.engine.programs import compile_text

pytestmark = pytest.mark.sampled(every=3)

TRIPLE = codegen.llvm_get_system_triple()

LIST = "type L[A] { Cons(A, L[A]), Nil, }\n"
ROWS = "Tensor[(?, 3), float32]"

#: name -> (program, arguments, result)
X, Y = np.arange(6, dtype="f4").reshape(2, 3), np.ones((1, 3), "f4")
PROGRAMS = {
    "a recursion that makes the tensor longer": (
        f"""def @grow(%n: int32, %x: {ROWS}) -> {ROWS} {{
  if (greater(%n, 0)) {{ @grow(subtract(%n, 1), concatenate((%x, %x), axis=0)) }} else {{ %x }}
}}
def @main(%n: int32, %x: {ROWS}) -> {ROWS} {{ @grow(%n, %x) }}""",
        [np.int32(3), X],
        np.concatenate([X] * 8),
    ),
    "a local loop that makes it longer": (
        f"""def @main(%n: int32, %x: {ROWS}) -> {ROWS} {{
  let %loop = fn (%i: int32, %y: {ROWS}) -> {ROWS} {{
    if (greater(%i, 0)) {{ %loop(subtract(%i, 1), concatenate((%y, %x), axis=0)) }} else {{ %y }}
  }};
  %loop(%n, %x)
}}""",
        [np.int32(3), X],
        np.concatenate([X] * 4),
    ),
    "a recursion whose result has a known shape": (
        f"""def @main(%n: int32, %x: {ROWS}) -> Tensor[(2, 3), float32] {{
  if (greater(%n, 0)) {{ @main(subtract(%n, 1), concatenate((%x, %x), axis=0)) }}
  else {{ strided_slice(%x, begin=[0, 0], end=[2, 3], strides=[1], axes=None) }}
}}""",
        [np.int32(2), X],
        X,
    ),
    "a closure called with other lengths": (
        f"""def @main(%x: {ROWS}, %y: {ROWS}) {{
  let %f = fn (%z: {ROWS}) {{ add(%z, %x) }};
  (%f(%y), %f(%x))
}}""",
        [X, Y],
        (Y + X, X + X),
    ),
    "a tuple as parameter of a closure": (
        f"""def @main(%x: {ROWS}, %y: {ROWS}) {{
  let %f = fn (%p: ({ROWS}, {ROWS})) {{ concatenate(%p, axis=0) }};
  %f((%x, %f((%y, %x))))
}}""",
        [X, Y],
        np.concatenate([X, Y, X]),
    ),
    "fields of a data type": (
        f"""{LIST}def @joined(%l: L[{ROWS}], %all: {ROWS}) -> {ROWS} {{
  match (%l) {{
    Cons(%h, %t) => {{ @joined(%t, concatenate((%all, %h), axis=0)) }},
    Nil => {{ %all }},
  }}
}}
def @main(%x: {ROWS}, %y: {ROWS}) -> {ROWS} {{ @joined(Cons(%y, Cons(%x, Nil)), %x) }}""",
        [X, Y],
        np.concatenate([X, Y, X]),
    ),
    "a reference to what grows": (
        f"""def @main(%x: {ROWS}) -> {ROWS} {{
  let %r = ref(%x);
  let %_ = ref_write(%r, concatenate((ref_read(%r), %x), axis=0));
  ref_read(%r)
}}""",
        [X],
        np.concatenate([X, X]),
    ),
    "branches of other lengths": (
        f"""def @main(%c: bool, %x: {ROWS}) -> {ROWS} {{
  if (%c) {{ %x }} else {{ concatenate((%x, %x), axis=0) }}
}}""",
        [np.bool_(0), X],
        np.concatenate([X, X]),
    ),
    "a result whose length depends on values": (
        """def @main(%x: Tensor[(?), float32]) {
  let %f = fn (%y: Tensor[(?), float32]) { argwhere(%y) };
  %f(%x)
}""",
        [np.array([0, 1, 2], "f4")],
        np.array([[1], [2]], "i4"),
    ),
    "no rows at all": (
        f"""def @main(%n: int32, %x: {ROWS}) -> {ROWS} {{
  if (greater(%n, 0)) {{ @main(subtract(%n, 1), concatenate((%x, exp(%x)), axis=0)) }} else {{ %x }}
}}""",
        [np.int32(3), X[:0]],
        X[:0],
    ),
}

#: What does not fit when it runs: program, arguments, message.
REFUSED = {
    "a closure and what it captured": (
        f"""def @main(%x: {ROWS}, %y: {ROWS}) {{
  let %f = fn (%z: {ROWS}) {{ add(%z, %x) }};
  (%f(%y), %f(%x))
}}""",
        [X, np.ones((3, 3), "f4")],
        "add: the shapes do not broadcast together",
    ),
    "fields of a data type": (
        f"""{LIST}def @main(%l: L[{ROWS}]) -> {ROWS} {{
  match? (%l) {{ Cons(%a, Cons(%b, _)) => {{ add(%a, %b) }} }}
}}""",
        [AdtValue("Cons", (X, AdtValue("Cons", (np.ones((3, 3), "f4"), AdtValue("Nil")))))],
        "add: the shapes do not broadcast together",
    ),
    "channels of a convolution in a closure": (
        """def @main(%x: Tensor[(1, ?, 8), float32], %w: Tensor[(2, ?, 3), float32]) {
  let %f = fn (%a: Tensor[(1, ?, 8), float32]) { nn.conv1d(%a, %w) };
  %f(%x)
}""",
        [np.ones((1, 3, 8), "f4"), np.ones((2, 2, 3), "f4")],
        "nn.conv1d: .*channels",
    ),
    "channels in another function": (
        """def @conv(
  %x: Tensor[(1, ?, 8), float32], %w: Tensor[(2, ?, 3), float32]
) -> Tensor[(1, 2, 6), float32] { nn.conv1d(%x, %w) }
def @main(%x: Tensor[(1, ?, 8), float32], %w: Tensor[(2, ?, 3), float32]) { @conv(%x, %w) }""",
        [np.ones((1, 3, 8), "f4"), np.ones((2, 2, 3), "f4")],
        "nn.conv1d: .*channels",
    ),
}


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_runs(name):
    text, arguments, expected = PROGRAMS[name]
    result = compile_text(text)(arguments)
    if not isinstance(expected, tuple):
        result, expected = (result,), (expected,)
    for one, other in zip(result, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_when_it_runs(name):
    text, arguments, message = REFUSED[name]
    executable = compile_text(text)
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            executable(arguments)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "uint32", "uint64"])
def test_powers_of_integers(dtype):
    power = compile_text(f"def @main(%x: Tensor[(?), {dtype}], %y: Tensor[(?), {dtype}]) {{ power(%x, %y) }}")
    generator = np.random.default_rng(0)
    x, y = (generator.integers(0, high, 300).astype(dtype) for high in (256, 70))
    y[:3] = 0, 1, np.iinfo(dtype).max
    np.testing.assert_array_equal(power([x, y]), np.power(x, y))
    if dtype.startswith("int"):
        with pytest.raises(ValueError, match="power: an integer to a negative power is not defined"):
            power([x, -y - 1])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"kind": "llvm", "mcpu": "nonsense"}, "does not know the CPU 'nonsense'"),
        ({"kind": "llvm", "mtriple": "aarch64-linux-gnu"}, "'aarch64-linux-gnu' cannot run on this machine"),
        ({"kind": "llvm", "mtriple": "nonsense"}, "'nonsense' cannot run on this machine"),
        (
            {"kind": "llvm", "mtriple": f"{TRIPLE}-coff"},
            "-coff' cannot run on this machine",
        ),
        ({"kind": "llvm", "mattr": ["+nonsense"]}, r"does not know the feature '\+nonsense'"),
    ],
)
def test_a_target_that_llvm_would_complain_of_is_refused_before(target, message, capfd):
    with pytest.raises(EngineError, match=message):
        compile_text("def @main(%x: Tensor[(2), float32]) { tanh(%x) }", target=target)
    assert capfd.readouterr().err == ""


def test_what_no_memory_holds_is_refused_by_name():
    with pytest.raises(EngineError, match=r"zeros: the result, .* is larger than any memory"):
        compile_text('def @main() { sum(zeros(shape=[1099511627776, 1099511627776], dtype="float32")) }')
    with pytest.raises(MemoryError, match="@main: a tensor of this call needs more memory"):
        compile_text('def @main() { sum(zeros(shape=[1099511627776], dtype="float32")) }')([])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_permutations_are_inverted(dtype):
    invert = compile_text(f"def @main(%x: Tensor[(?), {dtype}]) {{ invert_permutation(%x) }}")
    order = np.random.default_rng(0).permutation(9).astype(dtype)
    np.testing.assert_array_equal(invert([order]), np.argsort(order))
    assert invert([order[:0]]).shape == (0,)
    np.testing.assert_array_equal(invert([np.array([0, 0, 2], dtype)]), [1, 0, 2])  # the last; 0 for none
    np.testing.assert_array_equal(invert([np.array([1, 1, 1], dtype)]), [0, 2, 0])


def test_depth_and_space_of_named_sizes_are_machine_code():
    x = np.arange(96, dtype="f4").reshape(1, 4, 4, 6)
    rows, columns = np.indices((2, 2)).reshape(2, -1)
    parts = [x[:, :, row::2, column::2] for row, column in zip(rows, columns, strict=True)]
    to_depth, to_space = (
        compile_text(f"def @main(%x: Tensor[(1, {depth}, ?, ?), float32]) {{ nn.{name}(%x, block_size=2) }}")
        for depth, name in ((4, "space_to_depth"), (16, "depth_to_space"))
    )
    assert isinstance(to_depth, AotExecutable)
    assert isinstance(to_space, AotExecutable)
    np.testing.assert_array_equal(to_depth([x]), np.concatenate(parts, axis=1))
    np.testing.assert_array_equal(to_space([np.concatenate(parts, axis=1)]), x)


def correlate(x, weight, padding):
    """Return the convolution, with strides of one, that NumPy's windows give."""
    axes = tuple(range(2, x.ndim))
    padded = np.pad(x, [(0, 0), (0, 0), *[(padding, padding)] * len(axes)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], axes)
    return np.moveaxis(
        np.tensordot(windows, weight, ([1, *(axis + len(axes) for axis in axes)], [1, *axes])), -1, 1
    )


def correlate_transposed(x, weight, padding):
    """Return the transposed convolution: that of wide padding with the kernel turned round."""
    reach = weight.shape[-1] - 1
    turned = np.flip(weight.swapaxes(0, 1), tuple(range(2, x.ndim)))
    full = correlate(x, turned, reach)
    inner = slice(padding, -padding or None)
    return full[(..., *[inner] * (x.ndim - 2))]


def pool(reduce, x, size):
    axes = tuple(range(2, x.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(x, (size,) * len(axes), axes)
    return reduce(windows, tuple(range(-len(axes), 0)))


@pytest.mark.sampled(every=9)
@pytest.mark.parametrize(("rank", "size"), [(1, 17), (1, 1), (2, 1), (2, 4), (3, 1), (3, 4)])
def test_kernels_of_known_lengths_over_data_of_named_sizes(rank, size):
    """TVM's analysis of copies fails on sizes that are differences, such as n - 14."""
    names, lengths = ", ".join(f'"{name}"' for name in "dhw"[-rank:]), ", ".join([str(size)] * rank)
    function = nnmagic.compile(
        f"def f(x: Tensor[(2, 4, {names}), f32], w: Tensor[(3, 4, {lengths}), f32],\n"
        f"      v: Tensor[(4, 3, {lengths}), f32]):\n"
        f"    a, b = conv{rank}d(x, w, padding=1), conv{rank}d_transpose(x, v, padding={int(size > 1)})\n"
        f"    return a, b, max_pool{rank}d(x, {size}, strides=1), avg_pool{rank}d(x, {size}, strides=1)\n",
        namespace={},
        cache=False,
    )
    generator = np.random.default_rng(0)
    w = generator.standard_normal((3, 4, *[size] * rank)).astype(np.float32)
    v = w.swapaxes(0, 1)
    for length in (size, size + 1, size + 4):
        x = generator.standard_normal((2, 4, *range(length, length + rank))).astype(np.float32)
        expected = (
            correlate(x, w, 1),
            correlate_transposed(x, v, int(size > 1)),
            pool(np.max, x, size),
            pool(np.mean, x, size),
        )
        for result, judge in zip(function(x, w, v), expected, strict=True):
            assert result.shape == judge.shape
            np.testing.assert_allclose(result, judge, rtol=1e-4, atol=1e-4)
