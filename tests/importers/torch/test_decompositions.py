"""Steps of optimizers under ``torch.compile(backend="nnmagic")``: eager torch judges them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own
optim = torch.optim

OPTIMIZERS: dict[str, Any] = {
    "Adadelta": optim.Adadelta,
    "Adafactor": optim.Adafactor,
    "Adagrad": optim.Adagrad,
    "Adam": optim.Adam,
    "AdamW, amsgrad": lambda p, **options: optim.AdamW(p, amsgrad=True, **options),
    "Adamax": optim.Adamax,
    "ASGD": optim.ASGD,
    "NAdam": optim.NAdam,
    "RAdam": optim.RAdam,
    "RMSprop, centered": lambda p, **options: optim.RMSprop(p, centered=True, momentum=0.9, **options),
    "Rprop": optim.Rprop,
    "SGD, Nesterov": lambda p, **options: optim.SGD(p, 0.1, momentum=0.9, nesterov=True, **options),
}


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_of_an_optimizer(name: str, foreach: bool) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    modules = [torch.nn.Linear(3, 2)]
    modules.append(copy.deepcopy(modules[0]))
    for module, compiled in zip(modules, (False, True), strict=True):
        optimizer = OPTIMIZERS[name](module.parameters(), foreach=foreach)
        step = torch.compile(optimizer.step, backend="nnmagic") if compiled else optimizer.step
        for _ in range(2):
            module(torch.ones(4, 3)).pow(2).sum().backward()
            step()
            optimizer.zero_grad()
    torch.testing.assert_close(modules[1].state_dict(), modules[0].state_dict(), rtol=1e-4, atol=1e-6)


def test_a_product_is_added_in_place() -> None:
    torch._dynamo.reset()

    def f(x: Any, one: Any, other: Any) -> Any:
        return x.addcmul_(one, other, value=0.5)

    data = [torch.tensor(numbers) for numbers in ([1.0, 2.0], [0.5, 3.0], [2.0, 4.0])]
    found = torch.compile(f, backend="nnmagic")(*(each.clone() for each in data))
    torch.testing.assert_close(found, f(*data))
