"""Rewrite what makes a text of values, such as ``"x is %g" % x``, as a formatted string."""

from __future__ import annotations

import ast as py
import re
import string
from collections.abc import Sequence

#: A place of a text for ``%``: flags, width, precision and kind.
_PLACE = re.compile(r"%(?P<spec>[-+ 0]*\d*(?:\.\d+)?)(?P<kind>[sdifFeEgGr%])")


def to_formatted_string(expr: py.expr) -> py.expr:
    """Return a formatted string for an expression that makes a text; any other expression as it is."""
    parts = _parts(expr)
    if parts is None or isinstance(expr, py.JoinedStr | py.Constant):
        return expr
    return py.fix_missing_locations(py.copy_location(py.JoinedStr(list(parts)), expr))


def _parts(expr: py.expr) -> Sequence[py.expr] | None:
    """Return the parts of a formatted string; None where an expression is not known to be a text."""
    match expr:
        case py.JoinedStr(values=values):
            return values
        case py.Constant(value=str()):
            return [expr]
        case py.Call(func=py.Name(id="str" | "repr" as name), args=[value], keywords=[]):
            return [_value(value, "r" if name == "repr" else "")]
        case py.BinOp(left=lhs, op=py.Add(), right=rhs):
            first, second = _parts(lhs), _parts(rhs)
            return None if first is None or second is None else [*first, *second]
        case py.BinOp(left=py.Constant(value=str(text)), op=py.Mod(), right=rhs):
            return _of_percent(text, rhs.elts if isinstance(rhs, py.Tuple) else [rhs])
        case py.Call(
            func=py.Attribute(value=py.Constant(value=str(text)), attr="format"), args=args, keywords=keywords
        ):
            return _of_format(text, args, keywords)
    return None


def _value(value: py.expr, conversion: str = "", spec: str = "") -> py.FormattedValue:
    inner = py.JoinedStr([py.Constant(spec)]) if spec else None
    return py.FormattedValue(value, ord(conversion) if conversion else -1, inner)


def _of_percent(text: str, values: Sequence[py.expr]) -> Sequence[py.expr] | None:
    nodes, remaining, end = list[py.expr](), list(values), 0
    for place in _PLACE.finditer(text):
        nodes.append(py.Constant(text[end : place.start()]))
        end, kind, spec = place.end(), place["kind"], place["spec"]
        if kind == "%":
            nodes.append(py.Constant("%"))
        elif not remaining:
            return None
        elif kind in "sr":
            if spec:
                return None
            nodes.append(_value(remaining.pop(0), kind))
        else:
            alignment = "<" if "-" in spec else ""
            nodes.append(
                _value(remaining.pop(0), "", alignment + spec.replace("-", "") + kind.replace("i", "d"))
            )
    nodes.append(py.Constant(text[end:]))
    return None if remaining or "%" in _PLACE.sub("", text) else nodes


def _of_format(
    text: str, args: Sequence[py.expr], keywords: Sequence[py.keyword]
) -> Sequence[py.expr] | None:
    texts, named, number = list[py.expr](), {keyword.arg: keyword.value for keyword in keywords}, 0
    try:
        pieces = list(string.Formatter().parse(text))
    except ValueError:
        return None
    for literal, name, spec, conversion in pieces:
        texts.append(py.Constant(literal))
        if name is None:
            continue
        key = name or str(number)
        number += not name
        if key.isdigit() and int(key) < len(args):
            value = args[int(key)]
        elif key in named:
            value = named[key]
        else:
            return None
        if "{" in (spec or ""):
            return None
        texts.append(_value(value, conversion or "", spec or ""))
    return texts
