"""A process that runs functions of many kinds and prints what each gave, and where its code came from."""

import sys

import numpy as np

import nnmagic

N, M, NN = "Tensor[('n',), f32]", "Tensor[('n', 'm'), f32]", "Tensor[('n', 'n'), f32]"
V = np.array([3, 1, 2, 2, 9, -4], "f4")
A = np.arange(12, dtype="f4").reshape(3, 4)
I = np.array([2, 9])  # noqa: E741 - indices

#: Sources and their arguments; what fails is as much a result as what does not.
FUNCTIONS = [
    (f"def f(x: {N}, n: i64) -> {N}:\n    return x if n <= 0 else f(x * 2, n - 1)", (V, 3)),
    (f"def f(x: {N}, n: i64) -> {N}:\n    return f(x, n + 1)", (V, 3)),
    (f"def f(x: {N}):\n    return x[x > 1]", (V,)),
    (f"def f(x: {N}):\n    return np.nonzero(x)", (V,)),
    (f"def f(x: {NN}):\n    return x @ x", (A[:, :3],)),
    (f"def f(x: {M}):\n    return reshape(x, (3, -1))", (A,)),
    (f"def g(x: {M}):\n    return reshape(x, (3, -1)) + 1", (A[:2],)),
    (f"def f(x: {N}, i: Tensor[(2,), i64]):\n    return x[i]", (V, I)),
    ("def f(x: Tensor[(6,), f32]):\n    return sort(x), argsort(x), topk(x, 2), np.median(x)", (V,)),
    (f"def f(x: {N}):\n    return sort(x), cumsum(x), np.repeat(x, 2)", (V,)),
    ("def f(x: Tensor[(6,), f32]):\n    return relay.unique(x, return_counts=True)", (V,)),
    ("def f(x: Tensor[(6,), f32]):\n    assert x.sum() > 100, 'small'\n    return x", (V,)),
    ("def f(x: Tensor[(3, 4), f32]):\n    return softmax(x) @ x.T, np.var(x), np.sin(x)", (A,)),
]


def result(actual, arguments):
    """What the call gives, or how it fails, as text."""
    try:
        return repr(actual(*arguments))
    except (ValueError, IndexError, RecursionError, AssertionError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


def main():
    for source, arguments in FUNCTIONS:
        actual = nnmagic.compile(source, namespace={"np": np})
        sys.stdout.write(f"{result(actual, arguments)} | {actual.cache_info.hit}\n")
    sys.stdout.write(f"{[name for name in ('tvm', 'synr') if name in sys.modules]}\n")


if __name__ == "__main__":
    main()
