"""Lower a typed Relay module to a Relax module: graphs to bindings, operator calls by the table of rules.

Nothing recurses over the length of a program; only nested branches and inlined functions nest, to a limit.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import tvm
from tvm import relax, tirx, topi

from nnmagic.diagnostics import Diagnostics, InternalError, internal_error
from nnmagic.engine import EngineError, engine_error
from nnmagic.engine.relax.analysis.assertions import FAIL
from nnmagic.engine.relax.analysis.attention import ATTENTION
from nnmagic.engine.relax.analysis.cell_operators import CELL_OPERATORS, FIELD
from nnmagic.engine.relax.analysis.entry_signature import type_of
from nnmagic.engine.relax.analysis.inline_plan import plan_inlining
from nnmagic.engine.relax.analysis.tuple_flattening import leaves
from nnmagic.engine.relax.deferred_interrupts import interrupt_safepoint
from nnmagic.engine.relax.legalize import BLOCKED_RULES, RULES, OpCall, Value
from nnmagic.engine.relax.legalize.blocked.layout import Blocked
from nnmagic.engine.relax.legalize.extern_loops import COPIES_RESULT
from nnmagic.engine.relax.legalize.kernel_cache import KernelCache, key_of
from nnmagic.engine.relax.legalize.registry import OPAQUE, assertion, shape_of, tensor_dtype
from nnmagic.engine.relax.legalize.size_names import SizeNames
from nnmagic.engine.relax.legalize.size_values import SizeValues
from nnmagic.engine.relax.lowering.bindings import (
    labels_of,
    may_be_equal,
    nest_like,
    pack,
    parameter,
    position,
    remove_unused_bindings,
)
from nnmagic.engine.relax.lowering.cells import lower_cell_operator, type_in_cell
from nnmagic.engine.relax.lowering.origins import OriginBuilder
from nnmagic.engine.relax.lowering.passed_sizes import DifferentSizesError, PassedSizes
from nnmagic.engine.relax.lowering.shape_checks import emit_shape_check, empty_result, move_checks_first
from nnmagic.engine.relax.lowering.symbolic_dims import SymbolicDims
from nnmagic.engine.relax.runtime.callbacks import ASSERTED
from nnmagic.engine.relax.runtime.compiled_program import ENTRY, MAX_CALL_DEPTH, TOO_DEEP
from nnmagic.engine.relax.runtime.tensors import as_tensor
from nnmagic.engine.relax.tir.types import Extent, RelaxExpr
from nnmagic.limits import MAX_NESTED_BRANCHES
from nnmagic.relay import expr as ir
from nnmagic.relay.annotations import BACKWARD_LOOP, KERNEL, reductions_of
from nnmagic.relay.callbacks import CALLBACK
from nnmagic.relay.module import Module
from nnmagic.relay.passes.expand_operators import EXPANSIONS
from nnmagic.relay.passes.scopes import PlacementScope, Scopes, scopes_of
from nnmagic.relay.structure.callgraph import CallGraph, reachable
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.structure.tuple_trees import flatten, rebuild
from nnmagic.relay.text.types import type_text
from nnmagic.relay.types import TensorType, TupleType, Type
from nnmagic.tracebacks import is_own_fault

#: Marks a function whose calls at its own end are rounds of a loop: they do not count as recursion.
LOOP = "nnmagic.loop"

#: Marks a function whose calls of itself do not count as recursion wherever they stand.
UNLIMITED = "nnmagic.unlimited"

#: Marks one whose rounds threads share. JSON: the numbers of what it reduces to, with the operators.
PARALLEL_LOOP = "nnmagic.parallel"

#: Marks a function that is one of the machine code, and is shown as TIR.
KERNEL_FUNCTION = "nnmagic.kernel"

#: The size that tells a function how deep its call is; no dimension of a program has a name like this.
CALL_DEPTH = "call.depth"

#: A block of bindings that TVM's builder has finished.
BindingBlock: TypeAlias = relax.BindingBlock


def lower_module(
    module: Module,
    entries: Mapping[str, str],
    graph: CallGraph,
    loops: Collection[str] = (),
    uncopied: Collection[int] = (),
) -> tvm.IRModule:
    """Lower first-order functions to a Relax module.

    Parameters and results are flattened to their tensors. The result has the attribute ``deep_calls`` where
    it calls functions that are not inlined.

    Args:
        module: A typed module.
        entries: The name of each entry in Relax, with the name of its function in ``module``.
        graph: The call graph of ``module``.
        loops: The functions that are marked by the attribute ``LOOP``.
        uncopied: The results of the entries that may share memory with parameters and other results.

    Raises:
        EngineError: For what the engine cannot run.

    """
    excluded: frozenset[tuple[str, str | int | None]] = frozenset()
    lowered: tvm.IRModule | None = None
    while lowered is None:
        lowering = _Lowering(module, graph, loops, uncopied, excluded)
        with suppress(DifferentSizesError):
            lowered = lowering.run(entries)
        excluded = lowering.passed_sizes.excluded
    return lowered


@dataclass(slots=True)
class _Frame:
    """One function body that is being lowered.

    scopes: where each node is computed. nodes: those of each scope, in order. labels: the dimensions that
    the parameters name. depth: of the call at run time. nesting: the branches around the current block.
    values: what each node was lowered to.
    """

    scopes: Scopes
    nodes: dict[PlacementScope, list[ir.Expr]]
    labels: dict[str, Extent]
    depth: Extent
    nesting: int = 0
    values: dict[ir.Expr, Value] = field(default_factory=dict)


class _Lowering:
    """The state of one lowering: the builder, the declared functions, the tensors that kernels computed."""

    def __init__(
        self,
        module: Module,
        graph: CallGraph,
        loops: Collection[str],
        uncopied: Collection[int],
        excluded: frozenset[tuple[str, str | int | None]],
    ) -> None:
        self.module = module
        self.loops, self.uncopied = loops, uncopied
        self.plan = plan_inlining(module, graph)
        self.builder = OriginBuilder()
        #: Whether an operand may not be used, as it is another way to compute the result.
        self.has_alternatives = False
        self.kernel_cache = KernelCache()
        self.size_values = SizeValues()
        self.size_names = SizeNames()
        self.passed_sizes = PassedSizes(excluded, self.size_names.expand)
        #: The name of the function that is being lowered; None of an entry. Its sizes, by their labels.
        self.current: str | None = None
        self.own_sizes: dict[str, Extent] = {}
        self.declared: dict[str, tvm.ir.GlobalVar] = {}
        self.waiting: list[str] = []
        self.computed: set[RelaxExpr] = set()
        #: The dense forms of blocked values, by the block that computes them.
        self.dense_forms: list[dict[Blocked, RelaxExpr]] = []

    def run(self, entries: Mapping[str, str]) -> tvm.IRModule:
        """Lower the entries and the functions that they call."""
        for name, source in entries.items():
            self._define(self.module.functions[source], name)
        while self.waiting:
            name = self.waiting.pop()
            self.current = name
            self._define(self.module.functions[name], self.declared[name])
        module = self.builder.get()
        if self.has_alternatives:
            module = remove_unused_bindings(module)
        return module.with_attr("deep_calls", 1) if self.declared else module

    def _define(self, function: ir.Function, name: str | tvm.ir.GlobalVar) -> None:
        """Lower a function to an entry of that name, or to the Relax function that was declared for it.

        All but the entries have a first parameter with the depth of the call.
        """
        declared = None if isinstance(name, str) else name
        dims = self._declare_sizes(self.current, function)
        params = [parameter(var, dims) for var in function.params]
        self.own_sizes = dict(labels_of(function.params, params))
        flat = [leaf for value in params for leaf in flatten(value)]
        depth: Extent = 0
        if declared is not None:
            depth = tirx.Var(CALL_DEPTH, "int64")
            flat.insert(0, relax.Var("calls", relax.ShapeType([depth])))
        blocks: list[BindingBlock] = []
        if self.current is not None:
            shapes = [shape_of(leaf) for value in params for leaf in flatten(value)]
            for number, sizes in self.passed_sizes.of(self.current, shapes).items():
                self.size_values.know(params[number], sizes)
        self.builder.begin_scope(flat)
        try:
            with self._block(blocks):
                if declared is not None:
                    self.builder.emit(assertion(depth < MAX_CALL_DEPTH, TOO_DEEP))
                results = list(flatten(self._to_dense(self._lower_body(function, params, depth))))
                if declared is None:
                    results = list(self._copy_unowned(results))
                results = list(map(self._with_own_sizes, results))
            body = self.builder.normalize(relax.SeqExpr(blocks, pack(results)))
        finally:
            self.builder.end_scope()
        lowered = relax.Function(flat, body, is_pure=False)
        if declared is None:
            self.builder.add_func(lowered.with_attr("global_symbol", name), name)
        else:
            is_loop = function is self.module.functions.get(declared.name_hint)
            is_loop = is_loop and declared.name_hint in self.loops
            if is_loop:
                lowered = lowered.with_attr(LOOP, 1)
            if BACKWARD_LOOP in function.attrs:
                lowered = lowered.with_attr(UNLIMITED, 1)
            if KERNEL in function.attrs:
                lowered = lowered.with_attr(KERNEL_FUNCTION, 1)
            reductions = reductions_of(function)
            if reductions is not None:
                text = json.dumps({position(flat[1:], params[n]): op for n, op in reductions.items()})
                lowered = lowered.with_attr(PARALLEL_LOOP, text)
            self.builder.update_func(declared, lowered)

    def _copy_unowned(self, results: Sequence[RelaxExpr]) -> Iterator[RelaxExpr]:
        """Copy results that share the memory of a parameter, of a constant or of another result."""
        seen: set[RelaxExpr] = set()
        for number, result in enumerate(results):
            copy = number not in self.uncopied and (result not in self.computed or result in seen)
            seen.add(result)
            if not copy:
                yield result
                continue
            # TVM would fuse it with the field of a tuple that it reads, and fail.
            alone = {COPIES_RESULT: 1, "op_pattern": OPAQUE}
            yield self.builder.emit_te(topi.identity, result, primfunc_name_hint="copy", primfunc_attrs=alone)

    def _with_own_sizes(self, result: RelaxExpr) -> RelaxExpr:
        """Give a result a type without names of sizes that its block defines."""
        if not isinstance(result.ty, relax.TensorType) or not isinstance(result.ty.shape, relax.ShapeExpr):
            return result
        shape = shape_of(result)
        expanded = list(map(self.size_names.expand, shape))
        if None in expanded or all(a is b for a, b in zip(shape, expanded, strict=True)):
            return result
        # `match_cast` of the builder would first try to prove that the sizes are equal, which takes long.
        own = relax.Var("sized", relax.TensorType(expanded, tensor_dtype(result)))
        self.builder.emit_normalized(relax.MatchCast(own, result, own.ty))
        return own

    @contextmanager
    def _block(self, blocks: list[BindingBlock]) -> Iterator[None]:
        """Collect what is emitted inside in a new block, and append that to ``blocks``."""
        self.builder._begin_binding_block()
        self.dense_forms.append({})
        try:
            with self.size_names.block():
                yield
        finally:
            self.dense_forms.pop()
            blocks.append(move_checks_first(self.builder._end_block()))

    def _to_dense(self, value: Value) -> Value:
        """Convert blocked tensors to the layout that Relay states, each once."""
        if isinstance(value, tuple):
            return tuple(self._to_dense(part) for part in value)
        if not isinstance(value, Blocked):
            return value
        dense = next((forms[value] for forms in self.dense_forms if value in forms), None)
        if dense is None:
            dense = self.dense_forms[-1][value] = value.to_dense_layout(self.builder)
            self.computed.add(dense)
        return dense

    def _lower_body(self, function: ir.Function, args: Sequence[Value], depth: Extent) -> Value:
        """Lower a function's body in the current block."""
        scopes = scopes_of(function)
        nodes: dict[PlacementScope, list[ir.Expr]] = {}
        for node in scopes.order:
            nodes.setdefault(scopes.scope_of[node], []).append(node)
        frame = _Frame(scopes, nodes, dict(labels_of(function.params, args)), depth)
        frame.values.update(zip(function.params, args, strict=True))
        return self._lower_scope(frame, scopes.outermost, function.body)

    def _lower_scope(self, frame: _Frame, scope: PlacementScope, result: ir.Expr) -> Value:
        """Lower the nodes of a scope in the current block, and return the value of ``result``."""
        for node in frame.nodes.get(scope, ()):
            if isinstance(node, ir.Let) and node.var not in frame.values:  # where it binds, before its body
                frame.values[node.var] = frame.values[node.value]
            elif node not in frame.values:
                frame.values[node] = self._lower_node(frame, node)
        return frame.values[result]

    def _lower_node(self, frame: _Frame, node: ir.Expr) -> Value:
        """Lower a node; its operands are already lowered."""
        values = frame.values
        match node:
            case ir.Constant(data=data) if data.size == 0:  # TVM writes such a constant, but does not read it
                return self.builder.emit(relax.op.zeros(data.shape, node.tensor_type.dtype))
            case ir.Constant(data=data):
                return relax.const(as_tensor(data))
            case ir.Tuple(fields=fields):
                return tuple(values[field] for field in fields)
            case ir.TupleGetItem(tuple_value=value, index=index):
                return values[value][index]
            case ir.Let(body=body):
                return values[body]
            case ir.If(false_branch=ir.Call(op=ir.OpRef(name=name)) as failure) if name == FAIL:
                return self._lower_assertion(frame, node, failure)
            case ir.If():
                return self._lower_if(frame, node)
            case ir.Call(op=ir.OpRef(name=name), args=args) if name in CELL_OPERATORS:
                dense = [leaf for arg in args for leaf in flatten(self._to_dense(values[arg]))]
                made = lower_cell_operator(self.builder, node, name, dense)
                if name != FIELD:
                    self.computed.add(made)
                    return made
                return self._cast_to(made, type_in_cell(node.inferred_tensor), node, frame.labels)
            case ir.Call(op=ir.OpRef(name=name)):
                return self._lower_operator(frame, name, node)
            case ir.Call(op=ir.GlobalVar(name=name), args=args):
                return self._lower_call(frame, name, node, [values[arg] for arg in args])
            case ir.OpRef() | ir.GlobalVar():
                return None  # has a meaning as a callee only
        raise engine_error(f"the relax engine cannot run a {type(node).__name__} here", node.span)

    def _lower_operator(self, frame: _Frame, name: str, node: ir.Call) -> Value:
        """Lower a call of an operator by its rule, bind the result and check its type."""
        interrupt_safepoint()
        self.builder.origin = node.span
        self.has_alternatives |= name == ATTENTION
        args = tuple(frame.values[arg] for arg in node.args)
        try:
            call = OpCall(self.builder, node, args, frame.labels, self.size_values.elements, self.size_names)
            emit_shape_check(call)
            lowered = empty_result(call)
            if lowered is None:
                lowered = self._apply_rule(call)
            if not isinstance(lowered, tuple | relax.Var | Blocked):
                lowered = self._unpack(self.builder.emit(lowered))
                self.computed.update(flatten(lowered))
                self.size_values.record(call, lowered)
        except (EngineError, InternalError):
            raise
        except Exception as error:  # TVM raises nearly every kind; report it as an error of this call
            if is_own_fault(error):
                raise internal_error(f"{name} cannot be lowered", error, node.span) from error
            raise engine_error(f"{name}: TVM cannot build this call", node.span) from error
        return self._cast(lowered, node, frame.labels)

    def _apply_rule(self, call: OpCall) -> Value:
        """Apply the operator's rule for blocked values if there is one and it fits, else its usual rule."""
        rule = BLOCKED_RULES.get(call.name)
        lowered = None if rule is None else rule(call)
        return (
            self._apply_dense_rule(replace(call, args=self._to_dense(call.args)))
            if lowered is None
            else lowered
        )

    def _apply_dense_rule(self, call: OpCall) -> Value:
        """Apply the operator's rule, or reuse the kernel of an equal call."""
        key = key_of(call.name, call.attrs, call.args)
        lowered = self.kernel_cache.find(key, call.args)
        if lowered is None:
            lowered = RULES[call.name](call)
            if not call.effects:
                self.kernel_cache.remember(key, call.args, lowered)
        return lowered

    def _lower_if(self, frame: _Frame, node: ir.If) -> Value:
        """Lower both branches to blocks; the result is a tuple in Relax where it is one in Relay."""
        if frame.nesting >= MAX_NESTED_BRANCHES:
            raise engine_error(f"more than {MAX_NESTED_BRANCHES} branches inside one another", node.span)
        frame.nesting += 1
        branches = []
        for scope, result in zip(
            frame.scopes.inner[node], (node.true_branch, node.false_branch), strict=True
        ):
            blocks: list[BindingBlock] = []
            with self._block(blocks):
                value = self._to_dense(self._lower_scope(frame, scope, result))
                results = list(map(self._with_own_sizes, flatten(value)))
            branches.append((value, relax.SeqExpr(blocks, pack(results))))
        frame.nesting -= 1
        (value, then), (_, other) = branches
        packed = self.builder.emit(relax.If(self._to_dense(frame.values[node.cond]), then, other))
        return self._cast(nest_like(value, flatten(self._unpack(packed))), node, frame.labels)

    def _lower_assertion(self, frame: _Frame, node: ir.If, failure: ir.Call) -> Value:
        """Lower an assertion: a check, after which the rest is computed in the current block."""
        number = tirx.const(int(str(failure.attrs["number"])), "int64")
        condition = self._to_dense(frame.values[node.cond])
        check = relax.Call(relax.ExternFunc(ASSERTED), [condition, number], ty_args=[relax.TupleType([])])
        self.builder.emit(check)
        return self._lower_scope(frame, frame.scopes.inner[node][0], node.true_branch)

    def _lower_call(self, frame: _Frame, name: str, call: ir.Call, args: Sequence[Value]) -> Value:
        """Lower a call of another function of the module; inline it where the plan says so."""
        function = self.module.functions[name]
        if name in self.plan.inlined:
            return self._lower_body(function, args, frame.depth)
        flat = [
            relax.ShapeExpr([frame.depth + 1]),
            *(leaf for arg in args for leaf in flatten(self._to_dense(arg))),
        ]
        if name in self.loops:
            dense = [self._to_dense(arg) for arg in args]
            if name == self.current:
                self.passed_sizes.check_round(name, function, self.own_sizes, dense)
            else:
                self.passed_sizes.note_call(name, function, dense, self.size_values.elements)
        result = self._unpack(self.builder.emit(relax.Call(self._declare(name, function), flat)))
        return self._cast(rebuild(call.inferred_type, flatten(result)), call, frame.labels)

    def _declare(self, name: str, function: ir.Function) -> tvm.ir.GlobalVar:
        """Declare the Relax function of that name; its body is defined later, so that it may call itself."""
        if name not in self.declared:
            dims = self._declare_sizes(name, function)
            params = [relax.Var("calls", relax.ShapeType(ndim=1))]
            params += [leaf for var in function.params for leaf in flatten(parameter(var, dims))]
            results = [dims.result_type(leaf) for leaf in self.passed_sizes.result_types(name, function)]
            type_ = results[0] if len(results) == 1 else relax.TupleType(results)
            empty = relax.Function.create_empty(params, type_, is_pure=False)
            empty = empty.with_attr("declares", name)  # TVM's builder takes equal functions for one
            self.declared[name] = self.builder.add_func(empty, f"{name}_" if name == ENTRY else name)
            self.waiting.append(name)
        return self.declared[name]

    def _declare_sizes(self, name: str | None, function: ir.Function) -> SymbolicDims:
        """Declare the sizes that the parameters of a function name."""
        dims = SymbolicDims()
        if name is not None:
            self.passed_sizes.declare(name, dims)
        dims.declare(leaf for var in function.params for leaf in leaves(type_of(var), var.span))
        return dims

    def _unpack(self, value: RelaxExpr) -> Value:
        """Take the tuples of a bound Relax value apart."""
        if not isinstance(value.ty, relax.TupleType):
            return value
        parts = range(len(value.ty.fields))
        return tuple(self._unpack(self.builder.emit(relax.TupleGetItem(value, i))) for i in parts)

    def _cast(self, value: Value, node: ir.Expr, labels: Mapping[str, Extent]) -> Value:
        """Check dtypes and ranks against the node's type; give tensors of unknown shape the type's shape."""
        if node.checked_type is None:
            return value
        return self._cast_to(value, node.checked_type, node, labels)

    def _cast_to(self, value: Value, type_: Type, node: ir.Expr, labels: Mapping[str, Extent]) -> Value:
        match type_:
            case TupleType(fields=fields):
                return tuple(
                    self._cast_to(part, field, node, labels)
                    for part, field in zip(value, fields, strict=True)
                )
            case TensorType(shape=shape, dtype=dtype):
                lowered = value.ty
                if not isinstance(lowered.shape, relax.ShapeExpr) and int(lowered.ndim) == len(shape):
                    value = self.builder.match_cast(value, SymbolicDims(labels).tensor_type(type_))
                elif str(lowered.dtype.dtype) != dtype or not may_be_equal(shape_of(value), shape):
                    what = f"{lowered}, but Relay says {type_text(type_)}"
                    raise engine_error(f"the relax engine computes {what}", node.span)
                return value
        return value


def refuse_unknown_operators(module: Module, entry: str, graph: CallGraph) -> None:
    """Report at once all operators that an entry needs and the engine cannot run.

    ``graph`` is the module's call graph. Raises EngineError.
    """
    diagnostics = Diagnostics()
    needed = reachable(graph, entry)
    for function in (function for name, function in module.functions.items() if name in needed):
        for node in post_order(function.body):
            if isinstance(node, ir.OpRef) and not (
                node.name in RULES or node.name in (CALLBACK, *EXPANSIONS)
            ):
                diagnostics.error(f"the relax engine cannot run {node.name} yet", node.span)
    diagnostics.raise_if_any(EngineError)
