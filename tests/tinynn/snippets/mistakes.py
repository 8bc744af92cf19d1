"""Cells as people write them who know NumPy, PyTorch or JAX: what each mistake is told, once, with what to write."""

# ruff: noqa: E501  # a case reads best on one line

from __future__ import annotations

import numpy as np

from tests.tinynn.snippets.cases import Case, accepted, function, refused

X = "x: Tensor[(3, 4), f32]"
N = 'x: Tensor[("n", 4), f32]'
NP = {"np": np}
ELSEWHERE = "call it in another cell, and pass its result as an argument"


def body(
    name: str, text: str, message: str, hint: str | None = None, parameters: str = X, **namespace: object
) -> Case:
    """A function of x whose statements are these."""
    return refused(name, function(parameters, text), message, hint, namespace)


CASES: list[Case] = [
    # -- records -----------------------------------------------------------------------------------------
    refused("fields-as-in-a-dataclass", "class Point:\n    «x: f32»\n    y: f32 = 0.0\n\ndef f(x: f32):\n    return Point(x, x)\n", "the class `Point` has fields that belong to no constructor", "write a constructor that has them, as in def Point(x: f32, y: f32): ..."),
    refused("a-constructor-as-a-field", "class Tree:\n    «Leaf: f32»\n    def Node(left: Tree, right: Tree): ...\n\ndef f(x: f32):\n    return x\n", "the class `Tree` has fields that belong to no constructor", "write a constructor that has them, as in def Tree(Leaf: f32): ..."),
    refused("a-class-attribute", "class Point:\n    «size = 3»\n    def At(x: f32): ...\n\ndef f(x: f32):\n    return At(x)\n", "the class `Point` has fields that belong to no constructor", "declare constructors, as in def Leaf(value: Tensor[(3,), f32]): ..."),
    refused("a-field-read-as-a-member", "class Point:\n    def Point(x: f32, y: f32): ...\n\ndef f(p: Point):\n    return «p.x»\n", "a Point has no attribute `x`", "`match p:` takes it apart, as in case Cons(head, tail): ..."),
    refused("isinstance-of-a-constructor", "class C:\n    def A(x: f32): ...\n    def B(): ...\n\ndef f(c: C):\n    if «isinstance»(c, A):\n        return 1.0\n    return 2.0\n", "`isinstance` is not part of TinyNN", "to ask which constructor made a value write match, as in case Leaf(value): ...; the types of tensors are known from the annotations"),
    # -- names that are not there ------------------------------------------------------------------------
    body("numpy-not-imported", "return «np.exp»(x)", "`np` is not defined in the notebook", "run `import numpy as np` in another cell, or write exp alone"),
    body("jax-not-imported", "return «jnp.where»(x > 0, x, 0)", "`jnp` is not defined in the notebook", "run `import jax.numpy as jnp` in another cell, or write where alone"),
    body("torch-not-imported", "return «torch.nn.functional.relu»(x)", "`torch` is not defined in the notebook", "run `import torch` in another cell"),
    body("a-module-that-nobody-knows", "return «mylib.exp»(x)", "unknown name `mylib`", "assign it first, or define it in another cell"),
    body("a-name-misspelt-before-a-dot", "total = x + 1\nreturn «totl.sum»()", "unknown name `totl`", "did you mean total?"),
    body("an-operator-misspelt", "return «nn.rellu»(x)", "unknown operator `nn.rellu`", "did you mean nn.relu?"),
    body("a-short-name", "return x * «i»", "unknown name `i`", "assign it first, or define it in another cell"),
    # -- functions that mean another thing ------------------------------------------------------------------
    body("unique", "return «np.unique»(x)", "`np.unique` is not supported in a cell", ELSEWHERE, **NP),
    body("convolve", "return «np.convolve»(x[0], x[1])", "`np.convolve` is not supported in a cell", ELSEWHERE, **NP),
    body("delete", "return «np.delete(x, 1, axis=0)»", "delete: not supported in a cell", "join what is around it: concatenate([x[:i], x[i + 1:]]), or axis=1 of x[:, :i] and x[:, i + 1:]", **NP),
    body("isin", "return «np.isin»(x, [1, 2])", "`np.isin` is not supported in a cell", "write (x[..., None] == y.ravel()).any(axis=-1)", **NP),
    # -- lists -------------------------------------------------------------------------------------------
    body("append", "rows = []\nfor i in range(3):\n    «rows.append(x[i])»\nreturn stack(rows)", "`.append` would change `rows` in place, which a cell cannot", "write rows = rows + [x[i]]"),
    body("pop", "rows = [x, x]\n«rows.pop()»\nreturn stack(rows)", "`.pop` would change `rows` in place, which a cell cannot", "write rows = rows[:-1]"),
    body("sort-in-place", "«x.sort()»\nreturn x", "`.sort` would change `x` in place, which a cell cannot", "write x = sort(x)"),
    body("a-list-that-grows-with-the-rows", "rows = []\nfor row in x:\n    rows = «rows» + [row * 2]\nreturn stack(rows)", "`rows` is a tuple of 0 or a tuple of 1 here: it changes from round to round", "a list keeps its length here: compute on a whole tensor, as in x * 2, or on one made by zeros", N),
    body("a-comprehension-of-unknown-length", "return stack([row * 2 for row in «x»])", "a comprehension needs a number of items that is known while compiling", "compute on a whole tensor at once, as in x * 2 or arange(n) * 2, or write a `for` with a tensor", N),
    body("a-condition-that-fails-once", "rows = [x[i] for i in range(3) if i > «limit»]\nreturn rows[0]", "unknown name `limit`"),
    accepted("lambdas-in-a-comprehension", X, "shifts = [lambda z: z + j for j in range(3)]\nscales = [lambda z, j=j: z * j for j in range(3)]\nj = 10\nreturn shifts[0](x) + scales[1](x) * j"),
    body("a-tuple-as-a-tensor", "return «(x, x).mean»()", "a tuple of 2 has no attribute `mean`", "it is a tuple of tensors: write stack(...).mean(...)"),
    body("a-walrus-beside-a-lambda", "fs = [lambda z: z + j for j in range(3) if («k := j») >= 0]\nreturn fs[0](x) + k", "`:=` beside a lambda in a comprehension is not supported", "write a `for` with an assignment"),
    # -- annotations -------------------------------------------------------------------------------------
    refused("a-shape-without-brackets", "def f(x: «Tensor[3, 4, f32]»):\n    return x\n", "Tensor takes a shape and a dtype", "put the shape in brackets, as in Tensor[(3, 4), f32]"),
    refused("named-dimensions-without-brackets", 'def f(x: «Tensor["n", 4, f32]»):\n    return x\n', "Tensor takes a shape and a dtype", 'put the shape in brackets, as in Tensor[("n", 4), f32]'),
    refused("dtype-before-shape", "def f(x: «Tensor[f32, (3, 4)]»):\n    return x\n", "the shape of a tensor comes first, then its dtype", "write a type, as in Tensor[(2, 3), f32]"),
    refused("a-dtype-in-quotes", "def f(x: Tensor[(3, 4), «'float32'»]):\n    return x\n", "a tensor's dtype cannot be the string 'float32'", "write f32"),
    # -- shape values -------------------------------------------------------------------------------------
    body("a-size-converted", "n = x.shape[0]\nreturn x * «n.astype»(f32)", 'the dimension "n" has no attribute `astype`', "leave it out: a Python number takes the dtype of the tensor beside n", N),
    body("a-known-size-converted", "return x * «x.shape[0].astype»(f32)", "the number 3 has no attribute `astype`", "leave it out: a Python number takes the dtype of the tensor beside it"),
    body("a-method-of-a-number", "n = 4\nreturn x / «n.sqrt»()", "the number 4 has no attribute `sqrt`", "it is a Python number: write sqrt(n)"),
    body("a-method-of-a-shape", "return x / «x.shape.prod»()", "a tuple of 2 has no attribute `prod`", "it is a tuple: write prod(...)"),
]  # fmt: skip
