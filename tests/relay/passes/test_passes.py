"""What every pass keeps: types, meaning, sharing, spans, depth; and what each one promises."""

import numpy as np
import pytest

from nnmagic.diagnostics import RelayError
from nnmagic.engine import EngineError
from nnmagic.engine.relax import build
from nnmagic.relay import Module, call, constant, erase_types, infer_type, parse, structural_equal
from nnmagic.relay.expr import Call, Constant, Function, GlobalVar, If, Let, Tuple, Var, children
from nnmagic.relay.passes import (
    compose,
    dead_code_elimination,
    eliminate_common_subexpr,
    fold_constants,
    fold_partial_sorts,
    fold_softmax,
    fold_views,
    inline,
    partial_unroll,
    remove_unused_functions,
    simplify_control_flow,
    to_a_normal_form,
    to_graph_normal_form,
)
from nnmagic.relay.passes.scopes import is_atom, scopes_of
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.types import TensorType
from tests.random_programs.families.relay import arguments_of
from tests.random_programs.families.relay import write_module as generate
from tests.relay.corpus import load_programs, models
from tests.suites import FULL, sample

ALL = [
    dead_code_elimination,
    eliminate_common_subexpr,
    fold_constants,
    fold_partial_sorts,
    fold_softmax,
    fold_views,
    inline,
    partial_unroll,
    remove_unused_functions,
    simplify_control_flow,
    to_a_normal_form,
    to_graph_normal_form,
]
EVERYTHING = compose(
    lambda module: inline(module, "all"),
    simplify_control_flow,
    fold_constants,
    eliminate_common_subexpr,
    dead_code_elimination,
    to_graph_normal_form,
    remove_unused_functions,
)
SEEDS = range(40 if FULL else 20)
VERSION = '#[version = "0.0.5"]\n'


def name(run):
    return getattr(run, "__name__", "everything")


each_pass = pytest.mark.parametrize("run", ALL, ids=name)


def nodes(module):
    return {node for function in module.functions.values() for node in post_order(function)}


def functions_of(module):
    return {node for node in nodes(module) if isinstance(node, Function)}


# --- every pass ---------------------------------------------------------------------------------------------


@pytest.mark.full("dead_code_elimination")
@each_pass
def test_a_typed_module_comes_out_typed_as_before(run):
    for seed in SEEDS:
        module = infer_type(generate(seed))
        new = run(module)
        assert all(node.checked_type is not None for node in nodes(new) if not is_atom(node))
        assert new.functions["main"].checked_type == module.functions["main"].checked_type, seed


@pytest.mark.sampled(every=2)
@each_pass
def test_an_untyped_module_comes_out_untyped_and_means_the_same(run):
    for seed in SEEDS:
        module = generate(seed)
        new = run(module)
        assert all(node.checked_type is None for node in nodes(new))
        if run not in (fold_constants, fold_views):  # which see more where types are known
            assert structural_equal(infer_type(new), run(infer_type(module))), seed


@pytest.mark.parametrize(
    "run",
    [dead_code_elimination, eliminate_common_subexpr, fold_constants, to_a_normal_form, to_graph_normal_form],
    ids=name,
)
def test_a_second_run_changes_nothing(run):
    for seed in SEEDS:
        once = run(infer_type(generate(seed)))
        assert structural_equal(run(once), once), seed


@pytest.mark.full
@each_pass
def test_programs_of_the_corpus_keep_their_types(run):
    for record in sample(load_programs(), 4):
        module = infer_text(record["text"])
        if run is remove_unused_functions and "main" not in module.functions:
            continue
        new = run(module)
        types = [str(each.functions["main"].checked_type) for each in (new, module)]
        if "?" not in types[1] or "language" not in record["id"]:  # an inlined body may know what `?` is
            assert types[0] == types[1], record["id"]
        if "const" not in record["id"] and not new.printed_types:  # else the text says less than the module
            assert structural_equal(infer_text(new.astext()), new), record["id"]


def read_back(seed):
    """Return a random module with the spans of its text; None where scopes share a node, which none reads."""
    try:
        return infer_text(infer_type(generate(seed)).astext())
    except RelayError as error:
        if "is not defined" not in str(error):
            raise
        return None


@pytest.mark.sampled(every=2)
@each_pass
def test_new_nodes_stand_where_the_old_ones_stood(run):
    for module in filter(None, map(read_back, SEEDS[:20])):
        spans = {node.span for node in nodes(module)}
        new = run(module)
        assert {node.span for node in nodes(new) if isinstance(node, Call | If | Let)} <= spans - {None}


@each_pass
def test_nothing_is_computed_more_often(run):
    for seed in SEEDS:
        module = generate(seed)
        calls = sum(isinstance(node, Call) for node in nodes(module))
        if run is inline or run is partial_unroll:
            continue
        assert sum(isinstance(node, Call) for node in nodes(run(module))) <= calls, seed


@pytest.mark.sampled(every=3)
@each_pass
@pytest.mark.full
def test_depth_is_no_limit(run):
    x = Var("x", TensorType((3,)))
    chain = lets = x
    for _ in range(20_000):
        chain = call("exp", [chain])
    variables = [Var("v") for _ in range(2_000)]
    lets = variables[-1]
    for position in range(len(variables) - 1, -1, -1):
        value = call("add", [variables[position - 1] if position else x, chain])
        lets = Let(variables[position], value, lets)
    new = run(Module({"main": Function((x,), lets)}))
    assert sum(isinstance(node, Call) for node in nodes(new)) == 22_000


@each_pass
def test_what_another_compiler_owns_is_left_alone(run):
    body = "{ let %dead = exp(%x); add(add(1f, 1f), exp(%x)) }"
    module = infer_text(
        f"{VERSION}def @main(%x: float32) {{ (@kernel(%x), @extern(%x)) }}"
        f"def @kernel(%x: float32, Primitive=1, Inline=1) -> float32 {body}"
        f'def @extern(%x: float32, Compiler="other", Inline=1) -> float32 {body}'
    )
    new = run(module)
    assert structural_equal(new.functions["kernel"], module.functions["kernel"])
    assert structural_equal(new.functions["extern"], module.functions["extern"])


def test_a_module_in_which_nothing_changes_comes_out_as_it_is():
    module = infer_text(f"{VERSION}def @main(%x: float32) {{ exp(%x) }}")
    assert dead_code_elimination(module) is module
    assert eliminate_common_subexpr(module) is module
    assert to_graph_normal_form(module) is module


def test_compose_runs_the_first_pass_first():
    module = Module({"main": Function((), constant(0.0))})

    def append(letter):
        def run(module):
            return Module({name + letter: function for name, function in module.functions.items()})

        return run

    assert list(compose(append("a"), append("b"))(module).functions) == ["mainab"]
    assert compose()(module) is module


# --- let normal form and graph normal form ------------------------------------------------------------------


@pytest.mark.full
def test_every_part_of_a_let_normal_form_is_a_name():
    programs = [generate(seed) for seed in SEEDS] + [infer_text(each["text"]) for each in load_programs()]
    for module in programs:
        new = to_a_normal_form(module)
        for node in nodes(new):
            match node:
                case Let(value=value):
                    assert not isinstance(value, Let)
                case If(cond=cond):
                    assert is_atom(cond)
                case Function(attrs=attrs):  # a primitive function is left as it is
                    assert "Primitive" in attrs or not isinstance(node.body, Call | Constant)
                case _:
                    assert all(is_atom(part) for part in children(node)) or type(node).__name__ == "Match"


def test_graph_normal_form_leads_back_from_let_normal_form():
    for seed in SEEDS:
        module = infer_type(generate(seed))
        graph = to_graph_normal_form(module)
        assert structural_equal(to_graph_normal_form(to_a_normal_form(module)), graph), seed


def test_graph_normal_form_keeps_no_let_of_a_pure_program():
    for seed in SEEDS:
        new = to_graph_normal_form(generate(seed))
        lets = [node for node in nodes(new) if isinstance(node, Let)]
        # What only an inner function uses stays outside of it.
        assert all(not isinstance(let.value, Var) for let in lets)
        assert len(lets) <= len(functions_of(new)) - len(new.functions)


def test_sharing_becomes_one_let_and_one_let_becomes_sharing():
    x = Var("x", TensorType((3,)))
    shared = call("exp", [x])
    module = Module({"main": Function((x,), call("add", [shared, shared]))})
    let = to_a_normal_form(module).functions["main"].body
    assert isinstance(let, Let)
    assert let.body.value.args == (let.var, let.var)
    back = to_graph_normal_form(to_a_normal_form(module)).functions["main"].body
    assert back.args[0] is back.args[1]


# --- single passes ------------------------------------------------------------------------------------------


def test_constants_are_joined_by_bits():
    values = [0.0, -0.0, np.nan, np.nan, 0, 0.0]
    parts = [call("negative", [constant(value)]) for value in values]
    new = eliminate_common_subexpr(Module({"main": Function((), _tuple(parts))}))
    fields = new.functions["main"].body.fields
    assert fields[0] is fields[5]
    assert fields[2] is fields[3]
    assert len(set(fields)) == 4


def _tuple(parts):
    return Tuple(tuple(parts))


def test_attributes_of_another_kind_keep_calls_apart():
    x = Var("x", TensorType((1, 3)))
    one, true = (
        Call(call("sum", [x]).op, (x,), {"axis": None, "keepdims": value, "exclude": False})
        for value in (1, True)
    )
    new = eliminate_common_subexpr(Module({"main": Function((x,), _tuple([one, true, one]))}))
    fields = new.functions["main"].body.fields
    assert fields[0] is fields[2]
    assert fields[0] is not fields[1]


def test_folding_asks_the_evaluator_for_calls_on_constants_only():
    asked = []

    def evaluate(asked_call):
        asked.append(asked_call.op.name)
        return constant(7.0) if asked_call.op.name == "exp" else None

    module = infer_text(
        f"{VERSION}def @main(%x: float32) {{"
        '(add(exp(1f), tanh(2f)), add(%x, 1f), ones(shape=[2], dtype="float32")) }'
    )
    new = fold_constants(module, evaluate)
    assert sorted(asked) == ["exp", "tanh"]
    first = new.functions["main"].body.fields[0]
    assert first.args[0].data == 7.0
    assert first.args[1].op.name == "tanh"


def test_a_removed_entry_must_exist():
    with pytest.raises(KeyError, match="no function @nowhere"):
        remove_unused_functions(infer_text(f"{VERSION}def @main() {{ 1f }}"), ("nowhere",))


def test_what_to_inline_must_be_known():
    with pytest.raises(ValueError, match="'marked', 'once', 'higher_order' or 'all', not 'some'"):
        inline(infer_text(f"{VERSION}def @main() {{ 1f }}"), "some")


def test_inlining_stops_before_a_function_grows_too_large():
    """Each function calls the one before twice: the last would have 2**30 calls."""
    text = "".join(
        f"def @f{i}(%x: float32) -> float32 {{ @f{i - 1}(@f{i - 1}(%x)) }}\n" for i in range(1, 30)
    )
    module = infer_text(f"{VERSION}{text}def @f0(%x: float32) -> float32 {{ exp(%x) }}")
    new = inline(module, "all", max_nodes=1000)
    sizes = [sum(1 for _ in post_order(function)) for function in new.functions.values()]
    assert max(sizes) <= 1000
    assert max(sizes) > 100


def test_an_endless_loop_is_unrolled_no_further_than_the_limit():
    module = infer_text(
        f"{VERSION}def @main() {{ @f(0) }}"
        "def @f(%i: int32) -> int32 { if (less(%i, 0)) { %i } else { @f(add(%i, 1)) } }"
    )
    last = partial_unroll(module, limit=50).functions["main"].body
    assert last.op.name == "f"
    assert last.args[0].data == 50


@pytest.mark.full
def test_a_long_loop_unrolls_to_its_end():
    module = infer_text(
        f"{VERSION}def @main(%x: float32) {{ @f(0, %x) }}"
        "def @f(%i: int32, %x: float32) -> float32 {"
        "if (less(%i, 5000)) { @f(add(%i, 1), exp(%x)) } else { %x } }"
    )
    new = partial_unroll(module, limit=10_000)
    body = new.functions["main"].body
    assert sum(isinstance(node, Call) for node in post_order(body)) == 5000


def test_a_guarded_division_is_not_computed_before_its_guard():
    """The division by zero that the copies share would stop the machine outside of the branch."""
    module = infer_text(
        f"{VERSION}def @main(%n: int32, %d: int32) {{"
        "let %f = fn (%i: int32, %a: int32) -> int32 { if (less(%i, 2)) {"
        "%f(add(%i, 1), if (equal(%d, 0)) { %a } else { add(%a, divide(%n, %d)) }) } else { %a } };"
        "%f(0, %n) }"
    )
    main = dead_code_elimination(partial_unroll(module)).functions["main"]
    divisions = {node for node in post_order(main) if isinstance(node, Call) and node.op.name == "divide"}
    scopes = scopes_of(main)
    assert len(divisions) == 2
    assert all(scopes.scope_of[division] is not scopes.outermost for division in divisions)


@each_pass
def test_a_let_of_itself_holds_nobody_up(run):
    a, b, x = Var("a"), Var("b"), Var("x", TensorType((), "int32"))
    looped = Let(a, a, Let(b, Tuple((b, a)), If(call("less", [a, constant(1)]), a, call("add", [b, x]))))
    module = Module({"main": Function((x,), Call(GlobalVar("f"), (constant(1),)))})
    recursive = Function((x,), Let(Var("_"), Call(GlobalVar("f"), (x,)), looped))
    run(Module({**module.functions, "f": recursive}))


def test_a_bad_program_is_still_refused_where_it_is_bad():
    module = parse_untyped("def @main(%x: float32) { add(add(1f, 1i64), %x) }")
    for run in ALL:
        with pytest.raises(RelayError):
            infer_type(run(module))


def infer_text(text):
    return infer_type(parse(text))


def parse_untyped(text):
    from nnmagic.relay.text.parser import parse_module

    return parse_module(VERSION + text, "from_string")


# --- numbers ------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_passes_do_not_change_what_programs_compute():
    compared = 0
    for seed in range(45):
        module = infer_type(generate(seed))
        arrays = arguments_of(seed)
        try:
            expected = build(module, "main")(arrays)
        except EngineError:
            continue  # function values
        for run in (to_a_normal_form, EVERYTHING):
            _assert_same(build(run(module), "main")(arrays), expected, seed)
        compared += 1
    assert compared >= 30


def _assert_same(result, expected, seed):
    if isinstance(expected, tuple):
        for one, other in zip(result, expected, strict=True):
            _assert_same(one, other, seed)
    else:
        np.testing.assert_allclose(result, expected, rtol=2e-5, atol=1e-6, err_msg=f"seed {seed}")


@pytest.mark.full
@pytest.mark.parametrize("text", models().values(), ids=models())
def test_models_keep_their_types_and_their_number_of_calls(text):
    module = infer_text(text)
    new = EVERYTHING(erase_types(module))
    assert infer_type(new).functions["main"].checked_type == module.functions["main"].checked_type
    assert structural_equal(to_graph_normal_form(to_a_normal_form(module)), to_graph_normal_form(module))


PRODUCT = "nn.matmul({}, {}, units=None{})"
BATCH = "nn.batch_matmul({}, {}, transpose_b=False)"
SWAPPED, KEPT = "transpose({}, axes=[1, 0])", "transpose({}, axes=[0, 1])"
VIEWS = {
    PRODUCT.format("transpose(%x, axes=None)", "%y", ""): PRODUCT.format("%x", "%y", ", transpose_a=True"),
    PRODUCT.format("%z", SWAPPED.format("%y"), ""): PRODUCT.format("%z", "%y", ", transpose_b=True"),
    PRODUCT.format(KEPT.format("%z"), SWAPPED.format("%y"), ""): PRODUCT.format(
        KEPT.format("%z"), "%y", ", transpose_b=True"
    ),
    "squeeze(expand_dims(reshape(%x, newshape=[2, 6]), axis=0), axis=[0])": "reshape(%x, newshape=[2, 6])",
    "reshape(transpose(%x, axes=None), newshape=[2, 6])": None,
    BATCH.format(
        "reshape(%a, newshape=[8, 3, 4])", "reshape(transpose(%b, axes=[0, 1, 3, 2]), newshape=[8, 4, 5])"
    ): (
        BATCH.format("reshape(%a, newshape=[8, 3, 4])", "reshape(%b, newshape=[8, 5, 4])").replace(
            "transpose_b=False", "transpose_b=True"
        )
    ),
    BATCH.format(
        "reshape(%a, newshape=[-3, 0, 0])", "reshape(transpose(%b, axes=[0, 1, 3, 2]), newshape=[-3, 4, 0])"
    ): (
        BATCH.format("reshape(%a, newshape=[-3, 0, 0])", "reshape(%b, newshape=[-3, 0, 4])").replace(
            "transpose_b=False", "transpose_b=True"
        )
    ),
    BATCH.format(
        "reshape(%a, newshape=[4, 6, 4])", "reshape(transpose(%b, axes=[0, 1, 3, 2]), newshape=[4, 4, 10])"
    ): None,
    "sum(transpose(%x, axes=None), axis=[1])": "sum(%x, axis=[0])",
    "max(transpose(%b, axes=[1, 3, 0, -2]), axis=[-1, 0])": None,
    "mean(transpose(%b, axes=[1, 3, 0, 2]), axis=[0, 1])": "mean(%b, axis=[1, 3])",
    "prod(transpose(%b, axes=[3, 0, 1, -2]), axis=[0])": "prod(%b, axis=[3])",
    "min(transpose(%x, axes=[1, 0]))": "min(%x, axis=[0, 1])",
    "sum(transpose(%x, axes=[1, 0]), axis=[0], keepdims=True)": None,
    "sum(transpose(%x, axes=[1, 0]), axis=[0], exclude=True)": None,
    # A reshape to the shape that is there, at once or in the end.
    "reshape(%x, newshape=[3, 4])": "%x",
    "reshape(reshape(%x, newshape=[12]), newshape=[3, -1])": "%x",
    "reshape(reshape(%x, newshape=[12]), newshape=[4, 3])": "reshape(%x, newshape=[4, 3])",
}


@pytest.mark.parametrize("text", VIEWS)
def test_views_are_folded_into_what_reads_them(text):
    expected = VIEWS[text]
    head = "def @main(%x: Tensor[(3, 4), float32], %y: Tensor[(3, 5), float32], %z: Tensor[(2, 5), float32],"
    head += " %a: Tensor[(2, 4, 3, 4), float32], %b: Tensor[(2, 4, 5, 4), float32])"
    module = infer_type(parse(f"{VERSION}{head} {{ {text} }}"))
    wanted = infer_type(parse(f"{VERSION}{head} {{ {expected or text} }}"))
    folded = fold_views(module)
    assert structural_equal(folded, wanted)
    assert folded.functions["main"].body.checked_type == module.functions["main"].body.checked_type


MAX, SUM = "max({}, axis=[{}], keepdims={})", "sum({}, axis=[{}], keepdims={})"
SOFTMAX = "%0 = exp(subtract(%x, {})); divide(%0, {})"
SOFTMAXES = {
    SOFTMAX.format(MAX.format("%x", 1, True), SUM.format("%0", 1, True)): "nn.softmax(%x)",
    SOFTMAX.format(MAX.format("%x", -1, True), SUM.format("%0", 1, True)): "nn.softmax(%x)",
    SOFTMAX.format(MAX.format("%x", 0, True), SUM.format("%0", 0, True)): "nn.softmax(%x, axis=0)",
    SOFTMAX.format(MAX.format("%x", 0, False), SUM.format("%0", 0, False)): "nn.softmax(%x, axis=0)",
    SOFTMAX.format(
        f"expand_dims({MAX.format('%x', 1, False)}, axis=1)",
        f"expand_dims({SUM.format('%0', 1, False)}, axis=-1)",
    ): "nn.softmax(%x)",
    # Another axis, the transpose of the sums, another tensor, and what something else uses.
    SOFTMAX.format(MAX.format("%x", 0, True), SUM.format("%0", 1, True)): None,
    SOFTMAX.format(MAX.format("%x", 1, False), SUM.format("%0", 1, False)): None,
    SOFTMAX.format(MAX.format("%y", 1, True), SUM.format("%0", 1, True)): None,
    SOFTMAX.format(MAX.format("%x", 1, True), SUM.format("%0", 1, True)).replace("divide", "add(%0, divide")
    + ")": None,
}


@pytest.mark.parametrize("text", SOFTMAXES)
def test_a_softmax_in_exponentials_is_folded(text):
    expected = SOFTMAXES[text]
    head = "def @main(%x: Tensor[(3, 3), float32], %y: Tensor[(3, 3), float32])"
    module = infer_type(parse(f"{VERSION}{head} {{ {text} }}"))
    wanted = infer_type(parse(f"{VERSION}{head} {{ {expected or text} }}"))
    assert structural_equal(fold_softmax(module), wanted)


SLICED = "strided_slice({}, begin=[{}], end=[{}], strides=[{}], axes=[{}])"
ORDER, SORTED = 'argsort(%x, axis=1, dtype="int64")', "sort(%x, axis=-1, is_ascend=False)"
INDICES, PARTITION = "numpy.argpartition(%x, %kth, axis=1)", "numpy.partition(%x, %kth)"
PARTIAL_SORTS = {
    SLICED.format(
        ORDER, 0, 2, 1, 1
    ): 'topk(%x, k=2, axis=1, ret_type="indices", is_ascend=True, dtype="int64")',
    SLICED.format(SORTED, 0, 3, 1, 1): 'topk(%x, k=3, axis=1, ret_type="values", dtype="int32")',
    SLICED.format(
        INDICES, 0, 3, 1, 1
    ): 'topk(%x, k=3, axis=1, ret_type="indices", is_ascend=True, dtype="int64")',
    SLICED.format(
        PARTITION, 0, 10, 1, 1
    ): 'topk(%x, k=10, axis=1, ret_type="values", is_ascend=True, dtype="int32")',
    # Many of a partition. All elements, the last ones, every second one, another axis, and one used again.
    SLICED.format(PARTITION, 0, 11, 1, 1): None,
    SLICED.format(ORDER, 0, 15, 1, 1): None,
    SLICED.format(ORDER, 3, 5, 1, 1): None,
    SLICED.format(ORDER, 0, 4, 2, 1): None,
    SLICED.format(ORDER, 0, 2, 1, 0): None,
    f"%0 = {ORDER}; ({SLICED.format('%0', 0, 2, 1, 1)}, %0)": None,
}


@pytest.mark.parametrize("text", PARTIAL_SORTS)
def test_a_sort_whose_first_elements_are_used_is_folded(text):
    expected = PARTIAL_SORTS[text]
    head = "def @main(%x: Tensor[(3, 15), float32], %kth: Tensor[(1), int64])"
    module = infer_type(parse(f"{VERSION}{head} {{ {text} }}"))
    wanted = infer_type(parse(f"{VERSION}{head} {{ {expected or text} }}"))
    folded = fold_partial_sorts(module)
    assert structural_equal(folded, wanted)
    assert folded.functions["main"].body.checked_type == wanted.functions["main"].body.checked_type


@pytest.mark.parametrize(("index", "begin", "end"), [(0, 1, 4), (3, 0, 2), (1, 2, 2), (-1, -3, -1)])
def test_a_row_is_taken_before_its_columns_are_sliced(index, begin, end):
    """The slices of the whole matrix are gone, and so is what they would have copied."""
    text = f"""
def @main(%x: Tensor[(4, 5), float32]) -> Tensor[(?), float32] {{
  %0 = strided_slice(%x, begin=[{begin}], end=[{end}], strides=[1], axes=[1]);
  %1 = strided_slice(%0, begin=[0], end=[9], strides=[1], axes=[1]);
  take(%1, {index}, axis=0, mode="wrap")
}}
"""
    module = infer_text(VERSION + text.replace("(?)", f"({len(range(5)[begin:end])})"))
    new = fold_views(module)
    slices = [
        node
        for node in post_order(new.functions["main"].body)
        if isinstance(node, Call) and node.op.name == "strided_slice"
    ]
    assert [len(node.checked_type.shape) for node in slices] == [1, 1]
    x = np.arange(20, dtype="float32").reshape(4, 5)
    np.testing.assert_array_equal(build(new, "main")([x]), x[index, begin:end])
