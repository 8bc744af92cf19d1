"""Declarations say what passes know of operators; the few tables of their names elsewhere are listed here."""

import ast
from pathlib import Path

import nnmagic.relay
from nnmagic.relay.ops.declaration import OPERATORS

PACKAGE = Path(nnmagic.relay.__file__).parents[1]

#: Where rules of operators are: their names are what the rules are found by.
RULES = (
    *("relay/ops/", "relay/reference/", "relay/gradients/", "relay/batching/", "relay/complex_numbers/"),
    *("relay/functions/", "engine/relax/legalize/", "exporters/", "importers/"),
)

#: Where the same words are functions of the language, of TIR, or of LLVM.
OTHER_WORDS = (
    *("tinynn/builtins/", "tinynn/calls/", "tinynn/editor/", "tinynn/namespace/", "tinynn/syntax/"),
    *("engine/relax/codegen/", "engine/relax/runtime/", "engine/relax/schedules/", "engine/relax/tir/"),
)

TABLES = {
    "engine.relax.analysis.value_sizes _ARITHMETIC": "what computes a size of sizes",
    "engine.relax.analysis.value_sizes _SIZES": "which operand is a size of the result",
    "jupyter.operator_search _SYNONYMS": "words that people search for",
    "relay.passes.expand_operators EXPANSIONS": "rules: what operators stand for",
    "relay.passes.numpy_evaluator _GROUPS": "rules: how constants are folded",
    "relay.passes.partial_sorts _SORTS": "what becomes which form of topk",
    "tinynn.analysis.dependences _EXTREMES": "Python's and NumPy's names",
    "tinynn.analysis.kernels _INDEXING": "what a kernel may do to one element",
    "tinynn.operators.arithmetic NAMED": "the signs of the language",
    "tinynn.values.operator_restrictions _RULES": "rules: what cells refuse beyond Relay",
}


def tables() -> set[str]:
    """Return the constants of modules that name at least three operators, and little else."""
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).as_posix()
        if module.startswith(RULES + OTHER_WORDS):
            continue
        for statement in ast.parse(path.read_text()).body:
            if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
                nodes = ast.walk(statement.value)
                texts = [node.value for node in nodes if isinstance(node, ast.Constant)]
                words = [word for text in texts if isinstance(text, str) for word in text.split()]
                names = [word for word in words if word in OPERATORS]
                if len(set(names)) >= 3 and len(names) >= 0.6 * len(words):
                    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
                    name = module.removesuffix(".py").replace("/", ".")
                    found.add(f"{name} {ast.unparse(target)}")
    return found


def test_at_most_ten_tables_elsewhere_name_operators():
    assert tables() == TABLES.keys()
    assert len(TABLES) <= 10
