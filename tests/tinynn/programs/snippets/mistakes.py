"""Cells as people write them who know NumPy, PyTorch or JAX: what each mistake is told, once, with what to write."""

# ruff: noqa: E501  # a case reads best on one line

from __future__ import annotations

import os
from types import ModuleType

import numpy as np

from tests.tinynn.programs.snippets.cases import Case, accepted, refused

X = "x: Tensor[(3, 4), f32]"
N = 'x: Tensor[("n", 4), f32]'
NP = {"np": np}
TORCH = ModuleType("torch")
vars(TORCH)["float16"] = object()
ELSEWHERE = (
    "call it in another cell, and pass its result as an argument; where a function needs it in the middle, "
    "or in a loop, split the function there, and let Python call the parts"
)


def body(
    name: str, text: str, message: str, hint: str | None = None, parameters: str = X, **namespace: object
) -> Case:
    """A function of x whose statements are these."""
    lines = "".join(f"    {line}\n" for line in text.split("\n"))
    return refused(name, f"def f({parameters}):\n{lines}", message, hint, namespace)


CASES: list[Case] = [
    # -- records -----------------------------------------------------------------------------------------
    refused("fields-as-in-a-dataclass", "class Point:\n    «x: f32»\n    y: f32 = 0.0\n\ndef f(x: f32):\n    return Point(x, x)\n", "the class `Point` has fields that belong to no constructor", "write a constructor that has them, as in def Point(x: f32, y: f32): ..."),
    refused("a-constructor-as-a-field", "class Tree:\n    «Leaf: f32»\n    def Node(left: Tree, right: Tree): ...\n\ndef f(x: f32):\n    return x\n", "the class `Tree` has fields that belong to no constructor", "write a constructor that has them, as in def Tree(Leaf: f32): ..."),
    refused("a-class-attribute", "class Point:\n    «size = 3»\n    def At(x: f32): ...\n\ndef f(x: f32):\n    return At(x)\n", "the class `Point` has fields that belong to no constructor", "declare constructors, as in def Leaf(value: Tensor[(3,), f32]): ..."),
    refused("a-field-read-as-a-member", "class Point:\n    def Point(x: f32, y: f32): ...\n\ndef f(p: Point):\n    return «p.x»\n", "a Point has no attribute `x`", "`match p:` takes it apart, as in case Cons(head, tail): ..."),
    refused("isinstance-of-a-constructor", "class C:\n    def A(x: f32): ...\n    def B(): ...\n\ndef f(c: C):\n    if isinstance(c, «A»):\n        return 1.0\n    return 2.0\n", "`isinstance` asks for tuple, list, dict, str, bool, int, float, complex, np.ndarray and NumPy's kinds of numbers, not for `A`", "to ask which constructor made a value write match, as in case A(value): ..."),
    # -- names that are not there ------------------------------------------------------------------------
    body("jax-not-imported", "return «jnp.where»(x > 0, x, 0)", "`jnp` is not defined in the notebook", "run `import jax.numpy as jnp` in another cell, or write where, which needs none"),
    body("torch-not-imported", "return «torch.nn.functional.relu»(x)", "`torch` is not defined in the notebook", "run `import torch` in another cell, or write relu, which needs none"),
    body("a-module-that-nobody-knows", "return «mylib.exp»(x)", "unknown name `mylib`", "assign it first, or define it in another cell"),
    body("print-by-another-name", "return «show»(x)", "`print` has no value", "write it as a statement", show=print),
    body("a-number-joined-to-a-string", "return «'step ' + 3»", "`+` of the string 'step ' and the number 3", "make a string of it: str(3)"),
    body("remove-of-a-module", "«os.remove»('x')\nreturn x", "`os.remove` is not supported in a cell", os=os),
    body("remove-of-what-nobody-knows", "«items.remove»(3)\nreturn x", "unknown name `items`"),
    body("remove-of-a-captured-list", "«items.remove(3)»\nreturn x", "`.remove` would change `items` in place, which a cell cannot", items=[1, 3]),
    body("a-name-misspelt-before-a-dot", "total = x + 1\nreturn «totl.sum»()", "unknown name `totl`", "did you mean total?"),
    body("an-operator-misspelt", "return «nn.rellu»(x)", "unknown operator `nn.rellu`", "did you mean nn.relu?"),
    body("a-short-name", "return x * «i»", "unknown name `i`", "assign it first, or define it in another cell"),
    # -- functions that mean another thing ------------------------------------------------------------------
    accepted("unwrap", X, "return np.unwrap(x)", namespace=NP),
    accepted("convolve", X, "return np.convolve(x[0], x[1])", namespace=NP),
    accepted("delete", X, "return np.delete(x, 1, axis=0)", namespace=NP),
    accepted("isin", X, "return np.isin(x // 1, [1, 2])", namespace=NP),
    # -- lists -------------------------------------------------------------------------------------------
    accepted("append", X, "rows = []\nfor i in range(3):\n    rows.append(x[i])\nreturn stack(rows)"),
    body("sort-in-place", "«x.sort()»\nreturn x", "the parameter `x` belongs to the caller, and cannot be changed", "change a copy: write x = x.copy() before; or declare it as x: InOut[Tensor[(3, 4), f32]]"),
    accepted("a-comprehension-of-unknown-length", N, "return stack([row * 2 for row in x])"),
    body("a-condition-that-fails-once", "rows = [x[i] for i in range(3) if i > «limit»]\nreturn rows[0]", "unknown name `limit`"),
    accepted("lambdas-in-a-comprehension", X, "shifts = [lambda z: z + j for j in range(3)]\nscales = [lambda z, j=j: z * j for j in range(3)]\nj = 10\nreturn shifts[0](x) + scales[1](x) * j"),
    body("a-tuple-as-a-tensor", "return «(x, x).mean»()", "a tuple of 2 has no attribute `mean`", "it is a tuple of tensors: write stack((x, x)).mean(...)"),
    body("a-walrus-beside-a-lambda", "fs = [lambda z: z + j for j in range(3) if («k := j») >= 0]\nreturn fs[0](x) + k", "`:=` beside a lambda in a comprehension is not supported", "write a `for` with an assignment"),
    # -- annotations -------------------------------------------------------------------------------------
    refused("a-shape-without-brackets", "def f(x: «Tensor[3, 4, f32]»):\n    return x\n", "Tensor takes a shape and a dtype", "put the shape in brackets, as in Tensor[(3, 4), f32]"),
    refused("named-dimensions-without-brackets", 'def f(x: «Tensor["n", 4, f32]»):\n    return x\n', "Tensor takes a shape and a dtype", 'put the shape in brackets, as in Tensor[("n", 4), f32]'),
    refused("dtype-before-shape", "def f(x: «Tensor[f32, (3, 4)]»):\n    return x\n", "the shape of a tensor comes first, then its dtype", "write a type, as in Tensor[(2, 3), f32]"),
    refused("a-shape-after-the-dtype", "def f(x: «Tensor[float, (3, 4)]»):\n    return x\n", "the shape of a tensor comes first, then its dtype", "write a type, as in Tensor[(2, 3), f32]"),
    # -- shape values -------------------------------------------------------------------------------------
    body("a-size-converted", "n = x.shape[0]\nreturn x * «n.astype»(f32)", 'the dimension "n" has no attribute `astype`', "leave it out: a Python number takes the dtype of the tensor beside n", N),
    body("a-known-size-converted", "return x * «x.shape[0].astype»(f32)", "the number 3 has no attribute `astype`", "leave it out: a Python number takes the dtype of the tensor beside it"),
    body("a-method-of-a-number", "n = 4\nreturn x / «n.sqrt»()", "the number 4 has no attribute `sqrt`", "it is a Python number: write sqrt(n)"),
    body("a-method-of-a-shape", "return x / «x.shape.prod»()", "a tuple of 2 has no attribute `prod`", "it is a tuple: write prod(x.shape)"),
    # -- PyTorch and JAX ------------------------------------------------------------------------------------
    body("torch-cat", "return «torch.cat»([x, x], dim=0)", "`torch` is not defined in the notebook", "run `import torch` in another cell, or write concatenate, which needs none"),
    body("a-function-of-tensorflow", "return «tf.reduce_sum»(x)", "`tf` is not defined in the notebook", "run `import tensorflow as tf` in another cell, or write sum, which needs none"),
    body("a-function-as-an-operator", "return «nn.gelu»(x)", "unknown operator `nn.gelu`", "did you mean gelu?"),
    body("a-layer", "return «nn.ReLU»()(x)", "unknown operator `nn.ReLU`", "a cell has functions, no layers: write relu(x, ...)"),
    body("self", "return «self.w» @ x", "unknown name `self`", "a function of a cell has no `self`: give it what it needs as parameters"),
    body("gradients", "return «hvp»(f, x, x)", "unknown name `hvp`", "write jvp(grad(f), (x,), (v,))[1]"),
    body("backward", "return «x.backward»()", "a Tensor[(3, 4), f32] has no attribute `backward`", "a tensor keeps no gradient: write grad(f)(x), of a function"),
    body("at-set", "return «x.at»[0].power(2)", "a Tensor[(3, 4), f32] has no attribute `at`", "tensors do not change: write y = where(condition, value, x)"),
    body("to-the-device", "return «x.cuda»()", "a Tensor[(3, 4), f32] has no attribute `cuda`", "leave .cuda() out"),
    # -- dtypes and shapes ----------------------------------------------------------------------------------
    body("no-dtype-of-numpy", "return x.astype(«'f3'»)", "astype: the string 'f3' is no dtype"),
    body("a-dtype-that-numpy-gives-up", "return x.astype(«'a'»)", "astype: the string 'a' is no dtype", "write one of f16 bf16 f32 f64, c64 c128, i8 to i64, u8 to u64, bool_"),
    body("a-dtype-that-numpy-dropped", "return x.astype(«np.float»)", "`np.float` is not supported in a cell", "write f32 or f64", **NP),
    body("a-shape-of-zeros-without-brackets", "return x + np.zeros(3, «4»)", "zeros: the number 4 is no dtype", "a shape goes in brackets, as in zeros((2, 3))", **NP),
    body("a-shape-of-reshape-without-brackets", "return np.reshape(x, 4, «3»)", "reshape takes 2 arguments (a, newshape), but 3 are given", "put the numbers in brackets, as in reshape(a, (2, 3))", **NP),
    body("an-index-of-a-scalar", "return «x[0][1][2]»", "1 index for an f32", "it has one element: leave the index out"),
    refused("a-list-as-a-type", "def f(x: «list[f32]»):\n    return x\n", "`list[...]` is no type of a cell", 'write tuple[f32, f32], a type for each item, or Tensor[("n",), f32]'),
    body("declared-with-another-shape", "y: f32 = «x»\nreturn y", "`y` is declared as f32, but is Tensor[(3, 4), f32]", "declare it as Tensor[(3, 4), f32], or change its shape"),
    # -- statements ----------------------------------------------------------------------------------------
    body("a-forgotten-return", "«x + 1»", "the value of this expression is not used", "return it, assign it to a name, or leave the line out"),
    body("raise-with-two-arguments", "«raise ValueError('negative', 3)»", "an exception of a cell has one message", "put what it says into one formatted string, as in raise ValueError(f'{x} is negative')"),
    body("a-method-without-brackets", "return «x.mean»", "expected a tensor, found the method mean (without its call)", "call it, as in x.mean()"),
    body("a-function-without-brackets", "return «np.mean»", "expected a tensor, found the function mean", "call it, as in mean(x)", **NP),
    body("return-of-none", "return «None»", "expected a tensor, found None", "give a tensor, or a tuple of them"),
    body("a-number-beside-a-tensor", "return «x if x.sum() > 0 else 0»", "one side gives a Tensor[(3, 4), f32], the other the number 0", "write full((3, 4), 0, f32) for the number"),
    body("equal-to-none", "return x == «None»", "`==` of a Tensor[(3, 4), f32] and None", "write is None"),
    body("not-of-floats", "return ~«x»", "`~` is defined for integers and bools, not f32", "for a condition compare first, as in ~(x > 0)"),
    body("transposed-by-a-call", "return «x.T»()", "a Tensor[(4, 3), f32] cannot be called", "leave the brackets out, or index it, as in x[0]"),
    body("a-generator", "while True:\n    «yield x»", "`yield` is not part of TinyNN", "append to a list, and return it"),
    # -- loops ---------------------------------------------------------------------------------------------
    body("a-size-gone-over", "for i in «len(x)»:\n    x = x + i\nreturn x", 'the dimension "n" cannot be gone over', "write range(n) of it", N),
    body("a-range-of-a-tensor", "for i in range(«x»):\n    x = x + i\nreturn x", 'range takes ints, not a Tensor[("n", 4), f32]', "write range(len(x))", N),
    body("a-range-of-tenths", "for i in range(0, 1, «0.1»):\n    x = x + i\nreturn x", "range takes ints, not the number 0.1", "write a range of ints, and compute with them, as in i * 0.1"),
    body("a-sum-that-begins-with-0", "s = 0\nfor row in x:\n    s = «s» + row\nreturn s", "`s` is the number 0 or a Tensor[(4,), f32] here: it changes from round to round", "begin with a tensor of the shape that it is to have, as in zeros((4,), f32)", N),
    # -- operands ------------------------------------------------------------------------------------------
    body("a-float-as-an-index", "return x[«k»]", "an index must be an int or a slice, not an f32", "convert it, as in k.astype(i32)", f"{X}, k: f32"),
    body("two-axes-without-brackets", "return x.mean(0, «1»)", "mean: the number 1 is no dtype", "several axes go in brackets, as in axis=(0, 1)"),
    body("reversed-as-a-tensor", "return «reversed(x)»", "expected a tensor, found `reversed(...)`", "write x[::-1]"),
    body("a-dtype-as-a-result", "return «x.dtype»", "expected a tensor, found f32", "types are known at compile time only: leave it out"),
    body("a-dtype-of-torch", "return x.astype(«torch.float16»)", "`torch.float16` is an object, which a cell cannot use", "write f16", torch=TORCH),
    body("a-dtype-of-torch-not-imported", "return x.astype(«torch.float16»)", "`torch` is not defined in the notebook", "run `import torch` in another cell, or write f16, which needs none"),
]  # fmt: skip
