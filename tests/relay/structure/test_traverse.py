"""Walking and rewriting graphs, and the call graph: sharing, depth, and order against a plain definition."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnmagic.relay.expr import (
    Call,
    Clause,
    Constant,
    Constructor,
    Function,
    GlobalVar,
    Let,
    Match,
    OpRef,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    Tuple,
    Var,
    constant,
)
from nnmagic.relay.module import Module
from nnmagic.relay.structure.callgraph import call_graph, components, recursive_functions
from nnmagic.relay.structure.traverse import binders, post_order, rewrite, rewrite_module
from nnmagic.relay.types import GlobalTypeVar


def test_each_node_comes_once_and_after_its_parts():
    x = Var("x")
    shared = Call(OpRef("exp"), (x,))
    top = Call(OpRef("add"), (shared, Tuple((shared, x))))
    order = list(post_order(top))
    assert len(order) == len(set(order)) == 6
    assert order[-1] is top
    assert order.index(x) < order.index(shared) < order.index(top.args[1])


def test_rewriting_changes_a_shared_node_once_and_leaves_the_rest_alone():
    one, x = constant(1.0), Var("x")
    untouched = Call(OpRef("exp"), (x,))
    shared = Call(OpRef("negative"), (one,))
    top = Tuple((untouched, shared, shared))
    new = rewrite(top, lambda _old, new: constant(2.0) if isinstance(new, Constant) else new)
    assert new.fields[0] is untouched
    assert new.fields[1] is new.fields[2]
    assert new.fields[1].args[0].data == 2.0
    assert top.fields[1].args[0] is one


def test_rewriting_a_variable_changes_its_binders_and_its_uses_alike():
    box = Constructor("Box", (), GlobalTypeVar("Box"), 0)
    p, v, q, unused = Var("p"), Var("v"), Var("q"), Var("unused")
    pattern = PatternTuple((PatternConstructor(box, (PatternVar(q),)), PatternWildcard(), PatternVar(unused)))
    function = Function((p,), Let(v, p, Match(v, (Clause(pattern, q),))))

    def rename(_old, new):
        return replace(new, name_hint=new.name_hint.upper()) if isinstance(new, Var) else new

    new = rewrite(function, rename)
    let = new.body
    assert new.params[0] is let.value
    assert let.var is let.body.data
    bound = binders(let.body)
    assert bound[0] is let.body.clauses[0].rhs
    assert [var.name_hint for var in (*new.params, let.var, *bound)] == ["P", "V", "Q", "UNUSED"]


def test_functions_of_a_module_go_on_sharing():
    table = constant(1.0)
    module = Module({"f": Function((), table), "g": Function((), Tuple((table,)))})
    new = rewrite_module(module, lambda _old, new: replace(new) if isinstance(new, Constant) else new)
    assert new.functions["f"].body is new.functions["g"].body.fields[0]
    assert new.functions["f"].body is not table


@pytest.mark.full
def test_depth_is_no_limit():
    e = x = Var("x")
    for _ in range(100_000):
        e = Call(OpRef("exp"), (e,))
    new = rewrite(e, lambda _old, new: Var("y") if new is x else new)
    assert sum(1 for _ in post_order(new)) == sum(1 for _ in post_order(e))


GRAPHS = st.integers(1, 8).flatmap(
    lambda size: st.lists(st.lists(st.integers(0, size - 1), max_size=3), min_size=size, max_size=size)
)


@given(GRAPHS)
def test_groups_are_those_that_reach_one_another_callees_first(edges):
    functions = {
        f"f{i}": Function((), Tuple(tuple(Call(GlobalVar(f"f{j}"), ()) for j in callees)))
        for i, callees in enumerate(edges)
    }
    graph = call_graph(Module(functions))
    assert graph == {
        f"f{i}": tuple(dict.fromkeys(f"f{j}" for j in callees)) for i, callees in enumerate(edges)
    }
    reach = {name: set(callees) for name, callees in graph.items()}
    for middle in graph:  # Warshall
        for reached in reach.values():
            if middle in reached:
                reached |= reach[middle]  # noqa: PLW2901  changed in place
    groups = components(graph)
    group_index = {name: i for i, group in enumerate(groups) for name in group}
    assert sorted(group_index) == sorted(graph)
    for name in graph:
        for other in graph:
            together = name == other or (other in reach[name] and name in reach[other])
            assert (group_index[name] == group_index[other]) == together
            if other in reach[name]:
                assert group_index[other] <= group_index[name]
    assert recursive_functions(graph) == {name for name in graph if name in reach[name]}
