"""Declare the data types and records of a cell."""

from __future__ import annotations

from dataclasses import replace

from nnmagic.limits import MAX_TUPLE_SIZE
from nnmagic.relay import expr as ir
from nnmagic.relay import types as ty
from nnmagic.relay.infer.unify import MAX_NESTING
from nnmagic.relay.module import TypeData
from nnmagic.tinynn.elaborate.annotation_types import type_or_none
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.types.part_counts import count_parts, nesting
from nnmagic.tinynn.values import values as v


def declare_types(ctx: Elaboration, cell: tree.CellNode) -> None:
    """Declare all data types of the cell; each may hold any other."""
    for name, data in cell.types.items():
        if data.is_record:
            continue
        fields = {
            constructor.name: tuple(field.name for field in constructor.fields)
            for constructor in data.constructors
        }
        header = ty.GlobalTypeVar(name)
        ctx.resolver.data_types[name] = v.DataTypeName(TypeData(header, (), ()), fields)
    for name, data in cell.types.items():
        if data.is_record:
            _declare_record(ctx, name, data)
            continue
        data_type = ctx.resolver.data_types[name]
        constructors: list[ir.Constructor] = []
        for declared in data.constructors:
            span = ctx.span(declared.span)
            others = {*cell.funcs, *cell.types, *ctx.resolver.constructors} - {name}
            if declared.name in others:
                hint = "give it another name: constructors are called by their bare names"
                ctx.report(v.RefusalError(f"the name `{declared.name}` is taken", span, hint=hint))
            types = [type_or_none(ctx, field.ty) for field in declared.fields if field.ty is not None]
            for field in declared.fields:
                if field.default is not None:
                    message = "a constructor's field has no default"
                    ctx.report(v.RefusalError(message, ctx.span(field.default.span), hint="leave it out"))
            inputs = tuple(type_ for type_ in types if type_ is not None)
            if len(inputs) < len(declared.fields):
                inputs += (ty.GlobalTypeVar("failed"),) * (len(declared.fields) - len(inputs))
            constructors.append(
                ir.Constructor(declared.name, inputs, data_type.type.header, len(constructors), span=span)
            )
        complete = replace(data_type, type=TypeData(data_type.type.header, (), tuple(constructors)))
        try:
            ctx.resolver.declare(complete, ctx.span(data.name_span))
        except v.RefusalError as refusal:
            ctx.report(refusal)


def _declare_record(ctx: Elaboration, name: str, data: tree.DataTypeNode) -> None:
    """Declare a record, whose fields may be records that are declared above it."""
    (declared,) = data.constructors
    types = [type_or_none(ctx, field.ty) for field in declared.fields if field.ty is not None]
    known = tuple(type_ for type_ in types if type_ is not None)
    record = ty.RecordType(known, name, tuple(field.name for field in declared.fields))
    is_wide = count_parts(record) > MAX_TUPLE_SIZE
    if is_wide or nesting(record) > MAX_NESTING:
        limit = f"has more than {MAX_TUPLE_SIZE} parts" if is_wide else f"nests more than {MAX_NESTING} deep"
        ctx.report(v.RefusalError(f"the record `{name}` {limit}", ctx.span(data.name_span)))
    elif len(known) == len(declared.fields):
        ctx.resolver.records[name] = v.RecordName(record)
        return
    ctx.resolver.failed_records.add(name)
