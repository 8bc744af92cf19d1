"""Control flow, and the three problems that capturing a module has."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import nnmagic  # noqa: E402 - behind the skip

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own


def test_cond() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))

    function = nnmagic.from_torch(f, (torch.ones(3),))
    for data in (torch.ones(3), -torch.ones(3)):
        torch.testing.assert_close(function(data), f(data))


def test_a_branch_on_values_is_refused_with_the_fix() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x - 1

    with pytest.raises(nnmagic.RelayError) as caught:
        nnmagic.from_torch(f, (torch.ones(3),))
    assert "torch.cond" in (caught.value.diagnostics[0].hint or "")


def test_while_loop() -> None:
    from torch._higher_order_ops.while_loop import while_loop

    def f(x: torch.Tensor, n: torch.Tensor) -> Any:
        return while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))

    function = nnmagic.from_torch(f, (torch.ones(3), torch.tensor(4)))
    for rounds in (0, 5):
        count, result = function(torch.ones(3), torch.tensor(rounds))
        assert int(count) == rounds
        torch.testing.assert_close(result, torch.full((3,), 2.0**rounds))


def test_scan() -> None:
    from torch._higher_order_ops.scan import scan

    def f(rows: torch.Tensor) -> Any:
        return scan(lambda total, row: (total + row, total * row), torch.zeros(2), rows)

    data = torch.randn(5, 2)
    carry, results = nnmagic.from_torch(f, (data,))(data)
    total, expected = torch.zeros(2), []
    for row in data:
        expected.append(total * row)
        total = total + row
    torch.testing.assert_close(carry, total)
    torch.testing.assert_close(results, torch.stack(expected))


def test_map() -> None:
    from torch._higher_order_ops.map import map as torch_map

    def f(rows: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch_map(lambda row, y: row.sin() + y, rows, y)

    data, y = torch.randn(4, 3), torch.randn(3)
    torch.testing.assert_close(nnmagic.from_torch(f, (data, y))(data, y), data.sin() + y)


def test_code_that_depends_on_shapes() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        rows, columns = x.shape
        wide = x.reshape(rows * columns // 4, -1)
        return wide.sum(0) / rows

    rows = torch.export.Dim("rows")
    function = nnmagic.from_torch(f, (torch.ones(6, 8),), dynamic_shapes=({0: rows},))
    for count in (2, 9):
        data = torch.randn(count, 8)
        torch.testing.assert_close(function(data), f(data))


def test_results_whose_size_depends_on_values() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(x > 0)

    function = nnmagic.from_torch(f, (torch.randn(3, 4),))
    data = torch.randn(3, 4)
    torch.testing.assert_close(function(data), f(data))
