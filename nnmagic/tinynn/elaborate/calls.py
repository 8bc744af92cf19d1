"""Elaborate calls, and turn callable values into Relay functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from synr import ast

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.signatures import format_type
from nnmagic.relay.types import FuncType, TensorType
from nnmagic.tinynn.builtins import BUILTINS, MODULE_METHODS
from nnmagic.tinynn.builtins.argument_checks import dtype_of_operand
from nnmagic.tinynn.builtins.python_names import OVER_ITEMS, PARTIAL
from nnmagic.tinynn.builtins.torch_meaning import TORCH_KEYWORDS
from nnmagic.tinynn.builtins.torch_names import SIZE
from nnmagic.tinynn.calls.function_calls import call_constructor, call_function, call_value
from nnmagic.tinynn.calls.operator_arguments import call_with_arguments, convert_to_dtype
from nnmagic.tinynn.calls.row_lists import KEEPS_ITEMS, call_with_rows
from nnmagic.tinynn.elaborate import templates
from nnmagic.tinynn.elaborate.annotation_types import sizes_in_scope
from nnmagic.tinynn.elaborate.callbacks import call_callback, is_callback
from nnmagic.tinynn.elaborate.closures import inline_call, renew_closure
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.control_flow_blocks import Block, BlockExit, ExitKind, render
from nnmagic.tinynn.elaborate.conversions import convert_to_declared
from nnmagic.tinynn.elaborate.expressions import elaborate_name, evaluate_operands, range_as_array
from nnmagic.tinynn.elaborate.generators import call_with_generators, carry_out, is_state
from nnmagic.tinynn.elaborate.gradients import call_gradient
from nnmagic.tinynn.elaborate.let_bindings import atomize, hoist_lets, let_bind
from nnmagic.tinynn.elaborate.lists_as_rows import is_run_time
from nnmagic.tinynn.elaborate.loop_functions import call_in_loop
from nnmagic.tinynn.elaborate.operand_memory import check_operands
from nnmagic.tinynn.elaborate.operations import elaborate_operation
from nnmagic.tinynn.elaborate.python_functions import python_function
from nnmagic.tinynn.elaborate.records import make_record
from nnmagic.tinynn.elaborate.torch_modules import call_module
from nnmagic.tinynn.elaborate.type_questions import answer_type_question
from nnmagic.tinynn.namespace.unsupported_functions import CALLBACK
from nnmagic.tinynn.operators.iteration import ITERATION, columns_of_rows, count
from nnmagic.tinynn.operators.sets import OF_SETS
from nnmagic.tinynn.operators.tables import keys_of_entries, keys_of_table
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.types.annotations import DType, Generator, dtype_named
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe, source_text, with_article
from nnmagic.tinynn.values.operator_calls import is_tensor


def elaborate_call(ctx: Elaboration, expr: ast.Call) -> v.Value:
    """Elaborate a call of a function, or of an operator, which synr's tree writes in the same way."""
    if (answer := answer_type_question(ctx, expr)) is not None:
        return answer
    if isinstance(expr.func_name, ast.Op):
        return elaborate_operation(ctx, expr, apply_value)
    callee = _torch_method(ctx, expr) or _callee(ctx, expr)
    if is_callback(callee.value):
        return call_callback(ctx, expr)
    match expr.params:
        case [tree.Starred(value=ast.Var() as rows)] if callee.value == v.BuiltinName(ITERATION["zip"]):
            operand = ctx.operand(rows)
            if isinstance(operand.value, v.ListOfRows) and operand.value.columns:
                return columns_of_rows(operand.value, ctx.span(expr.span))
    since = len(ctx.changed_by_calls)
    operands = evaluate_operands(ctx, expr.params)
    is_zip = callee.value == v.BuiltinName(ITERATION["zip"])
    if is_zip and len(operands) == 1 and isinstance(operands[0].value, v.TupleOf):  # not of its items
        operands = [replace(operands[0], value=v.TupleOf((operands[0].value,)))]
    for key, value in expr.keyword_params.items():
        operands.append(v.Operand(ctx.evaluate(value), ctx.span(value.span), key.value))
    check_operands(ctx, (callee, *operands), since)
    if any(v.is_failed(operand.value) for operand in (callee, *operands)):
        return v.FAILED
    try:
        return apply_value(ctx, callee, operands, ctx.span(expr.span))
    except v.RefusalError as refusal:
        hiding = _shadowing_hint(ctx, expr.func_name)
        if hiding is None:
            raise
        error = refusal.diagnostic
        raise v.RefusalError(
            error.message, error.span or callee.span, hint=hiding, notes=error.notes
        ) from None


def _callee(ctx: Elaboration, expr: ast.Call) -> v.Operand:
    """Return what is called. Raises RefusalError."""
    if not isinstance(expr.func_name, ast.Var | ast.Attr):
        return ctx.operand(expr.func_name)
    try:
        return v.Operand(elaborate_name(ctx, expr.func_name), ctx.span(expr.func_name.span))
    except v.RefusalError as refusal:
        raise _with_callback(ctx, expr, refusal) from None


def _with_callback(ctx: Elaboration, expr: ast.Call, refusal: v.RefusalError) -> v.RefusalError:
    """Return a refusal of a function of Python whose hint has the call of it as a callback."""
    error = refusal.diagnostic
    if error.hint is None or CALLBACK not in error.hint or expr.keyword_params or not expr.params:
        return refusal
    result = "f64"
    with ctx.trial():
        for param in expr.params:
            value = ctx.evaluate(param)
            if isinstance(value, v.Computed) and isinstance(value.type, TensorType):
                result = format_type(value.type)
                break
    written = [source_text(ctx.span(part.span), as_argument=True) for part in (expr.func_name, *expr.params)]
    hint = error.hint.replace(CALLBACK, f"callback({', '.join(written)}, result={result})")
    return v.RefusalError(error.message, error.span or ctx.span(expr.span), hint=hint, notes=error.notes)


def _torch_method(ctx: Elaboration, expr: ast.Call) -> v.Operand | None:
    """Return PyTorch's method in ``x.size()`` and ``x.max(dim=1)``, whose meaning in NumPy is another."""
    callee = expr.func_name
    if not isinstance(callee, ast.Attr):
        return None
    name = callee.field.name
    if name == "size":
        method = SIZE
    elif name in MODULE_METHODS and any(key.value in TORCH_KEYWORDS for key in expr.keyword_params):
        method = MODULE_METHODS[name]
    else:
        return None
    root = callee.object
    while isinstance(root, ast.Attr):
        root = root.object
    if isinstance(root, ast.Var) and ctx.environment.owner(root.id.name) is None:
        return None
    owner = ctx.operand(callee.object)
    if not is_tensor(owner.value):
        return v.Operand(v.FAILED, owner.span) if v.is_failed(owner.value) else None
    return v.Operand(v.Method(owner, name, v.BuiltinName(method)), ctx.span(callee.span))


def _own_constant(ctx: Elaboration, constant: ir.Constant, operands: list[v.Operand]) -> None:
    """Record that a constant which a function made has memory of its own."""
    if not any(isinstance(item.value, v.Computed) and item.value.expr is constant for item in operands):
        ctx.memory.own(constant)


def _own_copy(ctx: Elaboration, result: v.Value, operands: list[v.Operand]) -> v.Value:
    """Return what a function made of a list of arrays, which NumPy copies to an array first."""
    if isinstance(result, v.Computed):
        given = (v.rows_of_list(operand.value) for operand in operands)
        if any(isinstance(value, v.Computed) and value.expr is result.expr for value in given):
            result = let_bind(ctx, result, "array")
        ctx.memory.own(result.expr)
    return result


def _shadowing_hint(ctx: Elaboration, callee: ast.Expr) -> str | None:
    """Return a hint where a written path such as ``nn.relu`` begins with a name of the function's own."""
    if not (isinstance(callee, ast.Attr) and isinstance(callee.object, ast.Var)):
        return None
    name, word = callee.object.id.name, callee.field.name
    if ctx.environment.owner(name) is None or f"{name}.{word}" not in OPERATORS:
        return None
    return f"`{name}` is a name of the function's own here: rename it, or write relay.{name}.{word}"


def _call_global(
    ctx: Elaboration, function: v.GlobalFunction, operands: list[v.Operand], span: Span
) -> v.Value:
    """Call a function of the module. Raises RefusalError."""
    if v.changes_arguments(function):
        raise _changing(function, span)
    if ctx.own_parameters and function.name == ctx.environment.name:
        try:
            operands = templates.without_static(ctx, function, operands, span)
        except v.RefusalError:
            result = templates.call_for_other_texts(ctx, function, operands, span, partial(as_function, ctx))
            if result is None:
                raise
            return _in_order(ctx, result)
        if templates.varies(ctx, function, operands, span):
            return v.FAILED
    if function.type is None and function.name in ctx.pending.unfinished:
        ctx.pending.awaited.add(function.name)
        weak = ctx.pending.weak_results.get(function.name)
        return (
            v.FAILED if weak is None else v.Computed(ir.GlobalVar(function.name, span=span), weak, weak=True)
        )
    if v.takes_generators(function):
        return call_with_generators(ctx, function, operands, span, partial(as_function, ctx))
    return _in_order(ctx, call_function(function, operands, span, partial(as_function, ctx)), operands)


def apply_value(ctx: Elaboration, callee: v.Operand, operands: list[v.Operand], span: Span) -> v.Value:
    """Call a value. Raises RefusalError."""
    ctx.count_work()
    convert = partial(as_function, ctx)
    match callee.value:
        case v.OperatorName(operator=operator):
            rows = [replace(operand, value=v.rows_of_list(operand.value)) for operand in operands]
            return call_with_arguments(operator, rows, span)
        case v.BuiltinName(builtin=builtin):
            return _call_builtin(ctx, builtin, operands, span)
        case v.Method(receiver=receiver, callee=function):
            return apply_value(ctx, v.Operand(function, callee.span), [receiver, *operands], span)
        case v.GlobalFunction() as function:
            return _call_global(ctx, function, operands, span)
        case v.ClosureValue() as closure:
            current = renew_closure(ctx, closure)
            if current is None:
                return v.FAILED
            return _in_order(ctx, call_function(current, operands, span, convert))
        case v.LocalFunction() as local if local.name in ctx.recursive and templates.is_template(ctx, local):
            return _in_order(ctx, templates.call_specialized(ctx, local, operands, span, convert), operands)
        case v.LocalFunction() as local:
            return inline_call(ctx, local, operands, callee.span, span, convert)
        case v.SpecializableFunction() as template:
            if template.code is not None and any(map(_is_inlined, operands)):
                code = v.ModuleOf(template.code, template.written, {}, "")
                inlined = v.Operand(python_function(ctx, code, callee.span), callee.span)
                return apply_value(ctx, inlined, operands, span)
            return _in_order(
                ctx, templates.call_specialized(ctx, template, operands, span, convert), operands
            )
        case v.ModuleOf() as module:
            return call_module(ctx, module, operands, callee.span, span, convert)
        case v.GradientOf(kind="bound") as bound:
            return _call_bound(ctx, bound, operands, span)
        case v.GradientOf(kind="choice") as choice:
            return _call_chosen(ctx, choice, operands, span)
        case v.GradientOf() as gradient:
            return call_gradient(ctx, gradient, operands, span, apply_value)
        case v.Computed(type=FuncType()) as function_value:
            return _in_order(ctx, call_value(function_value, operands, span, convert))
        case v.ConstructorName() as constructor:
            return call_constructor(constructor, operands, span, convert)
        case v.RecordName(type=record):
            return make_record(record, operands, span, convert)
        case v.DataTypeName() as data if (make := v.record_constructor(data)) is not None:
            return call_constructor(make, operands, span, convert)
        case v.TupleConstructor(name="tuple"):
            return ITERATION["list"].call(operands, span)
        case v.TupleConstructor(name="dtype") if len(operands) == 1:
            return v.Known(dtype_named(dtype_of_operand(operands[0], "np.dtype")))
        case v.Known(value=DType() as dtype):
            return convert_to_dtype(dtype.name, dtype.short, operands, span)
        case v.Known(value=Generator()) if len(operands) == 1 and isinstance(
            operands[0].value, v.GeneratorOf
        ):
            return operands[0].value
    raise _not_callable(callee)


def _not_callable(callee: v.Operand) -> v.RefusalError:
    """Return the error for a call of a value."""
    hint: str | None = None
    word = source_text(callee.span)
    if isinstance(callee.value, v.TupleConstructor):
        hint = 'a type has square brackets, as in Tensor[("n", 3), f32]'
    elif isinstance(callee.value, v.DataTypeName):
        hint = f"call one of its constructors: {', '.join(callee.value.fields)}"
    if word in BUILTINS and isinstance(callee.value, v.Known | v.TupleOf | v.Computed):
        hint = f"`{word}` is a name of the function's own here, which hides the function: rename it"
    elif isinstance(callee.value, v.Known | v.TupleOf) and not source_text(callee.span).isidentifier():
        hint = "it is a value, not a method: leave the brackets out, or index a shape, as in x.shape[0]"
    elif isinstance(callee.value, v.Computed):
        hint = "leave the brackets out, or index it, as in x[0]"
    return v.RefusalError(f"{describe(callee.value)} cannot be called", callee.span, hint=hint)


def _call_bound(ctx: Elaboration, bound: v.GradientOf, operands: Sequence[v.Operand], span: Span) -> v.Value:
    """Call a function with arguments that were given before. Raises RefusalError."""
    both = (*bound.arguments, *operands)
    named = {operand.keyword: operand for operand in both if operand.keyword is not None}
    first = [operand for operand in both if operand.keyword is None]
    return apply_value(ctx, bound.function, [*first, *named.values()], span)


def _call_chosen(
    ctx: Elaboration, choice: v.GradientOf, operands: Sequence[v.Operand], span: Span
) -> v.Value:
    """Call one of several functions, of that number. Raises RefusalError."""
    names = [f"a{number}" for number in range(len(operands))]
    pairs = zip(names, operands, strict=True)
    given = ", ".join(name if each.keyword is None else f"{each.keyword}={name}" for name, each in pairs)
    functions = [f"f{number}" for number in range(len(choice.arguments))]
    lines = [f"def chosen({', '.join(('index', *functions, *names))}):\n"]
    for number, function in enumerate(functions[:-1]):
        lines.append(f"    if index == {number}:\n        return {function}({given})\n")
    lines.append(f"    return {functions[-1]}({given})\n")
    call = v.LoopCall("text", (choice.function, *choice.arguments, *operands), text="".join(lines))
    return call_in_loop(ctx, call, span, apply_value)


def _call_builtin(
    ctx: Elaboration, builtin: v.BuiltinFunction, operands: list[v.Operand], span: Span
) -> v.Value:
    """Call a function of the language. Raises RefusalError."""
    if builtin is PARTIAL and operands and operands[0].keyword is None:
        _ = builtin.call([each for each in operands if each.keyword is None], span)  # it takes a function
        return v.GradientOf("bound", operands[0], arguments=tuple(operands[1:]))
    if builtin.name not in _OF_TABLES:
        operands = list(map(keys_of_table, operands))
    if builtin.name in OVER_ITEMS:
        operands = list(map(keys_of_entries, operands))
    if builtin is BUILTINS["sum"] and isinstance(operands[0].value, v.TupleOf | v.ListOfRows):
        operands = [replace(each, keyword=None) if each.keyword == "start" else each for each in operands]
    if builtin is ITERATION["list"] and (made := _as_list(operands)) is not None:
        return made
    if any(isinstance(operand.value, v.ListOfRows) for operand in operands):
        result = call_with_rows(builtin, operands, span, BUILTINS)
        if ctx.changes_tensors and builtin.name not in KEEPS_ITEMS and isinstance(result, v.Computed):
            return _own_copy(ctx, hoist_lets(ctx, result), operands)
    else:
        result = builtin.call(operands, span)
    if isinstance(result, v.GradientOf) and result.kind in ("vjp", "jvp", "tree_map", "stop"):
        return call_gradient(ctx, result, [], span, apply_value)
    if isinstance(result, v.LoopCall):
        return call_in_loop(ctx, result, span, apply_value)
    if isinstance(result, v.Draw):
        return carry_out(ctx, result, span)
    if builtin is BUILTINS["take"] and not is_run_time(operands[1:2]) and isinstance(result, v.Computed):
        ctx.memory.own(result.expr)  # what an array of indices chooses is a copy
    if isinstance(result, v.Computed) and isinstance(result.expr, ir.Constant):
        _own_constant(ctx, result.expr, operands)
    return result


#: What takes a dictionary as it is; of others it is the list of its keys.
_OF_TABLES = frozenset({"len", "keys", "values", "items", "get", "copy", "most_common", *OF_SETS})


def _is_inlined(operand: v.Operand) -> bool:
    """Return whether an argument is a function that no compiled function can take."""
    return isinstance(operand.value, v.LocalFunction | v.BuiltinName | v.SpecializableFunction)


def _as_list(operands: Sequence[v.Operand]) -> v.ListOfRows | None:
    """Return the list of as many numbers or rows as only the call knows; None for any other list."""
    if len(operands) != 1:
        return None
    match operands[0].value:
        case v.Zipped(word="reversed", parts=(only,)) if isinstance(count(only), v.Computed):
            whole = only.value if isinstance(only.value, v.ListOfRows) else _as_list([only])
            if whole is None or whole.is_table:
                return None
            rows = BUILTINS["flip"].call(
                [replace(only, value=whole.rows), v.Operand(v.Known(0), only.span)], only.span
            )
            assert isinstance(rows, v.Computed)
            return replace(whole, rows=replace(rows, weak=whole.rows.weak), is_row=False)
    array = range_as_array(operands[0])
    if not isinstance(array.value, v.Computed) or not isinstance(count(array), v.Computed):
        return None
    is_range = array is not operands[0]
    return v.ListOfRows(replace(array.value, weak=is_range or array.value.weak))


def _in_order(ctx: Elaboration, result: v.Value, operands: Sequence[v.Operand] = ()) -> v.Value:
    """Return the result of a call; one that may have effects is bound by let, where it is written.

    So is a list, which may be one of those that were given, as Python's function may give it back.
    """
    is_list = (isinstance(each.value, v.ListOfRows | v.TupleOf) for each in operands)
    lists = [each.value for each, chosen in zip(operands, is_list, strict=True) if chosen]
    given = [each for each in v.parts_of(result) if isinstance(each, v.ListOfRows)] if lists else []
    if not ctx.keeps_order and not given:
        return result
    result = atomize(ctx, result, "called", set())
    for part in v.parts_of(result) if given else ():
        if isinstance(part, v.ListOfRows):
            ctx.note_merged_lists(part, lists)
    return result


def _changing(function: v.GlobalFunction, span: Span) -> v.RefusalError:
    """Return the error for a use of a function that changes arguments other than a call of its own."""
    arguments = ", ".join(formal.name for formal in function.parameters)
    message = f"`{function.written}` changes its arguments, and is called in a statement of its own"
    call = f"{function.written}({arguments})"
    return v.RefusalError(message, span, hint=f"write {call}, or y = {call}, on a line before")


def as_function(ctx: Elaboration, value: v.Operand, wanted: FuncType) -> v.Computed:
    """Convert a value to a Relay function of a type. Raises RefusalError."""
    match value.value:
        case v.GlobalFunction() as function if v.changes_arguments(function) or v.takes_generators(function):
            raise _changing(function, value.span)
        case v.GlobalFunction(name=name, type=FuncType() as type_) if type_ == wanted:
            return v.Computed(ir.GlobalVar(name, span=value.span), type_)
        case v.ClosureValue(function=v.Computed(type=type_)) as closure if type_ == wanted:
            current = renew_closure(ctx, closure)
            if current is not None:
                return current.function
        case v.Known() | v.Dimension() | v.TupleOf():
            raise v.RefusalError(f"expected a function, found {describe(value.value)}", value.span)
    block, outer = Block(), ctx.block
    params = [
        ir.Var(name, type_, span=value.span)
        for name, type_ in zip(_parameter_names(value.value, wanted), wanted.arg_types, strict=True)
    ]
    operands = [
        v.Operand(v.as_value(param, param.type_annotation), value.span)
        for param in params
        if param.type_annotation
    ]
    callee = v.Operand(atomize(ctx, value.value, "function", set()), value.span)
    with ctx.inside(block, ctx.environment.bindings.copy()), ctx.frozen_generators(is_state):
        result = apply_value(ctx, callee, operands, value.span)
    assert ctx.block is outer
    if v.is_failed(result):
        raise v.RefusalError(f"expected {with_article(wanted)}", value.span)
    what = f"the result of {describe(value.value)}"
    converted = convert_to_declared(
        what, wanted.ret_type, v.Operand(result, value.span), None, sizes_in_scope(ctx)
    )
    block.end = BlockExit(ExitKind.RETURNS, value.span)
    body = render(block, converted.type, lambda _leaf: converted.expr)
    return v.Computed(ir.Function(tuple(params), body, wanted.ret_type, span=value.span), wanted)


def _parameter_names(value: v.Value, wanted: FuncType) -> list[str]:
    formals = (
        value.parameters
        if isinstance(value, v.GlobalFunction | v.LocalFunction | v.SpecializableFunction | v.ClosureValue)
        else ()
    )
    if len(formals) == len(wanted.arg_types):
        return [formal.name for formal in formals]
    return [f"x{index}" if index else "x" for index in range(len(wanted.arg_types))]
