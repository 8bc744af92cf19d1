"""Memory and strides of the results of ``torch.compile(backend="nnmagic")``: eager torch judges them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.random_programs.families import family_of  # noqa: E402 - behind the skip
from tests.random_programs.judges import judge  # noqa: E402 - behind the skip
from tests.random_programs.program import Program  # noqa: E402 - behind the skip

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own

#: Programs of random_programs/families/torch_memory that were once wrong, or refused.
PAST_FAILURES = {
    "the result is transposed by the engine numpy": "return a0.relu(),",
    "the diagonal of a matrix of dynamic sizes": "a1 = a0\na1.diagonal().add_(1)\nreturn a1,",
    "the least of two sizes is a size": (
        "b = a0.diagonal()\nb[1:].mul_(2)\nb.clone().copy_(b[:1])\n"
        "return b.repeat(2), b.diff(), b.roll(1), a0"
    ),
    "a part of half a dynamic size": "a0.chunk(2)[1].fill_(3)\nreturn a0,",
    "gaps in a result of dynamic sizes": "b = a0[:, ::2]\nreturn b.slice_scatter(b[1:] * 2, 0, 1),",
    "ones like a diagonal": "return torch.ones_like(a0.diagonal()), a0.max(0).values",
    "a diagonal is put into a matrix": "return a0.diagonal_scatter(torch.ones_like(a0.diagonal())), a0",
    "an argument with an offset is changed in place": "a0[1:].as_strided((2,), (2,), 4).add_(1)\nreturn a0,",
    "a part of what lies in one place": "b = a0 * 1\nb.as_strided((2, 3), (2, 1), 0)[0] = 5\nreturn b,",
    "parts of what lies in one place": (
        "b = a0.as_strided((3, 3), (1, 1), 1)\nb[-1].add_(100)\nb[:2, 0].mul_(2)\nb.diagonal(1).neg_()\n"
        "return a0, b"
    ),
    "parts of what is expanded": (
        "b = a0.sum(0).expand(3, 4)\nb[1:2].mul_(2)\nb.t()[:, 0].add_(1)\nb.diagonal().mul_(3)\nreturn b,"
    ),
    "windows of a dynamic size": "b = torch.cat([a0, a0])\nreturn b.unfold(0, 2, 1), b",
    "a diagonal of a dynamic size of what lies in one place": (
        "b = a0.flatten().unfold(0, 2, 1)\ntorch._dynamo.graph_break()\nb.diagonal().add_(1)\nreturn b,"
    ),
}
#: Programs of other arguments.
OTHER_FAILURES = {
    "what is changed begins where the argument does, in a storage of a dynamic size": """
def arguments(n):
    whole = torch.arange(2.0 * n)
    return [whole, whole[1::2]]
def f(a0, a1):
    a1.view(-1)[1].add_(3)
    b = a1[1:]
    b[:1].mul_(2)
    return a1.view(-1), b.view(-1), a0
dynamic = True
grad = False
""",
    "the memory that arguments share has another size": """
def arguments(n):
    whole = torch.arange(4.0 * n)
    return [whole[:4], whole[2:6]]
def f(a0, a1):
    a0.add_(1)
    return a1 * 2,
dynamic = False
grad = False
""",
    "the memory of a part that is read by its strides has another size": """
def arguments(n):
    return [torch.arange(5.0 * n).reshape(n, 5)]
def f(a0):
    v0 = a0.as_strided((2,), (3,), a0.storage_offset() + 1)
    v1 = v0.as_strided(v0.shape, v0.stride())
    return torch.cat([v1, v1]), v0, v1
dynamic = None
grad = False
""",
    "a gradient of the least of two sizes": """
def arguments(n):
    return [torch.arange(4.0 * n).reshape(n, 4).requires_grad_()]
def f(a0):
    b = a0 * 1
    b.diagonal().add_(1)
    return b * 2, a0.diagonal().mean()
dynamic = True
grad = True
""",
    "a part that is read by its strides begins elsewhere": """
def arguments(n):
    return [torch.arange(4.0 * n)[n : n + 4]]
def f(a0):
    return a0.as_strided((2,), (2,)) * 2, a0.as_strided((2,), (1,), 1) + 0
dynamic = False
grad = False
""",
    "a result with gaps is changed in place after a graph break": """
def arguments(n):
    return [torch.arange(4.0 * n + 3)[3:].reshape(n, 4).double().requires_grad_()]
def f(a0):
    v0 = a0.select(-1, 1)
    v3 = v0.select(-1, 1)
    v5 = v0.select_scatter(torch.ones_like(v0[0]), 0, 0)
    torch._dynamo.graph_break()
    v7 = v5.expand_as(v5)
    v7[0] = 5
    return v3,
dynamic = False
grad = True
""",
    "a size that is known after the guards are made": """
def arguments(n):
    return [torch.arange(5.0 * n).reshape(n, 5)[:, 1:].double().requires_grad_()]
def f(a0):
    v0 = a0.narrow(0, 1, a0.shape[0] - 1)
    v1 = v0.reshape(2, -1)
    v2 = a0.narrow(0, 1, a0.shape[0] - 1)
    torch._dynamo.graph_break()
    v4 = a0.split(2)[0]
    v5 = v1 + 1
    float(a0.sum())
    v7 = v1 + v5
    return v0, a0, v1
dynamic = True
grad = True
""",
    "a result and a detached one share memory": """
def arguments(n):
    return [torch.arange(1.0 * n).double().requires_grad_()]
def f(a0):
    whole = a0.repeat(2)
    torch._dynamo.graph_break()
    whole = a0.repeat(2)
    return whole.as_strided((2, 2), (1, 2)), whole.view(-1).detach()
dynamic = True
grad = True
""",
    "a change through strides of an argument that begins inside its storage": """\
def arguments(n):
    a0 = torch.arange(5.0 * n).reshape(n, 5)[:, 1:]
    a1 = torch.arange(4.0 * n + 3)[3:].reshape(n, 4)
    return [a0, a1]
def f(a0, a1):
    v0 = a1.expand_as(a0)
    a1.as_strided((2,), (2,), a1.storage_offset()).add_(1)
    return a1, v0, a0,
dynamic = None
grad = False
""",
}


def check(source: str) -> None:
    faults = judge(Program("torch_memory", 0, source, ((3,), (5,), (6,))), ["eager torch of numpy"]).faults
    assert not faults, str(faults[0])


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("what", PAST_FAILURES)
def test_a_program_that_was_wrong(what: str, transposed: bool, dynamic: bool) -> None:
    body = "\n    ".join(PAST_FAILURES[what].split("\n"))
    made = "torch.arange(4.0 * n).reshape(4, n).t()" if transposed else "torch.arange(4.0 * n).reshape(n, 4)"
    arguments = f"def arguments(n):\n    return [{made}]\n"
    check(f"{arguments}def f(a0):\n    {body}\ndynamic = {dynamic}\ngrad = False\n")


@pytest.mark.parametrize("what", OTHER_FAILURES)
def test_another_program_that_was_wrong(what: str) -> None:
    check(OTHER_FAILURES[what])


@pytest.mark.parametrize("seed", range(6))
def test_a_random_program(seed: int) -> None:
    program = family_of("torch_memory").write(seed)
    faults = judge(program, ["eager torch of numpy"]).faults
    assert not faults, str(faults[0])


VIEWS: dict[str, Callable[[Any], Any]] = {
    "a part": lambda y: y[1:],
    "a flat view": lambda y: y.reshape(-1),
    "the transpose": lambda y: y.t(),
    "no copy": lambda y: y.contiguous(),
    "no conversion": lambda y: y.float(),
    "detached": lambda y: y.detach(),
    "one of several": lambda y: y.unbind(0)[1],
    "expanded": lambda y: y.expand(3, 4),
    "strides of one's own": lambda y: y.as_strided((2, 2), (1, 5), 2),
    "the view of a view": lambda y: y[1:].t()[::2],
    "itself": lambda y: y,
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_changed_after_a_graph_break(name: str) -> None:
    def f(x: Any) -> Any:
        y = x * 2
        view = VIEWS[name](y)
        torch._dynamo.graph_break()
        view.add_(10)
        return y

    torch._dynamo.reset()
    data = torch.arange(12.0).reshape(3, 4)
    assert torch.equal(torch.compile(f, backend="nnmagic")(data), f(data))


def test_results_that_are_equal_do_not_share_memory() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: (x * 2, x * 2, torch.zeros(3), torch.zeros(3)), backend="nnmagic")
    for _ in range(2):  # a constant of the program is not changed by its caller
        results = compiled(torch.ones(3))
        assert [each.tolist() for each in results] == [[2.0] * 3] * 2 + [[0.0] * 3] * 2
        for number, each in enumerate(results):
            each.fill_(number + 5)
        assert [each[0].item() for each in results] == [5.0, 6.0, 7.0, 8.0]


@pytest.mark.parametrize("grad", [False, True])
def test_strides_follow_sizes_that_change(grad: bool) -> None:
    def f(a: Any) -> Any:
        y = a.t() * 2
        size = a.shape[0]
        return y.unflatten(1, (1, size)), y.narrow(1, 1, size - 1), y

    def change(a: Any) -> Any:
        b = a.t()
        b.mul_(2)
        return b, b[: a.shape[0] - 1], a[1:]

    for function in (f,) if grad else (f, change):
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="nnmagic")
        for size in (3, 5, 6):
            data = torch.arange(4.0 * size).reshape(size, 4)
            expected, found = (run(data.clone().requires_grad_(grad)) for run in (function, compiled))
            for one, other in zip(found, expected, strict=True):
                assert torch.equal(one, other)
                assert one.stride() == other.stride()


def test_an_argument_is_read_beyond_its_elements() -> None:
    torch._dynamo.reset()
    whole = torch.arange(12.0)

    def f(x: Any) -> Any:
        return x.as_strided((4,), (3,), 0) + 1

    assert torch.equal(torch.compile(f, backend="nnmagic")(whole[6:]), f(whole[6:]))
