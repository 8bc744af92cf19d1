"""The elaboration asks what a program has; the handlers after which it goes on are listed, with reasons."""

from __future__ import annotations

from pathlib import Path

from tests.handlers import handlers_in

ELABORATE = Path(__file__).parents[3] / "nnmagic" / "tinynn" / "elaborate"

#: Errors of a cell are reported all at once: what was refused is a value that failed, and the rest is read.
REPORTING = {
    "annotation_types _resolve_or_report",
    "cell_functions _try_body",
    "context Elaboration.evaluate",
    "function_signatures _known_argument",
    "function_signatures elaborate_formals",
    "gradient_operands primals_of",
    "joins exit_expressions",
    "joins plan_joins",
    "operations binary_operation",
    "sequencing _run_step",
    "type_declarations declare_types",
}

#: What cannot be asked beforehand, since the answer is what the elaboration of a part gives.
TRIED = {
    "annotation_types is_open": "what an annotation leaves open; errors in it are reported at its use",
    "attempts _attempt": "an unrolled loop that turns out too large or to need a branch is undone",
    "calls _call_global": "recursion whose texts differ from call to call, where they cannot stay fixed",
    "comprehensions _elaborate": "a condition that only the call knows: the comprehension is a loop",
    "conditions _speculate_bool": "an operand of `and` and `or` that is not total: it gets a branch",
    "custom_rules _Custom._function": "a rule with an error, which was reported",
    "merging _choice": "branches whose tuples join in no other way are a choice of functions",
    "varying_results plan_lists": "results that are no lists alike are merged as other values are",
    "templates varies": "an argument that the call refuses, later and in its own words",
}

#: Questions that their libraries answer by raising.
ASKING = {
    "annotation_types _parse_dimension": "whether a text is arithmetic on names, for the hint",
    "callbacks _check_sizes": "whether a label is arithmetic on names",
    "imports _import": "whether a module is there",
    "matching _missing_cases": "too many cases to name one",
    "python_functions _definition_of": "whether a function's source is there",
    "python_functions _lambda_source": "whether a lambda's source is there",
    "python_functions _names_of": "whether a closure's name has a value yet",
}


def test_handlers_of_the_elaboration_are_known() -> None:
    assert handlers_in(ELABORATE) == REPORTING | TRIED.keys() | ASKING.keys()
