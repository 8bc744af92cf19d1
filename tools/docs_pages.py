"""Generate pages of the documentation site: the reference, and the example notebooks.

The reference is generated from the declarations that the compiler itself reads, so the two cannot differ.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

import nnmagic
from nnmagic.jupyter.commands import COMMANDS
from nnmagic.jupyter.magics import TinyNNMagics
from nnmagic.relay import OPERATORS
from nnmagic.tinynn.editor.symbols import Symbol, members, namespaces, operator_symbol, symbols
from nnmagic.tinynn.types.annotations import DTYPES

ROOT = Path(__file__).parent.parent


@event_priority(100)  # before the plugin that shows notebooks looks for them
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the notebooks and the generated pages to the site."""
    for path in sorted((ROOT / "examples").rglob("[!.]*.ipynb")):
        name = path.relative_to(ROOT).as_posix()
        files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    for name, page in PAGES.items():
        text = "\n".join(page())
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def operators_page() -> Iterator[str]:
    """Generate the page of all Relay operators, by family."""
    yield "# Operators\n"
    yield (
        f"nnmagic has {len(OPERATORS)} Relay operators. A cell calls an operator by its name "
        "(`nn.conv2d(x, w, strides=2)`) or as a method of its first argument; `nn.conv2d?` shows its help."
    )
    families = defaultdict(list)
    for name in sorted(OPERATORS):
        families[OPERATORS[name].family].append(operator_symbol(OPERATORS[name]))
    for family in sorted(families):
        yield f"\n## {family}\n"
        for symbol in families[family]:
            yield from _entry(symbol)


def functions_page() -> Iterator[str]:
    """Generate the page of the language's functions and the members of tensors."""
    yield "# Functions and methods\n"
    yield (
        "Besides the [operators](operators.md), a cell can call NumPy's functions, PyTorch's functions for "
        "neural networks, and Python's built-in functions, each under its own name. `np.exp(x)`, `F.relu(x)` "
        "and `jnp.exp(x)` work if the notebook has imported these modules. See also "
        "[the language](../language.md).\n"
    )
    yield "## Dtypes\n"
    yield ", ".join(f"`{dtype.short}` ({dtype.name})" for dtype in DTYPES.values())
    yield "\n## Functions\n"
    functions = [symbol for symbol in symbols().values() if symbol.kind == "function"]
    for symbol in sorted(functions, key=_by_name):
        yield from _entry(symbol)
    yield "\n## Methods and attributes of tensors\n"
    yield "Functions and operators whose first argument is a single tensor are also methods. Attributes:\n"
    for name, symbol in members().items():
        if symbol.kind == "attribute":
            yield f"- `x.{name}`: {symbol.summary}"
    yield "\n## Namespaces of operators\n"
    for name, operators in namespaces().items():
        yield f"- `{name}`: {', '.join(f'`{each}`' for each in sorted(operators))}"


def magics_page() -> Iterator[str]:
    """Generate the page of options, commands and settings."""
    yield "# Magics\n"
    for magic in ("tinynn", "relay"):
        yield f"## %%{magic}\n"
        yield f"```text\n{inspect.cleandoc(getattr(TinyNNMagics, f'{magic}_cell').__doc__)}\n```\n"
    yield "## %tinynn\n"
    yield "| command | what it does |\n|---|---|"
    for command in COMMANDS.values():
        yield f"| `%tinynn {command.usage}` | {_cell(command.summary)} |"
    yield "\n## %config TinyNNMagics\n"
    yield "| setting | default | what it does |\n|---|---|---|"
    for name, trait in sorted(TinyNNMagics.class_traits(config=True).items()):
        yield f"| `{name}` | `{trait.default_value!r}` | {_cell(trait.help)} |"


def python_page() -> Iterator[str]:
    """Generate the page of the package's public names."""
    yield "# Python names\n"
    yield "The public names of `nnmagic`. For `nnmagic.relay` see [Relay in nnmagic](../relay.md).\n"
    for name in sorted(nnmagic.__all__, key=str.lower):
        value = getattr(nnmagic, name)
        if not callable(value) or name in {dtype.short for dtype in DTYPES.values()}:
            continue
        yield f"## {name}\n"
        yield f"```python\n{_heading(name, value)}\n```\n"
        yield f"{inspect.getdoc(value) or ''}\n"
        if inspect.isclass(value):
            for member, attribute in sorted(vars(value).items()):
                if not member.startswith("_") and (doc := inspect.getdoc(attribute)):
                    yield f"- `{member}`: {_first_sentence(doc)}"


def _heading(name: str, value: Any) -> str:
    if inspect.isclass(value):
        return f"class nnmagic.{name}"
    return f"nnmagic.{name}{inspect.signature(value)}"


def _first_sentence(doc: str) -> str:
    return " ".join(doc.split("\n\n", maxsplit=1)[0].split())


def _by_name(symbol: Symbol) -> str:
    return symbol.name


def _entry(symbol: Symbol) -> Iterator[str]:
    """Yield a name's entry: how it is called, what it does, its equivalents, what its parameters accept."""
    yield f"\n### {symbol.name}\n"
    yield f"```python\n{symbol.signature}\n```\n"
    twin = f" NumPy: `{symbol.numpy}`." if symbol.numpy else ""
    operator = f" Relay: `{symbol.relay}`." if symbol.relay and symbol.relay != symbol.name else ""
    yield f"{symbol.summary}{twin}{operator}\n"
    if symbol.details:
        details = (detail.split(": ", 1) for detail in symbol.details)
        yield "; ".join(f"`{name}`: {kind}" for name, kind in details)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "operators": operators_page,
    "functions": functions_page,
    "magics": magics_page,
    "python": python_page,
}
