"""A cell as a whole: its data types, its functions in the order of their calls, recursion among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnmagic.relay import expr as ir
from nnmagic.relay.module import TypeData
from nnmagic.relay.types import FuncType, GlobalTypeVar, Type
from nnmagic.tinynn.analysis.bound_names import (
    assigned_names,
    callees_first,
    mentioned_names,
    reassigned_names,
)
from nnmagic.tinynn.calls.defaults import as_python
from nnmagic.tinynn.elaborate.annotation_types import annotated_type, as_declared, named_dimensions
from nnmagic.tinynn.elaborate.context import WorkLimitError
from nnmagic.tinynn.elaborate.control_flow_blocks import Block
from nnmagic.tinynn.elaborate.statements import Statements
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values.environments import Env, Environment
from nnmagic.tinynn.values.values import (
    FAILED,
    Computed,
    DataTypeName,
    Formal,
    GlobalFunction,
    Known,
    NotStaticError,
    Operand,
    RefusalError,
    computed,
    described,
    is_failed,
)

#: How often the functions of a group are tried, each time with what is known of the others.
_ROUNDS = 3


@dataclass(slots=True)
class _Signature:
    """A function's parameters with their types (None where an error was reported) and declared result."""

    parameters: list[tuple[tree.ParameterNode, Type | None]]
    declared: Type | None
    failed: bool


class Elaborator(Statements):
    """Walks a cell's tree; expressions give values, and errors are gathered, not raised."""

    def transform_module(self, mod: tree.CellNode) -> dict[str, ir.Function]:
        """The Relay functions of the cell, in source order."""
        self.scope.linker.reserved.update(mod.funcs)
        self._declare_types(mod)
        signatures = {name: self._signature(definition) for name, definition in mod.funcs.items()}
        self.scope.refused = mod.refused
        for name, signature in signatures.items():
            self.scope.functions[name] = GlobalFunction(name, name, self._formals(signature), None)
            if signature.declared is not None and not signature.failed:
                self._set_type(name, signature, signature.declared)
        self.unfinished = set(mod.funcs)
        done: dict[str, ir.Function | None] = {}
        for group in callees_first(mod.funcs):
            self._find_types(group, mod, signatures)
            for name in group:
                done[name] = self._function(mod.funcs[name], signatures[name])
            self.unfinished.difference_update(group)
        return {name: function for name in mod.funcs if (function := done[name]) is not None}

    # -- data types ------------------------------------------------------------------------------------

    def _declare_types(self, mod: tree.CellNode) -> None:
        """All data types of the cell; each may hold any other."""
        for name, data in mod.types.items():
            fields = {each.name: tuple(field.name for field in each.fields) for each in data.constructors}
            header = GlobalTypeVar(name)
            self.scope.data_types[name] = DataTypeName(TypeData(header, (), ()), fields)
        for name, data in mod.types.items():
            known = self.scope.data_types[name]
            constructors: list[ir.Constructor] = []
            for declared in data.constructors:
                place = self.place(declared.span)
                others = {*mod.funcs, *mod.types, *self.scope.constructors} - {name}
                if declared.name in others:
                    hint = "give it another name: constructors are called by their bare names"
                    self.report(RefusalError(f"the name `{declared.name}` is taken", place, hint=hint))
                types = [self.type_or_none(field.ty) for field in declared.fields if field.ty is not None]
                for field in declared.fields:
                    if field.default is not None:
                        message = "a constructor's field has no default"
                        self.report(
                            RefusalError(message, self.place(field.default.span), hint="leave it out")
                        )
                inputs = tuple(type_ for type_ in types if type_ is not None)
                if len(inputs) < len(declared.fields):
                    inputs += (GlobalTypeVar("failed"),) * (len(declared.fields) - len(inputs))
                constructors.append(
                    ir.Constructor(declared.name, inputs, known.type.header, len(constructors), span=place)
                )
            complete = replace(known, type=TypeData(known.type.header, (), tuple(constructors)))
            try:
                self.scope.declare(complete, self.place(data.name_span))
            except RefusalError as refusal:
                self.report(refusal)

    # -- signatures ------------------------------------------------------------------------------------

    def _signature(self, definition: tree.FunctionNode) -> _Signature:
        parameters = [
            (each, None if each.ty is None else self.type_or_none(each.ty)) for each in definition.params
        ]
        declared = None if definition.ret_type is None else self.type_or_none(definition.ret_type)
        failed = any(type_ is None for _, type_ in parameters) or (
            definition.ret_type is not None and declared is None
        )
        return _Signature(parameters, declared, failed)

    def _formals(self, signature: _Signature) -> tuple[Formal, ...]:
        """The parameters as a caller sees them. A default must be known while compiling."""
        formals = []
        for parameter, type_ in signature.parameters:
            default = None
            if parameter.default is not None:
                default = self.transform_expr(parameter.default)
                if not is_failed(default) and type_ is not None:
                    try:
                        value = Operand(default, self.place(parameter.default.span))
                        self.check_default(parameter.name, type_, value)
                    except RefusalError as refusal:
                        self.report(refusal)
                        default = FAILED
            formals.append(Formal(parameter.name, parameter.kind, default))
        return tuple(formals)

    def check_default(self, name: str, type_: Type, value: Operand) -> None:
        """Refuses a default that the parameter's type cannot hold. Raises Refusal."""
        if value.value == Known(None):
            hint = "write a number, a string or a name of the notebook; or leave the default out"
            raise RefusalError(f"the default of `{name}` is None, which is no tensor", value.span, hint=hint)
        as_declared(f"the default of `{name}`", type_, value, None)
        try:
            as_python(value.value)
        except NotStaticError:
            hint = "compute it in another cell, and write the name that holds it"
            if isinstance(type_, FuncType):
                hint = "leave the default out, and give a function in each call"
            message = f"the default of `{name}` is {described(value.value)} that is not known while compiling"
            raise RefusalError(message, value.span, hint=hint) from None

    def type_or_none(self, annotation: tree.Annotation) -> Type | None:
        """The type that an annotation means; None where an error was reported."""
        try:
            return self.transform_type(annotation)
        except RefusalError as refusal:
            self.report(refusal)
        except RecursionError:
            self.report_depth(annotation.span)
        return None

    def transform_type(self, ty: tree.Annotation) -> Type | None:
        """The type that an annotation means, or None where an error was reported. Raises Refusal."""
        value = self.transform_expr(ty.expr)
        return None if is_failed(value) else annotated_type(Operand(value, self.place(ty.span)))

    def _set_type(self, name: str, signature: _Signature, result: Type) -> None:
        types = tuple(type_ for _, type_ in signature.parameters if type_ is not None)
        known = self.scope.functions[name]
        self.scope.functions[name] = replace(known, type=FuncType(types, result))

    # -- functions -------------------------------------------------------------------------------------

    def _find_types(
        self, group: Sequence[str], mod: tree.CellNode, signatures: dict[str, _Signature]
    ) -> None:
        """Result types of functions that call each other and do not declare them: found by trying."""
        called = mentioned_names([mod.funcs[each].body for each in group])
        waiting = [name for name in group if name in called and not signatures[name].failed]
        for _ in range(_ROUNDS * len(group)):
            waiting = [name for name in waiting if self.scope.functions[name].type is None]
            before = dict(self.weak_results)
            found = [self._try(name, mod, signatures) for name in reversed(waiting)]
            if not any(found) and before == self.weak_results:
                break
        for name, type_ in self.weak_results.items():
            if self.scope.functions[name].type is None:
                self._set_type(name, signatures[name], type_)
        self.weak_results.clear()

    def _try(self, name: str, mod: tree.CellNode, signatures: dict[str, _Signature]) -> bool:
        """Whether a function's result type is found, by what is known of the others."""
        with self.trial():
            self.awaited.clear()
            self.guessing = True
            made = self._elaborated(mod.funcs[name], signatures[name])[1]
            self.guessing = False
            asked = bool(self.awaited)
        if made is None:
            return False
        if made.weak and asked:  # a number alone takes the dtype that the other branches ask for
            self.weak_results[name] = made.type
            return False
        self._set_type(name, signatures[name], made.type)
        return True

    def _function(self, definition: tree.FunctionNode, signature: _Signature) -> ir.Function | None:
        """The Relay function, or None where an error was reported; callers know its type from then on."""
        name, before = definition.name, len(self.found.found)
        self.awaited.clear()
        params, made = self._elaborated(definition, signature)
        if self.awaited and len(self.found.found) == before:
            hint = "write the type of its result, as in -> Tensor[(2, 3), f32], and let a branch end it"
            message = f"`{name}` calls itself, and no branch says what it returns"
            self.found.error(message, self.place(definition.name_span), hint=hint)
        if made is None or signature.failed or len(self.found.found) > before:
            if signature.declared is None:
                self.scope.functions[name] = replace(self.scope.functions[name], type=None)
            return None
        self._set_type(name, signature, made.type)
        return ir.Function(params, made.expr, made.type, span=self.place(definition.span))

    def _elaborated(
        self, definition: tree.FunctionNode, signature: _Signature
    ) -> tuple[tuple[ir.Var, ...], Computed | None]:
        """The parameters and the result; None for it where an error was reported."""
        env, dimensions, params = Env(), dict[str, str](), list[ir.Var]()
        for parameter, type_ in signature.parameters:
            place = self.place(parameter.span)
            if type_ is None:
                env.bind(parameter.name, FAILED, place)
                continue
            variable = ir.Var(parameter.name, type_, span=place)
            params.append(variable)
            env.bind(parameter.name, computed(variable, type_), place)
            for label, written in named_dimensions(parameter.name, type_):
                dimensions.setdefault(label, written)
        body = definition.body
        again = reassigned_names(body, env.locals)
        frame = Environment(definition.name, frozenset(assigned_names(body)), again, None, env, dimensions)
        frame.failed = signature.failed
        outer, self.frame, self.block, self.live = self.frame, frame, Block(), frozenset()
        try:
            self.fill(self.block, self.steps(definition.body.stmts), self.place(definition.name_span))
            return tuple(params), self.finished(definition, self.block, signature.declared)
        except RefusalError as refusal:
            self.report(refusal)
        except RecursionError:
            self.report_depth(definition.name_span)
        except WorkLimitError:
            hint = "its loops are written out too often: use fewer rounds, or operators on whole tensors"
            place = self.place(definition.name_span)
            self.found.error(f"`{definition.name}` takes too long to compile", place, hint=hint)
        finally:
            self.frame = outer
        return tuple(params), None
