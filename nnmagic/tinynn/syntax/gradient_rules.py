"""Rewrite functions that have gradient rules, as JAX writes them, to calls that name the rules."""

from __future__ import annotations

import ast as py
import copy
from collections.abc import Callable, Sequence

#: What gives a function its rule, and the decorators to which it belongs.
_DEFINITIONS = {"defvjp": "custom_vjp", "defjvp": "custom_jvp", "defjvps": "custom_jvp"}

#: Reports an error: a message, the node that is wrong, and a hint.
Refuse = Callable[[str, "py.expr | py.stmt", str], None]


def with_gradient_rules(statements: Sequence[py.stmt], refuse: Refuse) -> Sequence[py.stmt]:
    """Return statements in which functions under ``@custom_vjp`` and ``@custom_jvp`` call their rules.

    ``f.defvjp(forward, backward)`` becomes a part of ``f``: a call of ``custom_vjp(f_primal, forward,
    backward)``, where ``f_primal`` has the body of ``f``.
    """
    named = {
        stmt.name: stmt
        for stmt in statements
        if isinstance(stmt, py.FunctionDef) and _decorator(stmt) is not None
    }
    if not named:
        return statements
    rules: dict[str, tuple[str, list[py.expr], py.stmt]] = {}
    statements_: list[py.stmt] = []
    for statement in statements:
        definition = _definition(statement, named)
        if definition is None:
            statements_.append(statement)
            continue
        name, word, given = definition
        if name in rules:
            refuse(f"`{name}` has two gradient rules", statement, "remove one of them")
        rules[name] = (word, given, statement)
        if isinstance(statement, py.FunctionDef):
            statements_.append(_without_decorator(statement, statement.decorator_list[0]))
    return [
        _by_rule(stmt, rules.get(stmt.name), refuse)
        if isinstance(stmt, py.FunctionDef) and stmt is named.get(stmt.name)
        else stmt
        for stmt in statements_
    ]


def _decorator(function: py.FunctionDef) -> tuple[py.expr, py.expr, list[py.keyword]] | None:
    """Return the decorator that gives a function a rule, ``custom_vjp`` in it, and its keywords."""
    for decorator in function.decorator_list:
        called, keywords = _called(decorator)
        if _word(called) in _DEFINITIONS.values():
            return decorator, called, keywords
    return None


def is_of_rule(decorator: py.expr) -> bool:
    """Return whether a decorator gives a function a rule, or makes it one of a rule."""
    return _word(_called(decorator)[0]) in {*_DEFINITIONS, *_DEFINITIONS.values()}


def _called(decorator: py.expr) -> tuple[py.expr, list[py.keyword]]:
    """Return what a decorator calls, also by way of ``partial``, and the keywords."""
    if not isinstance(decorator, py.Call):
        return decorator, []
    called = decorator.func
    if _word(called) == "partial" and len(decorator.args) == 1:
        (called,) = decorator.args
    return called, decorator.keywords


def _word(expr: py.expr) -> str:
    return py.unparse(expr).rpartition(".")[2]


def _definition(
    statement: py.stmt, named: dict[str, py.FunctionDef]
) -> tuple[str, str, list[py.expr]] | None:
    """Return the function that a statement gives a rule, the word by which, and the functions of the rule."""
    match statement:
        case py.Expr(value=py.Call(func=py.Attribute(value=py.Name(id=name), attr=word), args=args)):
            pass
        case py.FunctionDef(decorator_list=[py.Attribute(value=py.Name(id=name), attr=word)]):
            args = [py.copy_location(py.Name(statement.name, py.Load()), statement.decorator_list[0])]
        case _:
            return None
    return (name, word, args) if name in named and word in _DEFINITIONS else None


def _by_rule(
    function: py.FunctionDef, rule: tuple[str, list[py.expr], py.stmt] | None, refuse: Refuse
) -> py.FunctionDef:
    """Return a function that calls the one with its body by way of its rule."""
    decoration = _decorator(function)
    assert decoration is not None
    decorator, custom, keywords = decoration
    plain, kind = _without_decorator(function, decorator), _word(custom)
    name, args = function.name, function.args
    if rule is None or _DEFINITIONS[rule[0]] != kind:
        hint = f"write {name}.defvjp(forward, backward)"
        if kind == "custom_jvp":
            hint = f"write {name}.defjvp(tangent), with a function of (primals, tangents)"
        refuse(f"`{name}` is decorated with {kind}, and has no such rule", decorator, hint)
        return plain
    word, given, place = rule
    nodes = [node for each in (custom, *given) for node in py.walk(each)]
    own = {node.arg for node in nodes if isinstance(node, py.arg)}
    hidden = {arg.arg for arg in py.walk(args) if isinstance(arg, py.arg)} - own
    for node in nodes:
        if isinstance(node, py.Name) and node.id in hidden:
            refuse(f"`{node.id}` is a parameter of `{name}`, too", place, "give one of them another name")
            return plain
    if args.vararg or args.kwarg:
        refuse(f"`{name}` has a gradient rule, and takes any number of arguments", decorator, "name them")
        return plain
    if word == "defjvps":
        given = [py.Tuple(given, py.Load())]
        keywords = [*keywords, py.keyword("each", py.Constant(value=True))]
    positional = [py.arg(arg.arg) for arg in (*args.posonlyargs, *args.args)]
    by_name = [py.arg(arg.arg) for arg in args.kwonlyargs]
    has_text = py.get_docstring(function, clean=False) is not None
    primal = py.FunctionDef(
        f"{name}_primal",
        py.arguments([], positional, None, by_name, [None] * len(by_name), None, []),
        function.body[1:] if has_text else function.body,
        [],
    )
    ruled = py.Call(custom, [py.Name(primal.name, py.Load()), *given], keywords)
    values: list[py.expr] = [py.Name(arg.arg, py.Load()) for arg in positional]
    named = [py.keyword(arg.arg, py.Name(arg.arg, py.Load())) for arg in by_name]
    plain.body = [*function.body[:has_text], primal, py.Return(py.Call(ruled, values, named))]
    for node in (primal, plain.body[-1]):
        py.copy_location(node, function)
        py.fix_missing_locations(node)
    py.copy_location(ruled, place if isinstance(place, py.Expr) else decorator)
    return plain


def _without_decorator(function: py.FunctionDef, decorator: py.expr) -> py.FunctionDef:
    plain = copy.copy(function)
    plain.decorator_list = [each for each in function.decorator_list if each is not decorator]
    return plain
