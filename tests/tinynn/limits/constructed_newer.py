"""Construct wide and deep cells of derivatives, complex numbers, assignments, lists, records and kernels."""

from __future__ import annotations

from tests.tinynn.limits.constructed_cells import Cell, Family, function_of

NEWER: dict[str, Family] = {}


def _family(construct: Family) -> Family:
    NEWER[construct.__name__] = construct
    return construct


@_family
def nested_gradients(size: int) -> Cell:
    """A gradient of a gradient, and so on."""
    text = "(v * v * v).sum()"
    for _ in range(size):
        text = f"grad(lambda v: {text})(v).sum()"
    return function_of([f"return grad(lambda v: {text})(x)"])


@_family
def gradient_of_assignments(size: int) -> Cell:
    """A gradient of many statements."""
    lines = ["def g(v):", *["    v = tanh(v) * v"] * size, "    return v.sum()", "return grad(g)(x)"]
    return function_of(lines)


@_family
def gradient_of_branches(size: int) -> Cell:
    """A gradient of many branches at run time."""
    branches = [line for i in range(size) for line in (f"    if v.sum() > {i}:", "        v = v * v")]
    return function_of(["def g(v):", *branches, "    return v.sum()", "return grad(g)(x)"])


@_family
def gradient_of_elements(size: int) -> Cell:
    """A gradient of many assignments to elements."""
    lines = ["def g(v):", "    y = zeros_like(v)"]
    lines += [f"    y[{index % 4}] = y[{(index + 1) % 4}] * v[0] + v[1]" for index in range(size)]
    return function_of([*lines, "    return y.sum()", "return grad(g)(x)"])


@_family
def gradients(size: int) -> Cell:
    """Gradients, one after the other."""
    return function_of([*["x = grad(lambda v: (v * v).sum())(x)"] * size, "return x"])


@_family
def nested_batches(size: int) -> Cell:
    """A function of examples of examples, and so on."""
    text = "v + 1"
    for _ in range(size):
        text = f"vmap(lambda v: {text})(v)"
    return function_of([f"return (lambda v: {text})(x)"], f"x: Tensor[({'2, ' * min(size, 20)}), f32]")


@_family
def jacobian_of_statements(size: int) -> Cell:
    """A Jacobian of many statements."""
    return function_of(["def g(v):", *["    v = sin(v) * v"] * size, "    return v", "return jacobian(g)(x)"])


@_family
def complex_statements(size: int) -> Cell:
    """Products of complex numbers, one after the other."""
    return function_of([*["x = x * x + 1j"] * size, "return x"], "x: Tensor[(4,), c128]")


@_family
def transform_length(size: int) -> Cell:
    """A Fourier transform of a long signal, whose length is often prime."""
    return function_of(["return fft(x)"], f"x: Tensor[({4 * size + 3},), c128]")


@_family
def transforms(size: int) -> Cell:
    """Fourier transforms, one after the other."""
    return function_of([*["x = fft(x)"] * size, "return x"], "x: Tensor[(12,), c64]")


@_family
def element_assignments(size: int) -> Cell:
    """Assignments to elements, one after the other."""
    lines = [f"y[{index % 4}] = y[{(index + 1) % 4}] * 2 + {index}" for index in range(size)]
    return function_of(["y = x.copy()", *lines, "return y"])


@_family
def slice_assignments(size: int) -> Cell:
    """Assignments to slices of a named size, one after the other."""
    return function_of(["y = x.copy()", *["y[1:] += y[:-1]"] * size, "return y"], 'x: Tensor[("n",), f32]')


@_family
def nested_element_loops(size: int) -> Cell:
    """Nested loops over elements."""
    lines = [f"{' ' * depth}for i{depth} in range(4):" for depth in range(size)]
    indices = " + ".join(f"i{depth}" for depth in range(size))
    return function_of(["y = x.copy()", *lines, f"{' ' * size}y[({indices}) % 4] += 1", "return y"])


@_family
def element_loops(size: int) -> Cell:
    """Loops over elements, one after the other."""
    lines = ["for i in range(len(x)):", "    y[i] = y[i] * 2 + x[i - 1]"] * size
    return function_of(["y = x.copy()", *lines, "return y"], 'x: Tensor[("n",), f32]')


@_family
def parallel_loops(size: int) -> Cell:
    """Loops whose rounds threads share, one after the other."""
    lines = ["for i in parallel(len(x)):", "    y[i] = y[i] * 2 + x[i]"] * size
    return function_of(["y = x.copy()", *lines, "return y"], 'x: Tensor[("n",), f32]')


@_family
def appended(size: int) -> Cell:
    """A list that grows by many statements."""
    return function_of(["rows = []", *["rows.append(x)"] * size, "return stack(rows)"])


@_family
def appended_rounds(size: int) -> Cell:
    """A list that grows in a loop of many rounds."""
    lines = ["rows = [x]", f"for i in range({size}):", "    rows.append(rows[-1] * 2 + i)"]
    return function_of([*lines, "return stack(rows)"])


@_family
def appended_lists(size: int) -> Cell:
    """Many lists that grow in one loop."""
    lines = [f"rows{index} = []" for index in range(size)]
    lines += ["for i in range(200):", *[f"    rows{index}.append(x * {index})" for index in range(size)]]
    return function_of([*lines, f"return stack(rows{size - 1})"])


@_family
def record_fields(size: int) -> Cell:
    """A record of many fields, and its gradient."""
    fields = "".join(f"    a{index}: Tensor[(4,), f32]\n" for index in range(size))
    sums = " + ".join(f"p.a{index}.sum()" for index in range(min(size, 500)))
    body = f"    return grad(lambda p: {sums})(P({', '.join(['x'] * size)})).a0\n"
    return Cell(f"class P:\n{fields}\n\ndef f(x: Tensor[(4,), f32]):\n{body}", {})


@_family
def deep_records(size: int) -> Cell:
    """Records in one another."""
    text = "class P0:\n    a: Tensor[(4,), f32]\n\n"
    text += "".join(f"class P{n}:\n    p: P{n - 1}\n\n" for n in range(1, size))
    return Cell(f"{text}def f(p: P{size - 1}):\n    return p{'.p' * (size - 1)}.a\n", {})


@_family
def doubled_records(size: int) -> Cell:
    """Records that each hold the one before twice."""
    text = "class P0:\n    a: Tensor[(4,), f32]\n\n"
    text += "".join(f"class P{n}:\n    p: P{n - 1}\n    q: P{n - 1}\n\n" for n in range(1, size))
    return Cell(
        f"{text}def f(p: P{size - 1}):\n    return p{'.p' * (size - 1)}.a + p{'.q' * (size - 1)}.a\n", {}
    )


@_family
def kernels(size: int) -> Cell:
    """Kernels that one function calls."""
    kernel = "@kernel\ndef _k{0}(a: Tensor[('n',), f32], b: Out[Tensor[('n',), f32]]):\n"
    kernel += "    for i in range(len(a)):\n        b[i] = a[i] * {0}\n\n"
    calls = "".join(f"    _k{index}(x, y)\n    x = y * 1\n" for index in range(size))
    text = "".join(kernel.format(index) for index in range(size))
    return Cell(f"{text}def f(x: Tensor[(4,), f32]):\n    y = zeros_like(x)\n{calls}    return x\n", {})


@_family
def changing_functions(size: int) -> Cell:
    """Functions that change an array, each by the one before."""
    text = "def _f0(a: InOut[Tensor[(4,), f32]]):\n    a[0] += 1\n\n"
    text += "".join(
        f"def _f{n}(a: InOut[Tensor[(4,), f32]]):\n    _f{n - 1}(a)\n    a[1] += a[0]\n\n"
        for n in range(1, size)
    )
    return Cell(f"{text}def f(a: InOut[Tensor[(4,), f32]]):\n    _f{size - 1}(a)\n", {})


@_family
def functions_of_any_type(size: int) -> Cell:
    """Functions without types, each of which calls the one before twice."""
    text = "def _f0(a):\n    return a + 1\n\n"
    text += "".join(
        f"def _f{n}(a, k=2):\n    return _f{n - 1}(a) * k + _f{n - 1}(a)\n\n" for n in range(1, size)
    )
    return Cell(f"{text}def f(x: Tensor[(4,), f32]):\n    return _f{size - 1}(x)\n", {})


@_family
def random_keys(size: int) -> Cell:
    """Keys of random numbers, each split from the one before."""
    lines = ["key = random.key(0)"]
    lines += ["key, own = random.split(key)", "x = x + random.normal(own, (4,))"] * size
    return function_of([*lines, "return x"])


@_family
def solves(size: int) -> Cell:
    """Systems of equations, one after the other."""
    return function_of(
        [*["x = solve(a, x)"] * size, "return x"], "a: Tensor[(4, 4), f64], x: Tensor[(4,), f64]"
    )


@_family
def window_size(size: int) -> Cell:
    """Windows of a large size, which grow."""
    return function_of([f"return sliding_window_view(x, {size}).sum(-1)"], f"x: Tensor[({2 * size},), f32]")


@_family
def insertions(size: int) -> Cell:
    """Insertions of rows, one after the other."""
    return function_of([*["x = insert(x, 0, 1)"] * size, "return x"], 'x: Tensor[("n",), f32]')


@_family
def scans(size: int) -> Cell:
    """Scans in one another."""
    text = "c + v, c"
    for index in range(size):
        text = f"scan(lambda c, v: ({text}), c, x)[0], c" if index else text
    return function_of([f"return scan(lambda c, v: ({text}), x[0], x)[0]"])
