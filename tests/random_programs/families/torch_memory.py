"""Programs of torch with views, changes in place and graph breaks, which eager torch judges.

``arguments(n)`` makes what ``f`` is called with: tensors that may overlap, be transposed or have gaps. Each
statement is one that eager torch runs for two sizes ``n``. Numbers are small integers, so that every order of
operations computes them alike.
"""

from __future__ import annotations

import random
from typing import Any

from tests.random_programs.program import Family, Program, seeded

#: The sizes that the arguments of the calls have.
SIZES = (3, 5, 6)

_ARGUMENTS = (
    ("{0} = torch.arange(4.0 * n).reshape(n, 4)",) * 3,
    ("{0} = torch.arange(4.0 * n).reshape(4, n).t()",) * 2,
    ("{0} = torch.arange(8.0 * n).reshape(2 * n, 4)[::2]",),
    ("{0} = torch.arange(5.0 * n).reshape(n, 5)[:, 1:]",),
    ("{0} = torch.arange(4.0 * n + 3)[3:].reshape(n, 4)",),
    ("{0} = torch.arange(4.0).expand(n, 4)",),
    ("{0} = torch.arange(1.0 * n)",),
    ("{0} = torch.arange(4 * n).reshape(n, 4)",),
    ("whole = torch.arange(4.0 * n + 8)", "{0} = whole[: 4 * n].view(n, 4)", "{1} = whole[8:].view(n, 4)"),
    ("{0} = torch.arange(4.0 * n).reshape(n, 4)", "{1} = {0}.t()"),
    ("{0} = torch.arange(4.0 * n).reshape(n, 4)", "{1} = {0}[1:]", "{2} = {0}.view(-1)"),
    ("{0} = torch.arange(4.0 * n).reshape(n, 4)", "{1} = {0}"),
    ("whole = torch.arange(2.0 * n)", "{0} = whole[::2]", "{1} = whole[1::2]"),
)
_VIEWS = """
{x}[1:]
{x}[:-1]
{x}[..., 1:]
{x}[0]
{x}[-1]
{x}[::2]
{x}[None]
{x}[:, 0]
{x}[:1]
{x}.t()
{x}.t()
{x}.transpose(0, -1)
{x}.view(-1)
{x}.reshape(-1)
{x}.reshape(2, -1)
{x}.flatten()
{x}.unsqueeze(0)
{x}.unsqueeze(-1)
{x}.squeeze()
{x}.expand(2, *{x}.shape)
{x}.expand_as({y})
torch.broadcast_tensors({x}, {y})[0]
{x}.unbind(0)[1]
{x}.unbind(-1)[0]
{x}.chunk(2)[1]
{x}.split(2)[0]
{x}.detach()
{x}.data
{x}.diagonal()
{x}.diagonal(1)
{x}.narrow(0, 1, {x}.shape[0] - 1)
{x}.unflatten(-1, (2, 2))
{x}.as_strided((2, 2), (1, 2))
{x}.as_strided((2,), (3,), {x}.storage_offset() + 1)
{x}.as_strided((2, 3), (2, 1), 0)
{x}.as_strided({x}.shape, {x}.stride())
{x}.movedim(0, -1)
{x}.permute(*range({x}.ndim)[::-1])
{x}.unfold(0, 2, 1)
{x}.float().view(torch.int32)
{x}.view_as({y})
{x}.swapaxes(0, 1)
{x}.select(-1, 1)
{x}.contiguous()
{x}.float()
{x}.to({y}.dtype)
{x}.mT
{x}
"""
_COMPUTATIONS = """
{x} * 2
{x} + {y}
{x} - {y}
{x} + 1
{x}.clone()
{x}.clone()
torch.cat([{x}, {x}])
torch.stack([{x}, {x}], -1)
{x}.sum(0)
{x}.sum()
torch.zeros(3)
torch.zeros_like({x})
torch.empty_like({x}).copy_({x})
{x}.new_zeros(2, 2)
{x}.t().contiguous()
{x}.double()
{x}.int()
torch.where({x} > 2, {x}, {y})
{x}.as_strided_scatter(torch.ones(2, dtype={x}.dtype), (2,), (2,), {x}.storage_offset())
{x}.slice_scatter(torch.ones_like({x}[1:]), 0, 1)
{x}.select_scatter(torch.ones_like({x}[0]), 0, 0)
{x}.diagonal_scatter(torch.ones_like({x}.diagonal()))
{x}.flip(0)
{x}.relu()
{x}.max(0).values
{x}.sort(0).values
{x}.repeat(2, *[1] * {x}.ndim)
torch.add({x}, {y}, alpha=2)
{x} @ {x}.t()
"""
_CHANGES = """
{x}.add_(1)
{x}.add_(1)
{x}.mul_(2)
{x}.add_({y})
{x}.copy_({y})
{x} += 1
{x}[0] = 5
{x}[1:] = 7
{x}[..., -1] = {y}[..., -1]
{x}[1:] += {y}[1:]
{x}.zero_()
{x}.fill_(3)
{x}.masked_fill_({x} > 4, 2)
{x}.t_()
{x}.unsqueeze_(0)
{x}.squeeze_()
{x}.transpose_(0, -1)
{x}.diagonal().add_(1)
{x}.t().mul_(2)
{x}.view(-1)[1:].add_(3)
{x}.as_strided((2,), (2,), {x}.storage_offset()).add_(1)
{x}.unbind(0)[1].mul_(3)
{x}.data.add_(1)
{x}.detach().mul_(2)
{x}.relu_()
torch.add({x}, 1, out={x})
{x}.swapaxes_(0, 1)
{x}.clamp_(max=9)
"""
_BREAKS = ("torch._dynamo.graph_break()",) * 3 + ("float({x}.sum())",)


def write(seed: int) -> Program:
    """Return the program of a seed."""
    import torch

    chance = seeded("torch_memory", seed)
    lines, names, grad = _write_arguments(chance)
    environments: list[dict[str, Any]] = []
    for size in SIZES[:2]:
        environment: dict[str, Any] = {"torch": torch, "n": size}
        exec("\n".join(lines), environment)
        environments.append(environment)
    body: list[str] = []
    live = list(names)
    for _ in range(chance.randint(2, 9)):
        for _try in range(20):
            line, made = _statement(chance, live, len(body))
            if _runs(line, environments):
                break
        else:
            continue
        body.append(line)
        if made is not None:
            live.append(made)
        if chance.random() < 0.25:
            body.append(chance.choice(_BREAKS).format(x=chance.choice(live)))
    results = chance.sample(live, chance.randint(1, min(4, len(live))))
    source = "\n".join(
        [
            "def arguments(n):",
            *(f"    {line}" for line in lines),
            f"    return [{', '.join(names)}]",
            f"def f({', '.join(names)}):",
            *(f"    {line}" for line in body),
            f"    return {', '.join(results)},",
            f"dynamic = {chance.choice((None, None, True, False))}",
            f"grad = {grad}\n",
        ]
    )
    return Program("torch_memory", seed, source, tuple((size,) for size in SIZES))


def _write_arguments(chance: random.Random) -> tuple[list[str], list[str], bool]:
    lines: list[str] = []
    names: list[str] = []
    for form in chance.sample(_ARGUMENTS, chance.choice((1, 1, 2))):
        new = [f"a{len(names) + number}" for number in range(3)]
        count = sum(any(f"{{{number}}} =" in line for line in form[:3]) for number in range(3))
        made = form[:1] if len(set(form)) == 1 else form
        lines += [line.format(*new) for line in made]
        names += new[:count]
    grad = chance.random() < 0.3
    if grad:
        lines += [f"{names[0]} = {names[0]}.double().requires_grad_()"]
    return lines, names, grad


def _statement(chance: random.Random, live: list[str], number: int) -> tuple[str, str | None]:
    kind = chance.random()
    table = _VIEWS if kind < 0.4 else _COMPUTATIONS if kind < 0.6 else _CHANGES
    text = chance.choice(table.strip().split("\n"))
    text = text.format(x=chance.choice(live[-4:]), y=chance.choice(live))
    if table is _CHANGES:
        return text, None
    return f"v{number} = {text}", f"v{number}"


def _runs(line: str, environments: list[dict[str, Any]]) -> bool:
    """Return whether eager torch runs a statement for all sizes; run it."""
    for environment in environments:
        try:
            exec(line, environment)
        except (RuntimeError, IndexError, TypeError, ValueError, AttributeError):  # noqa: PERF203
            return False
    return True


FAMILY = Family("torch_memory", write, ("eager torch",))
