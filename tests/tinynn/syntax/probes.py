"""Pieces of Python syntax, most of which a cell does not take: statements, expressions, parameters, cells."""

from __future__ import annotations

#: Each stands as the body of a function before its ``return x``.
STATEMENTS = r"""
if x: y = x
if x:\n    y = x\nelif y:\n    y = 2\nelse:\n    y = 1
for i in range(3): x = x + i
for i, (j, *k) in x: pass
for i in x:\n    pass\nelse:\n    x = 1
while x: x = x - 1
while True:\n    break\nelse:\n    pass
with open(x) as f: pass
with a as b, c as (d, e): pass
try:\n    x = 1\nexcept ValueError as e:\n    x = 2\nfinally:\n    x = 3
try:\n    x = 1\nexcept* ValueError as e:\n    x = 2
raise ValueError(x)
raise x from y
import numpy
import numpy.linalg as la, os
from numpy import exp as e
from . import x
from numpy import *
global q
nonlocal q
del x
del x[0], x.y
assert x > 0
assert x, "text"
pass
break
continue
return
return x; y = x
yield x
x
x + 1
"text"
...
f(x)
print(x)
x.sum()
await x
async def g(): pass
async for i in x: pass
async with x as y: pass
def g(y): return y
def g(y: f32) -> f32:\n    return y
class A: pass
class A(B, metaclass=C):\n    x: int = 1\n    def f(self): pass
lambda: x
match x:\n    case 1: y = 2\n    case [a, *b]: y = 3\n    case _: y = 6
match x:\n    case {"k": v, **r}: y = 4\n    case A(z=1) | B(): y = 5
type X = int
type X[T] = list[T]
y = z = x
y = (z) = x
y, z = x, x
(y, z), w = (x, x), x
[y, z] = x, x
y, *z = x, x, x
*y, = x, x
*y, z = x
y, z = x
y, z, w = x, x
y, *z, *w = x, x, x
*y = x
x[0] = 1
x[:, 0] = y
x[...] += 1
x.y = 1
x.y += 1
f(x) = 1
1 = x
x + 1 = x
y: f32
y: f32 = x
y: Tensor[(2, 3), f32] = x
y: Tensor = x
y: list[int] = x
x.y: f32 = 1
(y): Tensor[(2, 3), f32] = x
y += 1
x += 1
x -= x; x *= 2; x /= 3; x //= 2; x %= 2; x **= 2
x @= x
x <<= 1
x &= 1; x |= 1; x ^= 1; x >>= 1
y = x if x else x
x = x; ; y = 1
y = (yield)
y = yield from x
y = await x
\ty = x
y = (x\n+ 1)
y = x \\n    + 1
y = (x # comment\n    + # other\n    1)
exec("x = 1")
__import__("os").system("true")
print("a", file=x)
""".strip("\n").split("\n")

#: Each stands in ``y = ...``.
EXPRESSIONS = r"""
x
x + x
x - 1
-x
+x
~x
not x
x and x
x or x or x
x < x
x < x < x
x == x != x
x in x
x not in x
x is x
x is not None
x if x else x
lambda a: a
lambda *a, **b: a
lambda a=1, /, b=2, *, c: a
(y := x)
(x + (y := x))
[i for i in x]
{i for i in x}
{i: j for i, j in x}
(i for i in x)
[i async for i in x]
sum(i for i in x)
{}
{**x}
{"a": x}
{x, x}
[]
[x, x]
[*x, x]
()
(x,)
(*x, x)
*x
x[0]
x[-1]
x[5]
x[0, 0]
x[0, 0, 0]
x[:]
x[1:]
x[:1]
x[::2]
x[::-1]
x[::0]
x[1:0]
x[5:9]
x[...]
x[..., 0]
x[..., ...]
x[None]
x[None, :, None]
x[:, :, :]
x[x]
x[x > 0]
x["a"]
x[1.5]
x[True]
x[[0, 1]]
x[(0, 1)]
x[0][0]
x[1:2, ::2]
x[x:x]
x["a":]
x[*x]
x.shape
x.shape[0] + x[0, 0]
x.shape[5]
x.T
x.nothing
x.shape.nothing
x.sum
x.sum()
x.sum(axis=1)
x.sum(1, 2, 3, 4, 5)
x.reshape(3, 2)
x.reshape(5)
x.reshape(-1, -1)
x.reshape()
x.reshape("a")
x.reshape(x)
x()
x(x)
f
f(x)
nn
nn.relu
nn.relu()
nn.relu(x)
nn.relu(x, x)
nn.relu(data=x)
nn.relu(dat=x)
nn.relu(x, data=x)
nn.relu(*x)
nn.relu(*[x])
nn.relu(**x)
nn.relu(x, x=x, x=x)
nn.relu(x for x in x)
nn.nothing(x)
relay.nn.relu(x)
nnmagic.relay.nn.relu(x)
nothing(x)
softmax(x, axis=9)
softmax(x, axis="a")
softmax(x, axis=x)
concatenate([x, x], axis=0)
concatenate(x)
concatenate([])
concatenate([x, 1, "a"])
concatenate([x, [x]])
zeros((2, -1), f32)
expand_dims(x, 0, 1 << 62)
split(x, 1 << 62)
full(1, (2, 3), dtype=1)
random.normal(x, (2, 3), out_dtype=7)
pad(x, 5)
f32(1)
f32("a")
f32
Tensor
Tensor[(2, 3), f32]
Tensor[x]
tuple[f32]
len(x)
len(1)
1
1.5
1 + 2
1 / 0
1 // 0
2 ** 100000000
1 << 100000000
10 ** 10 ** 10
(1, 2) * 1000000000
"a" * 1000000000
"a" + "b"
"a" "b"
b"a"
f"{x}"
f"{x!r:>{x}}"
1j
True
None
...
1_000
0x10
1e400
x + 1e400
x + 10 ** 18
x + 10 ** 19
x + None
x + "a"
x + ()
x + (1, 2)
x + f
x + nn.relu
x + f32
x @ x
x @ 1
1 @ x
x ** 0.5
x ** x
x << 1
x & x
x & True
x % 0
x // 0
x / 0
- - - x
x.__class__
x.__class__.__mro__
().__class__.__bases__[0].__subclasses__()
print(x)
range(3)
int(x)
open("file")
(x)
(x
x)
x +
x x
$
x ? x : x
`x`
x <> x
0777
'text
é
\u2028x
x\x0c+ x
""".strip("\n").split("\n")

#: Each stands between the brackets of ``def f(...)``; the body returns x.
PARAMETERS = """
x
x: f32
x: f32, x: f32
x: f32 = 1
x: f32 = 1, y: f32
x: f32, /
x: f32, /, y: f32
*, x: f32
*x
*x: f32
**x
x: f32, *y, z, **w
*
x: int
x: float
x: "f32"
x: Tensor
x: Tensor[f32]
x: Tensor[(2, 3)]
x: Tensor[(2, 3), f32, f32]
x: Tensor[2, f32]
x: Tensor[(), f32]
x: Tensor[..., f32]
x: Tensor[(2, ...), f32]
x: Tensor[(2.5,), f32]
x: Tensor[(-1,), f32]
x: Tensor[(True,), f32]
x: Tensor[("n",), f32]
x: Tensor[("2*n",), f32]
x: Tensor[("n", m), f32]
x: Tensor[(2, 3), float32]
x: Tensor[(2, 3), "f32"]
x: Tensor[(2, 3), 4]
x: Tensor[[2, 3], f32]
x: Tensor[(2 + 1, 3 * 2), f32]
x: Tensor[(2, 1 / 0), f32]
x: Tensor[(2, 10 ** 30), f32]
x: Tensor[(lambda: 1, 2), f32]
x: Tensor((2, 3), f32)
x: Tensor[(2, 3), *f32]
x: Tensor[*()]
x: Tensor[*((2, 3), f32)]
x: Tensor[2:3, f32]
x: tuple[f32, f32]
x: tuple[f32, ...]
x: tuple[()]
x: tuple
x: Tuple[Tensor[(2,), f32], tuple[f32]]
x: list[f32]
x: (f32, f32)
x: f32 | None
x: Optional[f32]
x: None
x: 5
x: nothing
x: nn.relu
x: f
x: x
""".strip("\n").split("\n")

#: Whole cells.
CELLS = [
    "",
    " ",
    "\n\n",
    "# only a comment",
    '"""Only a docstring."""',
    "x = 1",
    "x: int = 1",
    "1 + 1",
    "import os",
    "from __future__ import annotations",
    "from __future__ import nothing",
    "from __future__ import annotations\ndef f(x: f32): return x",
    "def f(x: f32): return x\nf(1)",
    "def f(x: f32): return x\ndef f(x: f32): return x",
    "def f(x: f32): return g(x)\ndef g(x: f32): return x",
    "def f(x: f32): return g(x)\ndef g(x: f32): return f(x)",
    "def f(x: f32): return f(x)",
    "def f(x: f32) -> f32: return x",
    "def f(x: f32) -> f64: return x",
    "def f(x: f32) -> None: return x",
    'def f(x: f32) -> "f32": return x',
    "def f(x: f32) -> tuple[f32, f32]: return x, x",
    "def f(x: f32) -> tuple[f32, f32]: return x, 1",
    "def f(x: f32) -> tuple[f32, f64]: return x, x",
    "def f(): return 1",
    "def f(): return f32(1)",
    "def f(x: f32): pass",
    "def f(x: f32): ...",
    "def f(x: f32):",
    "def f(x: f32)\n    return x",
    "def f(x: f32):\nreturn x",
    "def f(x: f32):\n    return x\n  y = 1",
    "def f(x: f32):\n\treturn x\n        y = 1",
    "def f(x: f32):\n\ty = x\n\treturn y + é",
    "  def f(x: f32): return x",
    "def f[T](x: T): return x",
    "@decorator\ndef f(x: f32): return x",
    "@a.b(c)\n@d\ndef f(x: f32): return x",
    "async def f(x: f32): return x",
    "class A: pass",
    "class A:\n    def f(x: f32): return x",
    "lambda x: x",
    "return 1",
    "yield 1",
    "await x",
    "if True:\n    def f(x: f32): return x",
    "for i in range(3): pass",
    "while True: pass",
    "with x: pass",
    "try: pass\nfinally: pass",
    "match x:\n    case _: pass",
    "del x",
    "pass",
    "def é(ü: f32): return ü + nothing",
    "def f(x: f32): # é 🎉 comment\n    s = '🎉'; return nothing",
    "def f(x: f32):\r\n    y = x\r\n    return y + nothing\r\n",
    "def f(x: f32):\r    return nothing\r",
    "def f(x: f32): return x\0",
    "\ud800",
    "def f(x: f32): return '\ud800'",
    "def ﬁ(ﬁ: f32): return ﬁ",
    "def f(x: f32): return " + " + ".join(["x"] * 200),
    "def f(x: f32): return " + " + ".join(["x"] * 3000),
    "def f(x: f32): return " + "-" * 3000 + "x",
    "def f(x: f32): return " + "(" * 150 + "x" + ")" * 150,
    "def f(x: f32): return " + "(" * 1000 + "x" + ")" * 1000,
    "def f(x: f32): return " + "exp(" * 90 + "x" + ")" * 90,
    "def f(x: f32): return x" + ".exp()" * 2000,
    "def f(x: f32): return x" + "[None]" * 2000,
    "def f(x: f32): return " + "[" * 150 + "x" + "]" * 150,
    "def f(x: f32): return " + ", ".join(["x"] * 3000),
    "def f(x: f32):\n" + "".join(f"    {'if x:':>{5 + i}}\n" for i in range(90)) + " " * 100 + "pass",
    "def f(" + ", ".join(f"x{i}: f32" for i in range(500)) + "): return x499",
    "\n".join(f"def f{i}(x: f32): return f{i + 1}(x)" for i in range(1500)) + "\ndef f1500(x: f32): return x",
    "def f(x: f32): return 1" + "0" * 5000,
    "def f(x: f32): return x * 1" + "0" * 4000,
    "#" * 10000,
    "def f(x: f32):\n    return x # " + "é" * 1000,
]


def _unescape(text: str) -> str:
    for written, meant in {r"\n": "\n", r"\t": "\t", r"\u2028": "\u2028", r"\x0c": "\x0c"}.items():
        text = text.replace(written, meant)
    return text


def cells() -> list[str]:
    """All pieces as whole cells."""
    head = "def f(x: Tensor[(2, 3), f32]):\n"
    sources = []
    for text in map(_unescape, STATEMENTS):
        body = "".join(f"    {line}\n" for line in text.split("\n"))
        sources.append(f"{head}{body}    return x\n")
    sources += [f"{head}    y = {_unescape(text)}\n    return y\n" for text in EXPRESSIONS]
    sources += [f"def f({text}):\n    return x\n" for text in PARAMETERS]
    return [*sources, *CELLS]
