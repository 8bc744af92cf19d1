"""Make the typed program of a cell: parse it, elaborate it, infer its types. Imports the front end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nnmagic.diagnostics import Source
from nnmagic.functions.arguments.records import record_class
from nnmagic.functions.caching.compile_options import Options
from nnmagic.functions.caching.fingerprint import fingerprint
from nnmagic.functions.caching.typed_cell import TypedCell
from nnmagic.functions.cells.unproven_loops import refuse_unproven
from nnmagic.functions.data_types import data_type
from nnmagic.relay.infer import infer_type
from nnmagic.relay.text.parser import parse_module
from nnmagic.tinynn import compile_source
from nnmagic.tinynn.program import Specialization


def type_cell(
    source: Source,
    namespace: Mapping[str, object],
    options: Options,
    language: str,
    specialization: Specialization | None,
) -> TypedCell:
    """Return the typed program of a source. Raises TinyNNError and RelayError."""
    if language == "relay":
        module = infer_type(parse_module(source))
        refuse_unproven(module)
        return TypedCell(module, dict.fromkeys(module.functions, source.text), own_types=tuple(module.types))
    program = compile_source(source, namespace, specialization, promote=options.promote, debug=options.debug)
    module = program.module
    own_types = [info.name for info in program.types]
    classes = (
        data_type(name, module.types, program.known_types) for name in own_types if not name.startswith("_")
    )
    records = (record_class(record) for record in program.records if not record.name.startswith("_"))
    return TypedCell(
        module,
        texts={
            info.name: _without_indent(info.source, source.indent)
            for info in program.functions
            if info.name in module.functions
        },
        docs={info.name: info.docstring for info in program.functions},
        parameters={info.name: info.parameters for info in program.functions},
        captured={name: fingerprint(value) for name, value in program.captured.items()},
        values=program.captured,
        own_types=own_types,
        types=(*classes, *records),
        infos=program.known_types,
        open_functions=tuple(
            replace(info, source=_without_indent(info.source, source.indent))
            for info in program.functions
            if info.open and specialization is None
        ),
        free_names=program.free_names,
        warnings=program.warnings,
    )


def _without_indent(text: str, indent: int) -> str:
    """Return a function's text without the indentation that was removed from the source."""
    return "\n".join(line[indent:] for line in text.split("\n"))
