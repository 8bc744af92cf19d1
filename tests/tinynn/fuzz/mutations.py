"""Sources that nobody wrote: a cell changed at random, as a tree, as words and as characters.

Everything follows from the random generator that is given: the same seed, the same sources.
"""

# ruff: noqa: E501  # tables read best on few lines

from __future__ import annotations

import ast
import copy
import random
import re
import warnings
from collections.abc import Callable, Sequence

#: Expressions that replace others; `_` is filled with an expression of the cell.
_FRAGMENTS = """
_ if _ else _; _ and _; _ or _; not _; _ < _ < _; (lambda a: _)(_); lambda: _; (q := _); [_, _]; (_, _); (); []; _[_];
_[_:_]; _[::_]; _[..., _]; _[None]; _(_); _(_, _); _(*_); _(a=_); _.shape; _.shape[0]; _.T; _.sum(); _.reshape(_);
_.reshape(-1); _.astype(_); _ @ _; _ ** _; _ // _; _ << _; ~_; -_; 0; -1; 1e400; 10 ** 30; 2 ** 63; 'text'; None; True; ...;
f32; Tensor; Tensor[(_,), f32]; Tensor[_, _]; nn; nn.relu; relu; relay; x.nothing; unknown; range(_); len(_); max(_, _);
sum(_, axis=_); concatenate([_, _]); where(_, _, _); einsum('ij->ji', _); split(_, 2); arange(_); softmax(_, axis=_);
zeros(_, f32); full(_, _, f32); conv2d(_, _); [a for a in _]; {_: _}; {_}; f'{_}'; (yield _); _ in _; _ is _; *_,; 1j; b'';
zip(_, _); enumerate(_); int(_); f; f(_); abs(_); round(_); print(_); slice(_); tuple[_]; Callable[[_], _]; nan; inf;
take(_, _, axis=0); stack([_, _], axis=_); x; y; pad(_, ((_, _),)); topk(_, k=_); one_hot(_, _, _, _, _, f32); squeeze(_);
grad(_)(_); grad(lambda v: (v * _).sum())(_); value_and_grad(_, argnums=_)(_); vjp(_, _)[1](_); jvp(_, (_,), (_,));
vmap(_)(_); vmap(lambda v: _, in_axes=_)(_); jacobian(_)(_); hessian(lambda v: _)(_); checkpoint(_)(_); tree_map(_, _, _);
custom_vjp(_, _, _)(_); custom_vjp(lambda v: v, lambda v: (_, _), lambda r, d: (_,))(_); custom_jvp(_, lambda p, t: (_, _))(_);
scan(lambda c, v: (_, _), _, _); scan(_, _, length=_); 2 - 1j; _.real; _.conj(); complex(_, _); c64; c128; angle(_);
np.fft.fft(_); np.fft.irfft(_, _); fft2(_, axes=_); fftshift(_); random.key(_); random.split(_); random.normal(_, _);
random.integers(_, _, _, _); random.permutation(random.key(_), _); random.choice(_, _, p=_); solve(_, _); inv(_ @ _.mT);
svd(_)[1]; eigh(_); cholesky(_); lstsq(_, _); matrix_power(_, _); insert(_, _, _); partition(_, _); argpartition(_, _);
sliding_window_view(_, _); [_ for a in _ if _]; _.copy(); _.append(_); parallel(_); grid(_, _); tiled(_, _); unrolled(_);
InOut[Tensor[_, f32]]; Out[Tensor[(_,), f64]]; Tensor[..., f32]; Tensor[(_, _)]; P(_, _); _.w; bincount(_); convolve(_, _)
"""
_EXPRESSIONS = [text.strip() for text in _FRAGMENTS.replace("\n", " ").split(";") if text.strip()]

#: Statements that are put between others.
_STATEMENTS = r"""
if _: pass
if _:\n    x = _\nelse:\n    y = _
if _: return _
for i in _: x = _
for i in range(_):\n    x = _\n    if _: break
for a, b in _: pass
while _: x = _
while _:\n    continue
x, y = _
(x, *y), z = _, _
x = y = _
x += _
x @= _
x: Tensor[(2, 3), f32] = _
assert _, 'text'
assert _
return _
return
pass
break
continue
def g(a: f32, b=_): return _
def g(a):\n    return g(_)
class A:\n    def B(a: f32): ...\n    def C(): ...
match _:\n    case 0: return _\n    case (a, b): return _\n    case A.B(a) if _: x = a\n    case _: pass
match _:\n    case [a, *b]: x = a\n    case 'text' | None: pass\n    case {'k': v}: pass
import numpy as np
global x
nonlocal x
del x
with _ as y: pass
try: pass\nexcept Exception: pass
raise _
x[_] = _
x[_, _] += _
x[_:_] = _
x[x > _] = _
x[_][_] *= _
y = zeros_like(_)\nfor i in range(len(y)):\n    y[i] = _
y = _.copy()\nfor i in parallel(_):\n    for j in range(_):\n        y[i, j] = _
y = zeros((3, 3))\nfor i, j in grid(_, _):\n    y[i, j] += _
y = 0\nfor i in parallel(_):\n    y += _
y = []\nfor a in _:\n    y.append(_)
y = [_]\nfor i in range(_):\n    if _: y.append(y[-1] + _)
x, y = y, x
class P:\n    w: Tensor[(2, 3), f32]\n    b: f32
def g(a, b: Tensor[..., f32], c=_):\n    return _
def g(a: InOut[Tensor[('n',), f32]], b: Out[Tensor[('n',), f32]]):\n    a[_] = _\n    b[_] = _
@kernel\ndef g(a: Tensor[('n',), f32], b: Out[Tensor[('n',), f32]]):\n    for i in range(len(a)):\n        b[i] = _
def g(a: Tensor[('n',), f32], k: i64) -> Tensor[('n',), f32]:\n    return a if k <= 0 else g(_, k - 1) + _
x.y = _
_
@_\ndef g(x: f32): return x
async def g(x: f32): pass
type X = _
""".strip().split("\n")

_WORDS = [
    *[
        "if",
        "else",
        "elif",
        "for",
        "while",
        "match",
        "case",
        "def",
        "class",
        "return",
        "lambda",
        "and",
        "or",
        "not",
        "in",
        "is",
        "None",
        "True",
        "False",
        "pass",
        "break",
    ],
    *[
        "continue",
        "assert",
        "x",
        "y",
        "f",
        "n",
        "i",
        "self",
        "range",
        "len",
        "relu",
        "nn",
        "relay",
        "Tensor",
        "f32",
        "i64",
        "shape",
        "sum",
        ":=",
        "->",
        "**",
        "//",
        "@",
        "==",
        "<=",
        "...",
    ],
    *[
        "*",
        "&",
        "|",
        "^",
        "~",
        "<<",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        ";",
        ".",
        "=",
        "+=",
        "0",
        "1",
        "-1",
        "2.5",
        "1e400",
        "0x",
        "'a'",
        '"n"',
        "\\",
        "#",
    ],
    *("\n", "\n    ", "\t"),
]
_CHARACTERS = "()[]{}:,.=+-*/@'\"\\\n\t #_09axé变🎉\0\u2028\r\x0c\ud800"


def mutate(rng: random.Random, corpus: Sequence[str]) -> str:
    """A source of the corpus after one to four changes."""
    text = rng.choice(corpus)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 3))):
        change = rng.choices((_of_tree, _of_words, _of_characters, _of_lines), (20, 2, 1, 1))[0]
        text = change(rng, text, corpus)
    return text


def parse(text: str) -> ast.Module | None:
    """The tree, or None where Python reads no source in the text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


# -- characters, words, lines ------------------------------------------------------------------------------


def _of_characters(rng: random.Random, text: str, corpus: Sequence[str]) -> str:
    at = rng.randrange(len(text) + 1)
    match rng.randrange(4):
        case 0:
            return text[:at] + rng.choice(_CHARACTERS) + text[at:]
        case 1:
            return text[:at] + text[at + rng.choice((1, 1, 2, 8)) :]
        case 2:
            return text[:at] + rng.choice(_CHARACTERS) + text[at + 1 :]
    to = min(len(text), at + rng.randrange(1, 12))
    return text[:to] + text[at:to] + text[to:]


def _of_words(rng: random.Random, text: str, corpus: Sequence[str]) -> str:
    words = re.findall(r"\w+|[^\w\s]+|\s+", text)
    if not words:
        return rng.choice(_WORDS)
    at, other = rng.randrange(len(words)), rng.randrange(len(words))
    match rng.randrange(5):
        case 0:
            words[at] = rng.choice(_WORDS)
        case 1:
            del words[at]
        case 2:
            words[at], words[other] = words[other], words[at]
        case 3:
            words.insert(at, words[other])
        case 4:
            words.insert(at, rng.choice(_WORDS))
    return "".join(words)


def _of_lines(rng: random.Random, text: str, corpus: Sequence[str]) -> str:
    lines = text.split("\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[other])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            lines[at] = "    " + lines[at]
        case 4:
            lines.insert(at, rng.choice(rng.choice(corpus).split("\n")))
    return "\n".join(lines)


# -- trees -------------------------------------------------------------------------------------------------


def _of_tree(rng: random.Random, text: str, corpus: Sequence[str]) -> str:
    tree = parse(text)
    if tree is None:
        return _of_words(rng, text, corpus)
    rng.choice(_TREE_CHANGES)(rng, tree, corpus)
    try:
        return ast.unparse(ast.fix_missing_locations(tree))
    except (ValueError, AttributeError, TypeError, RecursionError):  # a tree that has no text
        return _of_words(rng, text, corpus)


def _expression_slots(tree: ast.AST) -> list[tuple[ast.AST, str, int | None]]:
    """Every field that holds an expression which is read: (node, field, index in a list)."""
    slots: list[tuple[ast.AST, str, int | None]] = []
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.expr) and not isinstance(getattr(value, "ctx", None), ast.Store):
                slots.append((node, field, None))
            elif isinstance(value, list):
                slots += [
                    (node, field, index)
                    for index, item in enumerate(value)
                    if isinstance(item, ast.expr) and not isinstance(getattr(item, "ctx", None), ast.Store)
                ]
    return slots


def _get(slot: tuple[ast.AST, str, int | None]) -> ast.expr:
    node, field, index = slot
    value = getattr(node, field)
    return value if index is None else value[index]


def _set(slot: tuple[ast.AST, str, int | None], new: ast.expr) -> None:
    node, field, index = slot
    if index is None:
        setattr(node, field, new)
    else:
        getattr(node, field)[index] = new


def _fill_gaps(rng: random.Random, fragment: str, tree: ast.AST) -> str:
    """The fragment with expressions of the tree in its gaps."""
    slots = _expression_slots(tree)

    def expression(_found: re.Match[str]) -> str:
        if not slots or rng.random() < 0.3:
            return rng.choice(("x", "y", "0", "1", "2.5", "x.sum()", "x.shape[0]", "n", "f"))
        written = ast.unparse(_get(rng.choice(slots)))
        return f"({written})" if len(written) < 60 and not written.startswith("*") else "x"

    return re.sub(r"(?<!\w)_(?!\w)", expression, fragment.replace(r"\n", "\n"))


def _replace_by_fragment(rng: random.Random, tree: ast.Module, corpus: Sequence[str]) -> None:
    slots = _expression_slots(tree)
    made = parse(_fill_gaps(rng, rng.choice(_EXPRESSIONS), tree))
    if slots and made is not None and isinstance(made.body[0], ast.Expr):
        _set(rng.choice(slots), made.body[0].value)


def _swap_expressions(rng: random.Random, tree: ast.Module, corpus: Sequence[str]) -> None:
    slots = _expression_slots(tree)
    if len(slots) > 1:
        one, other = rng.choice(slots), rng.choice(slots)
        first, second = copy.deepcopy(_get(one)), copy.deepcopy(_get(other))
        _set(one, second)
        _set(other, first)


def _take_from_another(rng: random.Random, tree: ast.Module, corpus: Sequence[str]) -> None:
    other = parse(rng.choice(corpus))
    if other is None:
        return
    slots, sources = _expression_slots(tree), _expression_slots(other)
    if slots and sources:
        _set(rng.choice(slots), copy.deepcopy(_get(rng.choice(sources))))


def _blocks(tree: ast.AST) -> list[list[ast.stmt]]:
    blocks = []
    for node in ast.walk(tree):
        for field in ("body", "orelse"):
            value = getattr(node, field, None)
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                blocks.append(value)
    return blocks


def _change_statements(rng: random.Random, tree: ast.Module, corpus: Sequence[str]) -> None:
    block = rng.choice(_blocks(tree) or [tree.body])
    at = rng.randrange(len(block)) if block else 0
    match rng.randrange(6):
        case 0 if len(block) > 1:
            del block[at]
        case 1 if block:
            block.insert(at, copy.deepcopy(block[at]))
        case 2 if len(block) > 1:
            other = rng.randrange(len(block))
            block[at], block[other] = block[other], block[at]
        case 3:
            other_tree = parse(rng.choice(corpus))
            blocks = _blocks(other_tree) if other_tree is not None else []
            if blocks:
                block.insert(at, copy.deepcopy(rng.choice(rng.choice(blocks))))
        case _:
            made = parse(_fill_gaps(rng, rng.choice(_STATEMENTS), tree))
            if made is not None:
                block[at:at] = made.body


def _wrap_statements(rng: random.Random, tree: ast.Module, corpus: Sequence[str]) -> None:
    """Some statements of a block into a branch, a loop or a function."""
    block = rng.choice(_blocks(tree) or [tree.body])
    begin = rng.randrange(len(block) + 1)
    end = min(len(block), begin + rng.randrange(1, 4))
    heads = (
        "if _:",
        "for i in range(3):",
        "for row in _:",
        "while _:",
        "def g(a: f32):",
        "if _: pass\nelse:",
    )
    made = parse(_fill_gaps(rng, rng.choice(heads), tree) + "\n    pass")
    if made is None or begin == end:
        return
    inner = _blocks(made.body[-1])[-1]
    inner[:] = block[begin:end]
    block[begin:end] = made.body


def _rename(rng: random.Random, tree: ast.Module, corpus: Sequence[str]) -> None:
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    arguments = [node for node in ast.walk(tree) if isinstance(node, ast.arg)]
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    pool = (
        [node.id for node in names] + [node.arg for node in arguments] + ["f", "nn", "é", "_", "relu", "sum"]
    )
    if names and rng.random() < 0.6:
        rng.choice(names).id = rng.choice(pool)
    elif arguments and rng.random() < 0.5:
        rng.choice(arguments).arg = rng.choice(pool)
    elif attributes:
        rng.choice(attributes).attr = rng.choice(
            ("shape", "T", "sum", "dtype", "ndim", "nothing", "relu", "__class__")
        )


def _change_constants(rng: random.Random, tree: ast.Module, corpus: Sequence[str]) -> None:
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    values = (
        0,
        1,
        -1,
        2,
        7,
        2**31,
        2**63,
        -(2**63),
        10**40,
        0.5,
        -0.0,
        1e308,
        "",
        "n",
        "2*n",
        None,
        True,
        ...,
        1j,
        b"",
    )
    if constants:
        rng.choice(constants).value = rng.choice(values)


def _change_operators(rng: random.Random, tree: ast.Module, corpus: Sequence[str]) -> None:
    nodes = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp | ast.AugAssign | ast.UnaryOp | ast.Compare)
    ]
    if not nodes:
        return
    node = rng.choice(nodes)
    match node:
        case ast.BinOp() | ast.AugAssign():
            node.op = rng.choice(ast.operator.__subclasses__())()
        case ast.UnaryOp():
            node.op = rng.choice(ast.unaryop.__subclasses__())()
        case ast.Compare():
            node.ops[0] = rng.choice(ast.cmpop.__subclasses__())()


def _change_calls(rng: random.Random, tree: ast.Module, corpus: Sequence[str]) -> None:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if not calls:
        return _replace_by_fragment(rng, tree, corpus)
    call = rng.choice(calls)
    match rng.randrange(5):
        case 0 if call.args:
            call.args.pop(rng.randrange(len(call.args)))
        case 1 if call.args:
            call.args.append(copy.deepcopy(rng.choice(call.args)))
        case 2 if call.keywords:
            call.keywords.pop()
        case 3 if call.args:
            at = rng.randrange(len(call.args))
            call.args[at] = ast.Starred(call.args[at], ast.Load())
        case _:
            name = rng.choice(("axis", "x", "data", "dtype", "nothing", "keepdims", None))
            call.keywords.append(ast.keyword(name, ast.Constant(rng.choice((0, 1, -1, None, True, "a")))))
    return None


def _change_definitions(rng: random.Random, tree: ast.Module, corpus: Sequence[str]) -> None:
    definitions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    if not definitions:
        return
    definition = rng.choice(definitions)
    arguments = definition.args
    match rng.randrange(7):
        case 0 if arguments.args:
            arguments.args.pop(rng.randrange(len(arguments.args)))
            del arguments.defaults[len(arguments.args) :]
        case 1 if arguments.args:
            arguments.args.append(copy.deepcopy(rng.choice(arguments.args)))
        case 2 if arguments.args:
            arguments.defaults = [ast.Constant(rng.choice((1, 2.5, None, "a")))]
        case 3 if arguments.args and not arguments.defaults:
            arguments.kwonlyargs.append(arguments.args.pop())
            arguments.kw_defaults.append(rng.choice((None, ast.Constant(1))))
        case 4 if arguments.args:
            definition.returns = copy.deepcopy(rng.choice(arguments.args).annotation)
        case 5:
            definition.name = rng.choice(("f", "g", "_f", "main", "relu", "x", "é"))
        case _:
            arguments.vararg = ast.arg("rest") if rng.random() < 0.5 else None
            other = parse(rng.choice(corpus))
            if other is not None:
                tree.body += other.body


_TREE_CHANGES: tuple[Callable[[random.Random, ast.Module, Sequence[str]], None], ...] = (
    _replace_by_fragment,
    _replace_by_fragment,
    _replace_by_fragment,
    _take_from_another,
    _swap_expressions,
    _change_statements,
    _change_statements,
    _change_statements,
    _wrap_statements,
    _rename,
    _change_constants,
    _change_operators,
    _change_calls,
    _change_definitions,
)
