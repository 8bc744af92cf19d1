"""The pattern language: what matches, what is rewritten and partitioned, judged by hand and by NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nnmagic
from nnmagic import relay
from nnmagic.relay import call, constant
from nnmagic.relay.patterns import (
    Match,
    find,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    match,
    partition,
    rewrite,
    rewrite_pass,
    rule,
    wildcard,
)

X = relay.Var("x", relay.TensorType((2, 3), "float32"))
Y = relay.Var("y", relay.TensorType((2, 3), "float32"))
W = relay.Var("w", relay.TensorType((4, 3), "float32"))


def module_of(body: relay.Expr, *params: relay.Var) -> relay.Module:
    return relay.infer_type(relay.Module({"main": relay.Function(params or (X, Y), body)}))


def names(module: relay.Module) -> list[str]:
    """The operators of a module's text, in order."""
    return [name for name in re.findall(r"([a-z_.0-9]+)\(", str(module)) if name in relay.OPERATORS]


# -- what matches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "expr", "matches"),
    [
        (wildcard(), X, True),
        (is_var(), X, True),
        (is_var("x"), X, True),
        (is_var("x"), Y, False),
        (is_var(), constant(1.0), False),
        (is_expr(X), X, True),
        (is_expr(X), Y, False),
        (is_constant(), constant([1.0, 2.0]), True),
        (is_constant(), X, False),
        (is_constant(0), constant([0.0, 0.0]), True),
        (is_constant(0), constant([0.0, 1.0]), False),
        (is_constant([1, 2]), constant([1.0, 2.0]), True),
        (is_constant([1, 2]), constant(1.0), False),
        (is_op("exp")(wildcard()), call("exp", [X]), True),
        (is_op("exp")(wildcard()), call("log", [X]), False),
        (is_op("exp", "log")(wildcard()), call("log", [X]), True),
        (is_op("exp")(is_var("y")), call("exp", [X]), False),
        (is_op("add")(wildcard()), call("add", [X, Y]), False),
        (is_tuple(), relay.Tuple((X, Y)), True),
        (is_tuple([is_var("x"), is_var("y")]), relay.Tuple((X, Y)), True),
        (is_tuple([is_var("y"), is_var("x")]), relay.Tuple((X, Y)), False),
        (is_tuple([wildcard()]), relay.Tuple((X, Y)), False),
        (is_tuple_get_item(is_tuple()), relay.TupleGetItem(relay.Tuple((X, Y)), 1), True),
        (is_tuple_get_item(is_tuple(), 0), relay.TupleGetItem(relay.Tuple((X, Y)), 1), False),
        (
            is_if(wildcard(), is_var("x"), wildcard()),
            relay.If(constant(value=True, dtype="bool"), X, Y),
            True,
        ),
        (is_let(wildcard(), is_var("x"), is_var("y")), relay.Let(relay.Var("a"), X, Y), True),
        (is_op("sum")(wildcard()).has_attr(axis=[1]), call("sum", [X], axis=(1,)), True),
        (is_op("sum")(wildcard()).has_attr(axis=[0]), call("sum", [X], axis=(1,)), False),
        (is_op("sum")(wildcard()).has_attr(keepdims=1), call("sum", [X], keepdims=True), False),
        (is_op("sum")(wildcard()).has_attr(nothing=1), call("sum", [X]), False),
        (wildcard().has_attr(axis=1), X, False),
        (is_op("exp")(wildcard()) | is_op("log")(wildcard()), call("log", [X]), True),
        (is_var().where(lambda node: node.name_hint > "x"), Y, True),
        (is_var().where(lambda node: node.name_hint > "x"), X, False),
    ],
)
def test_what_matches(pattern: relay.patterns.Pattern, expr: relay.Expr, matches: bool) -> None:
    assert (match(pattern, expr) is not None) == matches


def test_types_shapes_and_dtypes() -> None:
    body = module_of(call("sum", [X], axis=(1,), keepdims=True)).functions["main"].body
    assert match(wildcard().has_shape((2, 1)), body)
    assert match(wildcard().has_shape((None, 1)), body)
    assert not match(wildcard().has_shape((2,)), body)
    assert not match(wildcard().has_shape((2, 3)), body)
    assert match(wildcard().has_dtype("float32"), body)
    assert not match(wildcard().has_dtype("float64"), body)
    assert match(wildcard().has_type(relay.TensorType((2, 1), "float32")), body)
    assert not match(wildcard().has_type(relay.TensorType((2, 2), "float32")), body)


def test_a_pattern_in_two_places_stands_for_one_node() -> None:
    x = wildcard()
    assert match(x - x, call("subtract", [X, X]))
    assert not match(x - x, call("subtract", [X, Y]))


def test_operands_that_commute_match_in_either_order() -> None:
    exp, other = is_op("exp")(wildcard()), wildcard()
    for args in ([call("exp", [X]), Y], [Y, call("exp", [X])]):
        found = match(exp + other, call("add", args))
        assert found is not None
        assert found[other] is Y
    assert not match(exp - other, call("subtract", [Y, call("exp", [X])]))


def test_matching_goes_back_to_an_earlier_choice() -> None:
    """The first order of the inner addition fits it, and not what stands around."""
    a, b = wildcard(), wildcard()
    found = match((a + b) * a, call("multiply", [call("add", [X, Y]), Y]))
    assert found is not None
    assert (found[a], found[b]) == (Y, X)


def test_optional_parts_say_whether_they_were_there() -> None:
    total = is_op("add")(wildcard(), wildcard())
    relu = is_op("nn.relu")(total)
    pattern = relu | total
    alone, around = call("add", [X, Y]), call("nn.relu", [call("add", [X, Y])])
    found_alone, found_around = match(pattern, alone), match(pattern, around)
    assert found_alone is not None
    assert found_around is not None
    assert (relu in found_alone, relu in found_around) == (False, True)
    with pytest.raises(KeyError, match="matched nothing"):
        _ = found_alone[relu]
    assert match(total.optional(is_op("nn.relu")), around)
    assert match(total.optional(is_op("nn.relu")), alone)


def test_a_dominator_of_a_diamond() -> None:
    dense = call("nn.dense", [X, W])
    left, right = call("nn.relu", [dense]), call("exp", [dense])
    diamond = call("add", [left, right])
    source = is_op("nn.dense")(wildcard(), wildcard())
    unary = is_op("nn.relu", "exp")(wildcard())
    pattern = source.dominates(is_op("add")(wildcard(), wildcard()), unary)
    found = match(pattern, diamond)
    assert found is not None
    assert found[source] is dense
    assert {dense, left, right, diamond} <= found.covered
    beside = call("add", [call("nn.relu", [dense]), call("log", [W])])
    assert match(pattern, beside), "what does not depend on the parent may be anything"
    other_way = call("add", [call("nn.relu", [dense]), call("tanh", [dense])])
    assert not match(pattern, other_way), "a way through something else"
    assert not match(pattern, call("add", [X, call("exp", [X])])), "no parent"


def test_wrong_patterns_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no operator 'nn\.rellu'; did you mean nn\.relu"):
        is_op("nn.rellu")
    with pytest.raises(TypeError, match="is_expr"):
        is_op("exp")(X)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(TypeError, match="is_expr"):
        _ = wildcard() | 3  # type: ignore[operator]  # what is refused


@pytest.mark.full
def test_deep_programs_and_deep_patterns() -> None:
    body: relay.Expr = X
    pattern: relay.patterns.Pattern = is_var("x")
    for _ in range(20_000):
        body, pattern = call("exp", [body]), is_op("exp")(pattern)
    assert match(pattern, body)
    assert len(list(find(is_op("exp")(wildcard()), body))) == 20_000
    assert not match(is_op("log")(pattern), body)


# -- rewriting --------------------------------------------------------------------------------------------

x, y = wildcard(), wildcard()


@rule(is_op("exp")(is_op("log")(x)))
def exp_of_log(found: Match) -> relay.Expr:
    return found[x]


@rule(is_op("multiply")(x, is_constant(1)))
def times_one(found: Match) -> relay.Expr | None:
    return found[x] if found[x].checked_type == found.expr.checked_type else None


def test_rules_apply_until_none_does() -> None:
    body = call("exp", [call("multiply", [call("log", [call("add", [X, Y])]), constant(1.0)])])
    assert names(rewrite(module_of(body), exp_of_log, times_one)) == ["add"]


def test_a_rule_that_declines_changes_nothing() -> None:
    row = relay.Var("row", relay.TensorType((3,), "float32"))
    module = module_of(call("multiply", [row, constant(np.ones((2, 3), "float32"))]), row)
    assert rewrite(module, times_one) is module


def test_rules_that_never_settle_are_named() -> None:
    @rule(is_op("add")(x, y))
    def swap(found: Match) -> relay.Expr:
        return call("add", [found[y], found[x]])

    with pytest.raises(nnmagic.RelayError, match="swap"):
        rewrite(module_of(call("add", [X, Y])), swap, max_rounds=5)


def test_a_rule_that_doubles_the_program_is_named_before_it_fills_the_memory() -> None:
    @rule(is_op("nn.relu")(x))
    def again(found: Match) -> relay.Expr:
        return call("nn.relu", [found.expr])

    with pytest.raises(nnmagic.RelayError, match="the rule again still applies after 9 rounds"):
        rewrite(module_of(call("nn.relu", [X]), X), again)


def test_a_rule_must_give_an_expression() -> None:
    @rule(is_op("add")(x, y))
    def wrong(_: Match) -> relay.Expr:
        return 3  # type: ignore[return-value]  # what is refused

    with pytest.raises(TypeError, match="wrong gave"):
        rewrite(module_of(call("add", [X, Y])), wrong)
    with pytest.raises(TypeError, match=r"a rule is a function under @rule\(pattern\), not a function"):
        rewrite_pass(wrong.replacement)  # type: ignore[arg-type]  # what is refused


def test_a_rule_must_keep_the_type_even_where_the_program_stays_well_typed() -> None:
    @rule(is_op("nn.relu")(x))
    def total(found: Match) -> relay.Expr:
        return call("sum", [found[x]])

    wrong = r"the rule total replaced an expression of type Tensor\[\(2, 3\), float32\] by float32"
    with pytest.raises(nnmagic.RelayError, match=wrong):
        rewrite(module_of(call("add", [X, call("nn.relu", [X])]), X), total)
    with pytest.raises(nnmagic.RelayError, match=r"rewriting by total gave an ill-typed module: .*nn\.dense"):
        rewrite(module_of(call("nn.dense", [call("nn.relu", [X]), W]), X, W), total)


def test_sharing_is_kept() -> None:
    shared = call("exp", [call("log", [call("tanh", [X])])])
    new = rewrite(module_of(call("add", [shared, call("nn.relu", [shared])])), exp_of_log)
    assert names(new) == ["tanh", "nn.relu", "add"]


def test_a_rewrite_runs_as_a_pass_and_computes_what_numpy_does() -> None:
    rng = np.random.default_rng(0)
    values = rng.uniform(0.5, 2, (2, 3)).astype("float32")
    source = "def f(x: Tensor[(2, 3), f32]):\n    return exp(log(x)) * 1.0 + x"
    f = nnmagic.compile(source, passes=[rewrite_pass(exp_of_log, times_one)])
    assert isinstance(f, nnmagic.CompiledFunction)
    assert f.passes[0].name == "exp_of_log"
    np.testing.assert_array_equal(f(values), values + values)


def test_rewriting_a_deep_program() -> None:
    body: relay.Expr = X
    for _ in range(3_000):
        body = call("exp", [call("log", [body])])
    new = rewrite(module_of(body, X), exp_of_log)
    assert new.functions["main"].body is new.functions["main"].params[0]


# -- partitioning -----------------------------------------------------------------------------------------

LAYER = is_op("nn.relu")(is_op("nn.dense")(wildcard(), wildcard()))


def functions_in(module: relay.Module) -> list[relay.Function]:
    return [
        each[pattern].op  # type: ignore[union-attr]  # a call
        for pattern in [wildcard().where(lambda node: isinstance(node, relay.Call))]
        for each in find(pattern, module)
        if isinstance(each[pattern].op, relay.Function)  # type: ignore[union-attr]  # a call
    ]


def test_partition_puts_each_match_into_a_function() -> None:
    square = relay.Var("s", relay.TensorType((3, 3), "float32"))
    once = call("nn.relu", [call("nn.dense", [X, square])])
    twice = call("nn.relu", [call("nn.dense", [once, square])])
    module = module_of(call("exp", [twice]), X, square)
    new = partition(module, LAYER, attrs={"Composite": "my.layer"})
    made = functions_in(new)
    assert len(made) == 2
    assert all(each.attrs == {"Composite": "my.layer"} and len(each.params) == 2 for each in made)
    rng = np.random.default_rng(1)
    a, s = rng.normal(size=(2, 3)).astype("float32"), rng.normal(size=(3, 3)).astype("float32")
    expected = np.exp(np.maximum(np.maximum(a @ s.T, 0) @ s.T, 0))
    np.testing.assert_allclose(nnmagic.compile(new)(a, s), expected, rtol=1e-5)


def test_partition_leaves_a_match_whose_inside_is_used_elsewhere() -> None:
    dense = call("nn.dense", [X, W])
    module = module_of(call("add", [call("nn.relu", [dense]), dense]), X, W)
    assert partition(module, LAYER) is module


@pytest.mark.parametrize("attrs", [{"Compiler": "mine"}, {"Primitive": 1}])
def test_the_functions_of_another_compiler_are_left_alone(attrs: dict[str, object]) -> None:
    module = partition(module_of(call("nn.relu", [call("nn.dense", [X, W])]), X, W), LAYER, attrs=attrs)
    assert len(functions_in(module)) == 1
    assert not list(find(LAYER, module))
    assert partition(module, LAYER, attrs=attrs) is module
    assert rewrite(module, rule(is_op("nn.relu")(x))(lambda found: found[x])) is module


def test_partition_asks_the_check() -> None:
    module = module_of(call("nn.relu", [call("nn.dense", [X, W])]), X, W)
    assert partition(module, LAYER, check=lambda found: found.expr.span is not None) is module


def test_partition_by_a_dominator_takes_the_whole_diamond() -> None:
    dense = call("nn.dense", [X, W])
    body = call("add", [call("nn.relu", [dense]), call("multiply", [dense, constant(2.0)])])
    pattern = is_op("nn.dense")(wildcard(), wildcard()).dominates(
        is_op("add")(wildcard(), wildcard()),
        is_op("nn.relu")(wildcard()) | is_op("multiply")(wildcard(), is_constant()),
    )
    (made,) = functions_in(partition(module_of(body, X, W), pattern))
    assert sorted(names(relay.Module({"main": made}))) == ["add", "multiply", "nn.dense", "nn.relu"]
