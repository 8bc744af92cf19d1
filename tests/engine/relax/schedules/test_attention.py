"""Attention in one kernel: NumPy is the judge, arrays lie between guarded pages, memory is linear."""

import itertools
import re
import sys

import numpy as np
import pytest
from tvm import ir, tirx

import nnmagic
from nnmagic.engine.relax import build
from nnmagic.engine.relax.analysis.attention import ATTENTION, find_attention
from nnmagic.engine.relax.tir.visitors import visit
from nnmagic.relay.expr import Call
from nnmagic.relay.passes import fold_views
from nnmagic.relay.passes.softmax import fold_softmax
from nnmagic.relay.structure.traverse import post_order
from tests.child_process import run_python
from tests.engine.relax.codegen.targets import OLDER
from tests.engine.relax.schedules.program_kernels import program_kernels, with_named_sizes
from tests.suites import sample

pytestmark = pytest.mark.sampled(every=6)

TARGETS = {"own": None, "avx2": OLDER}
SCALE = 0.25

#: Around vectors, tiles and blocks of both targets.
QUERIES = (0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65)
KEYS = (0, 1, 5, 7, 8, 9, 47, 48, 49, 63, 64, 65, 130)

#: name -> (type of the mask or None, steps from %1 to %2)
MASKS = {
    "none": (None, "%1"),
    "causal": (
        None,
        'where(less_equal(cumsum(cast(ones_like(%1), dtype="int32"), axis=2),'
        ' cumsum(cast(ones_like(%1), dtype="int32"), axis=1)), %1, -inf)',
    ),
    "added": (("{n}", "{s}"), "add(%1, %m)"),
    "added to each batch": (("{b}", "{n}", "{s}"), "add(%m, %1)"),
    "of keys": (("{b}", "1", "{s}"), "subtract(%1, %m)"),
    "of queries": (("{b}", "{n}", "1"), "multiply(%1, %m)"),
    "a number": ((), "divide(%1, %m)"),
    "bools": (("{n}", "{s}"), "where(%m, %1, -inf)"),
    "bools of keys": (("{b}", "1", "{s}"), "where(%m, -inf, %1)"),
}


def program(mask, dtype, sizes, depth, width):
    """The typed module of attention; sizes that are strings are named."""
    dims, steps = MASKS[mask]
    b, n, s = ("?" if isinstance(size, str) else size for size in sizes)
    params = [f"%q: Tensor[({b}, {n}, {depth}), {dtype}]", f"%k: Tensor[({b}, {s}, {depth}), {dtype}]"]
    params.append(f"%v: Tensor[({b}, {s}, {width}), {dtype}]")
    if dims is not None:
        of_mask = ", ".join(dims).format(b=b, n=n, s=s)
        kind = "bool" if mask.startswith("bools") else dtype
        params.append(f"%m: Tensor[({of_mask}), {kind}]")
    inf, number = ("-inff", f"{SCALE}f") if dtype == "float32" else ("-inff64", f"{SCALE}f64")
    text = f"""def @main({", ".join(params)}) {{
      %0 = nn.batch_matmul(%q, transpose(%k, axes=[0, 2, 1]), transpose_b=False);
      %1 = multiply(%0, {number});
      %2 = nn.softmax({steps.replace("-inf", inf)});
      nn.batch_matmul(%2, %v, transpose_b=False)
    }}"""
    names = [*(sizes[0], sizes[1]), sizes[0], sizes[2], sizes[0], sizes[2]]
    names += [{"{b}": sizes[0], "{n}": sizes[1], "{s}": sizes[2], "1": 1}[dim] for dim in dims or ()]
    return with_named_sizes(text, *(name for name in names if isinstance(name, str)))


def operands(mask, dtype, sizes, depth, width):
    b, n, s = sizes
    generator = np.random.default_rng(b + n + s)
    arrays = [
        generator.standard_normal(shape).astype(dtype)
        for shape in ((b, n, depth), (b, s, depth), (b, s, width))
    ]
    dims = MASKS[mask][0]
    if dims is not None:
        shape = [int(dim.format(b=b, n=n, s=s)) for dim in dims]
        m = generator.standard_normal(shape)
        arrays.append(m > -0.5 if mask.startswith("bools") else (m if dims else np.array(1.5)).astype(dtype))
    return arrays


def expected(mask, q, k, v, m=None):
    """Attention in the dtype of the operands, each step as it is written."""
    with np.errstate(all="ignore"):
        scores = expected_scores(mask, q, k, m)
        if scores.shape[-1] == 0:
            return np.zeros((*scores.shape[:-1], v.shape[-1]), q.dtype)
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return (powers / powers.sum(axis=-1, keepdims=True)) @ v


def expected_scores(mask, q, k, m):
    scores = q @ k.swapaxes(-1, -2) * q.dtype.type(SCALE)
    inf = q.dtype.type(np.inf)
    if mask == "causal":
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -inf)
    elif mask.startswith("added"):
        scores = scores + m
    elif mask == "of keys":
        scores = scores - m
    elif mask == "of queries":
        scores = scores * m
    elif mask == "a number":
        scores = scores / m
    elif mask == "bools":
        scores = np.where(m, scores, -inf)
    elif mask == "bools of keys":
        scores = np.where(m, -inf, scores)
    return scores


def wide(arrays):
    return [array.astype("f8") if array.dtype.kind == "f" else array for array in arrays]


def assert_equal(found, wanted):
    tolerance = {"float32": 2e-5, "float64": 1e-12}[str(found.dtype)]
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def fused_kernels(typed, target=None):
    """The kernels of a program whose attention has been found."""
    return list(program_kernels(find_attention(fold_views(typed)), target).values())


def check(mask, dtype, target):
    """Every size around those of tiles, between guarded pages."""
    depth, width = (16, 20) if dtype == "float32" else (5, 9)
    (kernel,) = fused_kernels(program(mask, dtype, ("b", "l", "s"), depth, width), TARGETS[target])
    order = [buffer.name for buffer in kernel.buffers][:-1]
    pairs = [*itertools.product(QUERIES, (0, 1, 9, 65)), *itertools.product((1, 17, 33), KEYS), (70, 300)]
    for queries, keys in pairs:
        sizes = (1 + (queries + keys) % 3, queries, keys)
        sys.stdout.write(f"{mask} {sizes}\n")  # what was the last, if it crashes
        sys.stdout.flush()
        values = operands(mask, dtype, sizes, depth, width)
        named = dict(zip("qkvm", values, strict=False))
        for at_end in (True, False):
            (found,) = kernel(*(named[name] for name in order), at_end=at_end)
            assert_equal(found, expected(mask, *wide(values)))


def run_in_child(*arguments):
    """Kernels between guarded pages run in a child: they may crash."""
    run_python("-m", "tests.engine.relax.schedules.test_attention", *arguments, TVM_NUM_THREADS="2")


@pytest.mark.full
@pytest.mark.parametrize("mask", ["causal", "added"])
def test_sizes_around_those_of_tiles(mask):
    run_in_child("own", "float32", mask)


@pytest.mark.full
@pytest.mark.parametrize(("target", "dtype"), sample([("avx2", "float32"), ("own", "float64")], 2))
def test_all_masks_at_sizes_around_those_of_tiles(target, dtype):
    run_in_child(target, dtype, *MASKS)


#: Sizes known at compile time: whole blocks, and parts of blocks of queries and keys; few queries.
STATIC = [(2, 512, 512, 64, 64), (3, 333, 555, 17, 33), (1, 16, 16500, 8, 8), (40, 100, 70, 3, 5)]


@pytest.fixture(params=[1, 2])
def threads(request):
    nnmagic.set_num_threads(request.param)
    yield request.param
    nnmagic.set_num_threads(None)


@pytest.mark.full(
    "2-(3, 333, 555, 17, 33)-bools of keys", "1-(3, 333, 555, 17, 33)-bools", "2-(3, 333, 555, 17, 33)-causal"
)
@pytest.mark.sampled(every=4)
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("mask", ["none", "causal", "bools", "bools of keys"])
@pytest.mark.parametrize("sizes", STATIC, ids=str)
def test_known_sizes(sizes, mask):
    *dims, depth, width = sizes
    executable = build(program(mask, "float32", dims, depth, width), "main")
    assert kernel_names(executable) == ["nnmagic_attention"]
    values = operands(mask, "float32", dims, depth, width)
    assert_equal(executable(values), expected(mask, *wide(values)))


def kernel_names(executable):
    return re.findall(r"def (\w+)[(\[]", executable.stage("tir"))


@pytest.mark.full
@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.full)])
def test_infinities_and_nan_are_those_of_the_steps(mask, dtype):
    """Rows of -inf only, infinite and NaN scores and values, at keys that count and at keys that do not."""
    depth, width = 8, 6
    executable = build(program(mask, dtype, ("b", "l", "s"), depth, width), "main")
    generator = np.random.default_rng(1)
    special = [np.nan, np.inf, -np.inf]
    for where, queries in itertools.product(range(12), (40, 3)):
        values = operands(mask, dtype, (2, queries, 70), depth, width)
        values[where % 3][1, generator.integers(queries), 3] = special[where // 3 % 3]
        if mask.startswith("bools"):
            values[3] = values[3].copy()
            values[3][..., 5 % values[3].shape[-2], :] = mask == "bools of keys"
        elif len(values) > 3 and where % 2:
            values[3] = np.array(values[3])
            values[3].reshape(-1)[:1] = special[where // 2 % 3]
        assert_equal(executable(values), expected(mask, *values))


@pytest.mark.full
def test_a_row_of_minus_infinity_is_nan_whatever_its_block():
    executable = build(program("added", "float32", ("b", "l", "s"), 4, 4), "main")
    q, k, v, m = operands("added", "float32", (1, 33, 200), 4, 4)
    m[5] = -np.inf
    m[6, :150] = -np.inf
    m[7, 10:] = -np.inf
    found = executable([q, k, v, m])
    assert np.isnan(found[0, 5]).all()
    assert_equal(found, expected("added", q, k, v, m))


@pytest.mark.full
def test_values_near_the_largest_number_do_not_overflow():
    q, k, v = operands("none", "float32", (1, 40, 500), 4, 4)
    v = np.sign(v) * np.float32(3e38)
    for sizes in (("b", "l", "s"), (1, 40, 500)):
        found = build(program("none", "float32", sizes, 4, 4), "main")([q, k, v])
        assert_equal(found / np.float32(3e38), expected("none", *wide([q, k, v / np.float32(3e38)])))


@pytest.mark.full
def test_scores_far_apart_keep_the_largest():
    """The running maximum rises by more than exponentials can hold, and falls."""
    q, k, v = operands("none", "float32", (1, 33, 300), 4, 4)
    k *= np.linspace(0, 500, 300, dtype="float32")[:, None]
    executable = build(program("none", "float32", ("b", "l", "s"), 4, 4), "main")
    for keys in (k, k[:, ::-1].copy()):
        found = executable([q, keys, v])
        np.testing.assert_allclose(found, expected("none", *wide([q, keys, v])), rtol=1e-3, atol=1e-3)


@pytest.mark.full
def test_memory_does_not_grow_with_the_product_of_sizes():
    """No array of the kernel is longer than a sequence, and nothing is kept beside it."""
    for mask in ("none", "added"):
        typed = program(mask, "float32", ("b", "l", "s"), 16, 20)
        (kernel,) = fused_kernels(typed)
        allocated = []
        visit(kernel.function.body, [(tirx.AllocBuffer, allocated.append)])
        assert allocated
        for node in allocated:
            sizes = []
            for dim in node.buffer.ty.shape:
                visit(dim, [(ir.Var, sizes.append)])
            assert len(sizes) <= 1, node
        assert build(typed, "main").artifact.facts["workspace"] == 0


#: What users write, and the shapes of q, k, v and m.
WRITTEN = {
    "softmax(q @ k.T / 4.0) @ v": ("(600, 16)", "(500, 16)", "(500, 8)", "(1, 1)"),
    "softmax(m + q @ k.mT * 0.25, axis=-1) @ v": (
        "(2, 400, 16)",
        "(2, 500, 16)",
        "(2, 500, 8)",
        "(400, 500)",
    ),
    "softmax(0.25 * (q @ k), axis=-1) @ v.mT": ("(2, 400, 16)", "(2, 16, 500)", "(2, 8, 500)", "(1, 1)"),
    "softmax(where(m > 0.0, q @ k.mT, -1e9)) @ v": (
        "(4, 300, 16)",
        "(4, 300, 16)",
        "(4, 300, 8)",
        "(300, 300)",
    ),
    "softmax(where(m > 0.0, -inf, q @ k.mT - m)) @ v": (
        "(2, 2, 300, 16)",
        "(2, 2, 300, 16)",
        "(2, 2, 300, 8)",
        "(2, 1, 1, 300)",
    ),
    "(softmax(q @ k.T) @ v)": ("(2, 300, 16)", "(500, 16)", "(500, 8)", "(1, 1)"),
}


@pytest.mark.full
@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("form", WRITTEN)
@pytest.mark.parametrize(("by_hand", "named"), [(False, False), (True, True)])
def test_what_users_write_is_one_kernel(form, by_hand, named):
    shapes = WRITTEN[form]
    expression = form
    if by_hand:  # softmax in exponentials
        start = form.index("softmax(")
        depth, end = 0, start
        for end in range(start + 7, len(form)):
            depth += {"(": 1, ")": -1}.get(form[end], 0)
            if not depth:
                break
        scores = form[start + 8 : end].removesuffix(", axis=-1")
        expression = form[:start] + "(e / e.sum(axis=-1, keepdims=True))" + form[end + 1 :]
        body = f"s = {scores}\n    e = exp(s - s.max(axis=-1, keepdims=True))\n    return {expression}"
    else:
        body = f"return {expression}"
    types = [shape.replace("500", '"S"').replace("300", '"L"') if named else shape for shape in shapes]
    head = ", ".join(f"{name}: Tensor[{type_}, f32]" for name, type_ in zip("qkvm", types, strict=True))
    function = nnmagic.compile(f"def f({head}):\n    {body}\n")
    assert [name for name in re.findall(r"def (\w+)[(\[]", function.stages["tir"]) if "matmul" in name] == []
    assert "nnmagic" not in function.stages["relay"]
    generator = np.random.default_rng(2)
    values = [generator.standard_normal(eval(shape)).astype("float32") for shape in shapes]

    def softmax(x, axis=-1):
        powers = np.exp(x - x.max(axis=axis, keepdims=True))
        return powers / powers.sum(axis=axis, keepdims=True)

    class Matrices(np.ndarray):
        """Arrays with the properties that cells know from NumPy 2."""

        mT = property(lambda self: self.swapaxes(-1, -2))

    names = {"softmax": softmax, "sqrt": np.sqrt, "where": np.where, "inf": np.inf}
    names |= {name: value.astype("f8").view(Matrices) for name, value in zip("qkvm", values, strict=True)}
    assert_equal(function(*values), np.asarray(eval(form, names)))


KEYS_OF_ALL = np.random.default_rng(4).standard_normal((500, 16)).astype("float32")
VALUES_OF_ALL = np.random.default_rng(5).standard_normal((500, 8)).astype("float32")
MASK_OF_ALL = np.tri(600, 500, dtype=bool)


def test_captured_arrays_are_operands():
    @nnmagic.function
    def with_captured_arrays(q: nnmagic.Tensor[(600, 16), nnmagic.f32]):
        return softmax(where(MASK_OF_ALL, q @ KEYS_OF_ALL.T, -inf)) @ VALUES_OF_ALL  # noqa: F821

    q = np.random.default_rng(6).standard_normal((600, 16)).astype("float32")
    assert "attention" in with_captured_arrays.stages["tir"]
    scores = np.where(MASK_OF_ALL, q.astype("f8") @ KEYS_OF_ALL.T, -np.inf)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    assert_equal(with_captured_arrays(q), powers / powers.sum(axis=1, keepdims=True) @ VALUES_OF_ALL)


#: Masks of 300 keys as users write them, and what they make of the scores; the last two choose other keys.
WRITTEN_MASKS = {
    "np.triu(np.ones((300, 300), dtype=bool), k=1)": "np.where(m, -inf, s)",
    "np.tril(np.ones((300, 300)))": "s.masked_fill(m == 0, -inf)",
    "np.arange(300)[None] <= np.arange(300)[:, None]": "np.where(m, s, -inf)",
    "MASK_OF_ALL[None, :300, :300]": "np.where(~m, -inf, s)",
    "np.triu(np.ones((300, 300), dtype=bool), k=2)": "np.where(m, -inf, s)",
    "np.tri(300, 300, -1)": "np.where(m == 1, -inf, s)",
}


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("mask", WRITTEN_MASKS)
def test_masks_of_known_numbers_leave_out_the_keys_after_a_query(mask):
    chosen = WRITTEN_MASKS[mask]
    types = ", ".join(
        f"{name}: Tensor[(2, 300, {size}), f32]" for name, size in zip("qkv", (16, 16, 8), strict=True)
    )
    source = f"def f({types}):\n    s = q @ k.mT\n    m = {mask}\n    s = {chosen}\n"
    source += "    e = np.exp(s - s.max(axis=-1, keepdims=True))\n"
    source += "    return e / e.sum(axis=-1, keepdims=True) @ v\n"
    names = {"np": np, "MASK_OF_ALL": MASK_OF_ALL}
    function = nnmagic.compile(source, namespace=names)
    found = find_attention(fold_softmax(function.relay))
    nodes = post_order(found.functions["f"])
    calls = [node for node in nodes if isinstance(node, Call) and getattr(node.op, "name", "") == ATTENTION]
    steps = [step[0] for step in calls[0].attrs["steps"]]
    generator = np.random.default_rng(7)
    q, k, v = (generator.standard_normal((2, 300, size)).astype("float32") for size in (16, 16, 8))
    v[0, 120, 3], v[1, 7] = np.inf, np.nan
    names |= {"s": q.astype("f8") @ k.swapaxes(1, 2), "inf": np.inf}
    names["m"] = eval(mask, names)
    scores = eval(chosen.replace("s.masked_fill(m == 0, -inf)", "np.where(m == 0, -inf, s)"), names)
    assert steps == ["causal" if np.array_equal(np.isfinite(scores[0]), np.tri(300)) else steps[0]]
    with np.errstate(all="ignore"):
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        assert_equal(function(q, k, v), powers / powers.sum(axis=-1, keepdims=True) @ v)


#: What must stay as it is written: something else reads the scores or the shares.
SHARED = [
    "w = softmax(q @ k.T)\n    return w @ v, w",
    "s = q @ k.T\n    return softmax(s) @ v + s.sum()",
    "s = q @ k.T\n    return softmax(s - s.mean(axis=-1, keepdims=True)) @ v",
    "w = softmax(q @ k.T)\n    return w @ v + w @ (v * 2.0)",
    "return softmax(q @ k.T, axis=0) @ v",
    "s = q @ k.T\n    return softmax(s * s) @ v",
]


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("body", SHARED)
def test_scores_that_something_else_reads_are_computed_once(body):
    head = "q: Tensor[(600, 16), f32], k: Tensor[(600, 16), f32], v: Tensor[(600, 8), f32]"
    function = nnmagic.compile(f"def f({head}):\n    {body}\n")
    assert "attention" not in function.stages["tir"]
    assert function.stages["tir"].count("softmax") > 0


#: Attention inside of control flow; the last runs on the interpreter.
AROUND = {
    "branch": "if q[0, 0] > 0.0:\n        return softmax(q @ k.T) @ v\n    return q",
    "loop": "for i in range(count):\n        q = softmax(q @ k.T) @ v + q\n    return q",
    "function": "def step(x):\n        return softmax(x @ k.T) @ v + x\n    return step(step(q))",
    "list": "steps = [lambda x: softmax(x @ k.T) @ v, lambda x: x]\n    return steps[0](q)",
}


@pytest.mark.full
@pytest.mark.parametrize("around", AROUND)
def test_attention_in_control_flow(around):
    length = '"L"' if around == "loop" else "600"
    parameters = f"q: Tensor[({length}, 16), f32], k: Tensor[(550, 16), f32], v: Tensor[(550, 16), f32]"
    function = nnmagic.compile(f"def f({parameters}, count: i32):\n    {AROUND[around]}\n")
    assert "attention" in function.stages["tir"]
    generator = np.random.default_rng(3)
    q, k, v = (generator.standard_normal((size, 16)).astype("float32") for size in (600, 550, 550))
    q[0, 0] = 1
    wanted = wide([q])[0]
    for _ in range({"loop": 3, "function": 2}.get(around, 1)):
        scores = wanted @ wide([k])[0].T
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        step = powers / powers.sum(axis=1, keepdims=True) @ wide([v])[0]
        wanted = step + wanted if around in ("loop", "function") else step
    np.testing.assert_allclose(function(q, k, v, 3), wanted, rtol=1e-3, atol=1e-3)


if __name__ == "__main__":
    for each in sys.argv[3:]:
        check(each, sys.argv[2], sys.argv[1])
