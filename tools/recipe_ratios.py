"""Time the recipes of docs/cookbook.md beside the plain spelling in NumPy: `recipe_ratios.py [NAME...]`.

Runs the blocks of each recipe in an IPython shell, as a reader does. Then its function and the same in NumPy
take turns, and the ratio of their least times is printed. Exits with 1 where nnmagic is slower, and the page
does not say so.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

PAGE = Path(__file__).parent.parent / "docs" / "cookbook.md"
_ATTENTION = (
    "(weights := np.exp(np.where(np.tri(16, dtype=bool), q @ k.swapaxes(-1, -2) / np.sqrt(8), -np.inf)))"
    " / weights.sum(axis=-1, keepdims=True) @ v"
)
#: The call of each recipe, and what computes the same in NumPy; both are expressions in the recipe's names.
PLAIN = {
    "predict(x, w)": "(scores := np.exp(x @ w)) / scores.sum(axis=1, keepdims=True)",
    "without_negatives(x)": "np.where(x < 0, np.float32(0), x)",
    "with_row(x, 2, row)": "(y := x.copy()).__setitem__(2, row)",
    "with_first_column_doubled(x)": "(y := x.copy())[:, 0].__imul__(2)",
    "rows_at(x, indices)": "x[indices]",
    "positive_rows(x)": "x[x[:, 0] > 0]",
    "mean_of_positive_rows(x)": "x[x[:, 0] > 0].mean(axis=0)",
    "encode(labels)": "np.eye(classes, dtype='float32')[labels]",
    "distances(a, b)": "np.linalg.norm(a[:, None] - b, axis=2)",
    "standardize(x)": "(x - x.mean(axis=0)) / (x.std(axis=0) + 1e-6)",
    "histogram(x, edges)": "np.histogram(x, edges)[0]",
    "moving_average(x)": "np.convolve(x, np.full(width, 1 / width), 'valid')",
    "moving_average_of_any_length(x)": "np.convolve(x, np.full(width, 1 / width), 'valid')",
    "k_means_step(points, start)": "(lambda nearest: [points[nearest == i].mean(axis=0) for i in range(k)])"
    "(((points[:, None] - start) ** 2).sum(axis=2).argmin(axis=1))",
    "first_component(x)": "np.linalg.eigh(np.cov(x.T))",
    "running_maximum(x)": "np.maximum.accumulate(x)",
    "powers(x[0])": "np.stack([x[0] ** i for i in range(1, 4)])",
    "smooth(x, 0.1)": "np.array(list(itertools.accumulate(x, "
    "lambda y, row: y + np.float32(0.1) * (row - y))))",
    "clip_by_norm(gradient, 1.0)": "gradient * (1 / max(np.linalg.norm(gradient), 1))",
    "square_roots(gradient)": "np.where(gradient > 0, np.sqrt(np.maximum(gradient, 0)), 0)",
    "solve(a, b)": "np.linalg.solve(a, b)",
    "train(x[:200], y[:200], x[200:], y[200:])": "trained(np, x[:200], y[:200], x[200:], y[200:])",
    "loss(logits, labels)": "-((shifted := logits - logits.max(axis=1, keepdims=True)) "
    "- np.log(np.exp(shifted).sum(axis=1, keepdims=True)))[np.arange(32), labels].mean()",
    "attention(q, k, v)": _ATTENTION,
    "written_out(q, k, v)": _ATTENTION,
    "network(x)": "np.maximum(x @ state['0.weight'].T + state['0.bias'], 0) @ state['2.weight'].T"
    " + state['2.bias']",
    "noisy(first, x)": "x + second.standard_normal(x.shape, 'float32')",
    "rolls_until_six(7)": "rolled(np, 7)",
    "draw(7)": "np.random.default_rng(7).standard_normal(1000)",
    "draw_more(following)": "np.random.default_rng(7).standard_normal(1000)",
    "double(x)": "2 * x",
    "affine(x, w)": "x @ w + 1",
    "centre(x)": "x - x.mean(axis=1, keepdims=True)",
    "layer(x, w, b)": "(scores := np.exp(np.maximum(x @ w + b, 0))) / scores.sum(axis=1, keepdims=True)",
    "body_mass_index(values)": "values[:, 1] / values[:, 0] ** 2",
    "gelu(x)": "0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x * x * x)))",
}


#: What the page says to be slower: a generator of NumPy is locked and copied in each call.
SLOWER = ("noisy",)


def trained(np: Any, x: Any, y: Any, held: Any, truth: Any) -> tuple[Any, Any, int]:
    """Train as `train` of the page does, in NumPy."""
    w, best, patience, epochs = np.zeros(2, np.float32), np.float32(np.inf), 0, 0
    while patience < 5 and epochs < 1000:
        w = w - 0.5 * (x.T @ (1 / (1 + np.exp(-(x @ w))) - y)) / len(y)
        scores = held @ w
        validation = np.mean(np.logaddexp(0, scores) - truth * scores)
        best, patience = (validation, 0) if validation < best - 1e-5 else (best, patience + 1)
        epochs += 1
    return w, best, epochs


def rolled(np: Any, seed: int) -> int:
    """Roll dice as `rolls_until_six` of the page does, in NumPy."""
    rng, rolls = np.random.default_rng(seed), 1
    while rng.integers(1, 7) < 6:
        rolls += 1
    return rolls


def recipes() -> Iterator[tuple[str, list[str]]]:
    """Yield the titles of the page with the blocks below each that run."""
    for part in re.split(r"^#+ ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        blocks = re.findall(r"^```(python)?\n(.*?)^```", part, flags=re.MULTILINE | re.DOTALL)
        yield part.split("\n")[0], [code for _, code in blocks]


def least(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the least seconds of each call; the calls take turns."""
    seconds = dict.fromkeys(calls, float("inf"))
    end = time.perf_counter() + 0.3
    while time.perf_counter() < end:
        for name, call in calls.items():
            begin = time.perf_counter()
            for _ in range(20):
                call()
            seconds[name] = min(seconds[name], (time.perf_counter() - begin) / 20)
    return seconds


def main() -> int:
    """Print the ratios, and return 1 if one is below 1."""
    shell = InteractiveShell.instance()
    slower = 0
    (_, setup), *others = [each for each in recipes() if each[1]]
    for title, blocks in others:
        shell.reset(new_session=False)
        with capture_output():
            for block in [*setup, "import itertools", *blocks]:
                shell.run_cell(block)
        names = shell.user_ns
        names |= {"trained": trained, "rolled": rolled}
        for call, plain in PLAIN.items():
            function = call.partition("(")[0]
            names.setdefault("indices", names["np"].array([3, 0, -1]))
            is_here = any(re.search(rf"^def {function}\(", block, re.MULTILINE) for block in blocks)
            has_arguments = names.keys() >= set(re.findall(r"[a-z_]\w*", call))  # torch's, if it is here
            if not (is_here and has_arguments) or (sys.argv[1:] and function not in sys.argv[1:]):
                continue
            texts = {"nnmagic": call, "numpy": plain}
            calls = {name: eval(f"lambda: ({text})", names) for name, text in texts.items()}  # noqa: S307
            seconds = least(calls)
            ratio = seconds["numpy"] / seconds["nnmagic"]
            print(f"{title[:46]:48}{call:34}{seconds['nnmagic'] * 1e6:10.1f} us{ratio:8.2f}", flush=True)
            slower += ratio < 1 and function not in SLOWER
    return int(slower > 0)


if __name__ == "__main__":
    sys.exit(main())
