"""Compiled functions in libraries that take functions of Python: `make test-tools` has these."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic import Tensor, f64

pytestmark = pytest.mark.full


@pytest.fixture
def total() -> Any:
    @nnmagic.function
    def total(x: Tensor[("n",), f64]):  # noqa: F821
        return x.sum()

    return total


@pytest.fixture
def square() -> Any:
    @nnmagic.function
    def square(a: f64):
        return a * a

    return square


class TestPandas:
    @pytest.fixture(autouse=True)
    def _frame(self) -> None:
        pandas = pytest.importorskip("pandas")
        self.frame: Any = pandas.DataFrame({"a": [1.0, 2.0, 3.0], "b": [3.0, 4.0, 5.0], "k": list("xyx")})

    def test_aggregations_have_numbers(self, total: Any) -> None:
        grouped = self.frame.groupby("k").a.agg(total)
        assert grouped.dtype == np.float64
        assert grouped.to_dict() == {"x": 4.0, "y": 2.0}
        assert grouped.nlargest(1).index.tolist() == ["x"]
        assert grouped.round(1).dtype == np.float64
        assert grouped.describe()["mean"] == 3.0
        pivot = self.frame.pivot_table(values="a", index="k", aggfunc=total)
        assert pivot.a.dtype == np.float64

    def test_rows_and_windows_have_numbers(self, total: Any, square: Any) -> None:
        rows = self.frame[["a", "b"]].apply(total, axis=1)
        assert rows.dtype == np.float64
        assert rows.tolist() == [4.0, 6.0, 8.0]
        assert self.frame.a.map(square).dtype == np.float64
        rolled = self.frame.a.rolling(2).apply(total, raw=True)
        assert rolled.tolist()[1:] == [3.0, 5.0]

    def test_columns_have_the_names_of_functions(self, total: Any) -> None:
        median: Any = nnmagic.compile(
            "def median(x: Tensor[('n',), f64]):\n    return np.median(x)\n", namespace={"np": np}
        )
        median.__name__ = "middle"
        assert self.frame.groupby("k").a.agg([total, median]).columns.tolist() == ["total", "middle"]


@pytest.mark.filterwarnings("ignore:(?s).*map_elements")  # which polars could have compiled itself
def test_polars(total: Any, square: Any) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [1.0, 2.0, 3.0]})
    mapped = frame.select(polars.col("a").map_elements(square, return_dtype=polars.Float64))
    assert mapped["a"].to_list() == [1.0, 4.0, 9.0]
    assert polars.Series([1.0, 2.0, 3.0]).rolling_map(total, 2).to_list() == [None, 3.0, 5.0]


def test_xarray_reads_the_signature() -> None:
    xarray = pytest.importorskip("xarray")

    @nnmagic.function
    def decay(x: Tensor[("n",), f64], a: f64, b: f64):  # noqa: F821
        return a * np.exp(-b * x)

    x = np.linspace(0, 4, 50)
    data = xarray.DataArray(2.5 * np.exp(-1.3 * x), dims="x", coords={"x": x})
    fitted = data.curvefit("x", decay).curvefit_coefficients
    np.testing.assert_allclose(fitted, [2.5, 1.3], rtol=1e-4)


def test_ipywidgets_reads_the_signature(square: Any) -> None:
    widgets = pytest.importorskip("ipywidgets")
    shown = widgets.interactive(square, a=(0.0, 1.0))
    assert [each.description for each in shown.kwargs_widgets] == ["a"]


def test_beartype_decorates(total: Any) -> None:
    beartype = pytest.importorskip("beartype")
    checked = beartype.beartype(total)
    assert checked(np.ones(3)) == 3.0
    assert type(checked(np.ones(3))) is np.float64


def test_sphinx_documents_a_module(tmp_path: Path) -> None:
    pytest.importorskip("sphinx")
    (tmp_path / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nextensions = ['sphinx.ext.autodoc']\n",
        encoding="utf-8",
    )
    (tmp_path / "index.rst").write_text(
        "Areas\n=====\n\n.. automodule:: areas\n   :members:\n", encoding="utf-8"
    )
    (tmp_path / "areas.py").write_text(
        "import nnmagic\nfrom nnmagic import f64\n\n\n"
        "@nnmagic.function\ndef area(width: f64, height: f64 = 2.0):\n"
        '    """Return the area of a rectangle."""\n    return width * height\n',
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "text", str(tmp_path), str(tmp_path / "out")]
    subprocess.run(command, check=True, capture_output=True, text=True)
    page = (tmp_path / "out" / "index.txt").read_text(encoding="utf-8")
    assert "areas.area(width" in page
    assert "Return the area of a rectangle." in page
