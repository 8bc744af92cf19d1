"""Compile the patterns of a ``match``; unsupported patterns are refused in place."""

from __future__ import annotations

import ast as py

from synr import ast

from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.syntax.expressions import ExpressionCompiler


class PatternCompiler(ExpressionCompiler):
    """Compiler of patterns."""

    def compile_pattern(self, pattern: py.pattern) -> ast.Node:
        """Compile one pattern."""
        span = self.spans.of(pattern)
        match pattern:
            case py.MatchValue(value=value):
                return tree.ValuePattern(span, self.compile_expr(value))
            case py.MatchSingleton(value=constant):
                return tree.ValuePattern(span, ast.Constant(span, constant))
            case py.MatchAs(pattern=inner, name=name):
                return tree.CapturePattern(span, name, None if inner is None else self.compile_pattern(inner))
            case py.MatchStar(name=name):
                return tree.StarPattern(span, name)
            case py.MatchSequence(patterns=parts):
                return tree.SequencePattern(span, [self.compile_pattern(subpattern) for subpattern in parts])
            case py.MatchOr(patterns=parts):
                return tree.OrPattern(span, [self.compile_pattern(subpattern) for subpattern in parts])
            case py.MatchClass(cls=callee, patterns=parts, kwd_attrs=names, kwd_patterns=named):
                return tree.ConstructorPattern(
                    span,
                    self.compile_expr(callee),
                    [self.compile_pattern(subpattern) for subpattern in parts],
                    {
                        name: self.compile_pattern(subpattern)
                        for name, subpattern in zip(names, named, strict=True)
                    },
                )
        self.refuse("a dictionary pattern is not part of TinyNN", span, "match a constructor or a tuple")
        return tree.InvalidPattern(span, find_bound_names(pattern))


def find_bound_names(node: py.AST) -> list[str]:
    """Return every name that a piece of Python binds, supported or not."""
    names: list[str] = []
    for part in py.walk(node):
        match part:
            case py.Name(id=name, ctx=py.Store() | py.Del()):
                names.append(name)
            case py.FunctionDef(name=name) | py.AsyncFunctionDef(name=name) | py.ClassDef(name=name):
                names.append(name)
            case py.alias(name=name, asname=other):
                names.append(other or name.split(".")[0])
            case py.ExceptHandler(name=str() as name) | py.MatchAs(name=str() as name):
                names.append(name)
            case py.MatchStar(name=str() as name) | py.MatchMapping(rest=str() as name):
                names.append(name)
            case py.Global(names=several) | py.Nonlocal(names=several):
                names += several
    return names
