"""A typed Relay module as a Relax module: graphs become bindings, calls of operators what the table says.

Knows Relay's IR, the table of operators and TVM's builder. Nothing recurses over the length of a program;
only nested branches and the inlining of functions nest, to a limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import tvm
from tvm import relax, tirx, topi

from nnmagic.diagnostics import Diagnostics, last_line
from nnmagic.engine import EngineError, engine_error
from nnmagic.engine.relax.analysis.dim_labels import label_of
from nnmagic.engine.relax.analysis.entry_signature import type_of
from nnmagic.engine.relax.analysis.inline_plan import plan_inlining
from nnmagic.engine.relax.analysis.node_placement import Region, Regions, regions_of
from nnmagic.engine.relax.analysis.tuple_flattening import flat_names, flatten, leaves, rebuild
from nnmagic.engine.relax.deferred_interrupts import interrupt_safepoint
from nnmagic.engine.relax.legalize import BLOCKED_RULES, RULES, OpCall, Value
from nnmagic.engine.relax.legalize.blocked.layout import Blocked
from nnmagic.engine.relax.legalize.kernel_cache import KernelCache, key_of
from nnmagic.engine.relax.legalize.registry import required
from nnmagic.engine.relax.lowering.shape_checks import emit_shape_check, empty_result
from nnmagic.engine.relax.lowering.symbolic_dims import SymbolicDims
from nnmagic.engine.relax.runtime.tensors import as_tensor
from nnmagic.engine.relax.runtime.vm_executable import ENTRY, MAX_CALL_DEPTH, TOO_DEEP
from nnmagic.relay.callgraph import call_graph, reachable
from nnmagic.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    OpRef,
    Tuple,
    TupleGetItem,
    Var,
)
from nnmagic.relay.module import Module
from nnmagic.relay.text.types import type_text
from nnmagic.relay.traverse import post_order
from nnmagic.relay.types import Dim, TensorType, TupleType, Type

#: Branches inside branches: TVM's passes recurse over them on the C stack.
MAX_NESTED_BRANCHES = 100


def lower_module(module: Module, entries: Mapping[str, str]) -> tvm.IRModule:
    """The Relax module that computes plain functions: ``entries`` has its functions and whose they are.

    Parameters and results are flattened into their tensors; where functions are called that are not inlined,
    the module has the attribute ``deep_calls``. Raises EngineError.
    """
    return _Lowering(module).run(entries)


@dataclass(slots=True)
class _Frame:
    """One function body being lowered: its regions, what each node has become, how deep it is nested."""

    regions: Regions
    labels: dict[str, Any]
    depth: Any
    nesting: int = 0
    values: dict[Expr, Value] = field(default_factory=dict)


class _Lowering:
    """The state of one lowering: the builder, the functions declared so far, what kernels computed."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.plan = plan_inlining(module)
        self.builder = relax.BlockBuilder()
        self.repeats = KernelCache()
        self.declared: dict[str, Any] = {}
        self.waiting: list[str] = []
        self.computed: set[Any] = set()
        self.plain_forms: list[dict[Blocked, Any]] = []  # of blocked values, by the block that computes them

    def run(self, entries: Mapping[str, str]) -> tvm.IRModule:
        for name, source in entries.items():
            self._define(self.module.functions[source], name)
        while self.waiting:
            name = self.waiting.pop()
            self._define(self.module.functions[name], self.declared[name])
        module = self.builder.get()
        return module.with_attr("deep_calls", 1) if self.declared else module

    def _define(self, function: Function, name: Any) -> None:
        """Makes a Relax function of a Relay function: an entry of that name, or the one that was declared.

        All but the entries take, before their parameters, how many calls they are inside of.
        """
        declared = None if isinstance(name, str) else name
        dims = SymbolicDims()
        dims.declare(leaf for var in function.params for leaf in leaves(type_of(var), var.span))
        params = [_parameter(var, dims) for var in function.params]
        flat = [leaf for value in params for leaf in flatten(value)]
        depth: Any = 0
        if declared is not None:
            depth = tirx.Var("depth", "int64")
            flat.insert(0, relax.Var("calls", relax.ShapeType([depth])))
        blocks: list[Any] = []
        self.builder.begin_scope(flat)
        try:
            with self._block(blocks):
                if declared is not None:
                    self.builder.emit(required(depth < MAX_CALL_DEPTH, TOO_DEEP))
                results = list(flatten(self._plain(self._body(function, params, depth))))
                if declared is None:
                    results = list(self._owned(results))
            body = self.builder.normalize(relax.SeqExpr(blocks, _packed(results)))
        finally:
            self.builder.end_scope()
        lowered = relax.Function(flat, body, is_pure=False)
        if declared is None:
            self.builder.add_func(lowered.with_attr("global_symbol", name), name)
        else:
            self.builder.update_func(declared, lowered)

    def _owned(self, results: Sequence[Any]) -> Iterator[Any]:
        """Results in memory of their own: never that of a parameter, of a constant or of another result."""
        seen: set[Any] = set()
        for result in results:
            copy = result not in self.computed or result in seen
            seen.add(result)
            yield self.builder.emit_te(topi.identity, result, primfunc_name_hint="copy") if copy else result

    @contextmanager
    def _block(self, blocks: list[Any]) -> Iterator[None]:
        """What is emitted inside goes into a new block, which is added to ``blocks``."""
        self.builder._begin_binding_block()
        self.plain_forms.append({})
        try:
            yield
        finally:
            self.plain_forms.pop()
            blocks.append(self.builder._end_block())

    def _plain(self, value: Value) -> Value:
        """The value in the layout that Relay says; each blocked tensor is converted once."""
        if isinstance(value, tuple):
            return tuple(self._plain(part) for part in value)
        if not isinstance(value, Blocked):
            return value
        known = next((forms[value] for forms in self.plain_forms if value in forms), None)
        if known is None:
            known = self.plain_forms[-1][value] = value.plain(self.builder)
            self.computed.add(known)
        return known

    def _body(self, function: Function, args: Sequence[Value], depth: Any) -> Value:
        """The value of a function's body, computed in the current block."""
        frame = _Frame(regions_of(function.body), dict(_labels(function.params, args)), depth)
        frame.values.update(zip(function.params, args, strict=True))
        return self._region(frame, frame.regions.body)

    def _region(self, frame: _Frame, region: Region) -> Value:
        """The value of a region, its nodes computed in the current block."""
        for node in region.nodes:
            if node not in frame.values:
                frame.values[node] = self._node(frame, node)
        return frame.values[region.result]

    def _node(self, frame: _Frame, node: Expr) -> Value:
        """What a node becomes; what it is made of has become something before."""
        values = frame.values
        match node:
            case Var():
                return values[frame.regions.bound[node]]
            case Constant(data=data) if data.size == 0:  # TVM writes such a constant, but does not read it
                return self.builder.emit(relax.op.zeros(data.shape, node.tensor_type.dtype))
            case Constant(data=data):
                return relax.const(as_tensor(data))
            case Tuple(fields=fields):
                return tuple(values[part] for part in fields)
            case TupleGetItem(tuple_value=value, index=index):
                return values[value][index]
            case Let(body=body):
                return values[body]
            case If():
                return self._if(frame, node)
            case Call(op=OpRef(name=name)):
                return self._operator(frame, name, node)
            case Call(op=GlobalVar(name=name), args=args):
                return self._call(name, node, [values[arg] for arg in args], frame.depth)
            case OpRef() | GlobalVar():
                return None  # means something only as a callee
        raise engine_error(f"the relax engine cannot run a {type(node).__name__} here", node.span)

    def _operator(self, frame: _Frame, name: str, call: Call) -> Value:
        """A call of an operator: its rule's expression, bound, and held against the type that Relay found."""
        interrupt_safepoint()
        args = tuple(frame.values[arg] for arg in call.args)
        try:
            site = OpCall(self.builder, call, args, frame.labels)
            emit_shape_check(site)
            lowered = self._lowered(site) if (empty := empty_result(site)) is None else empty
            if not isinstance(lowered, tuple | relax.Var | Blocked):
                lowered = self._unpacked(self.builder.emit(lowered))
                self.computed.update(flatten(lowered))
        except EngineError:
            raise
        except Exception as error:  # TVM raises nearly every kind; it is told as an error of this call
            reason = last_line(error)
            raise engine_error(f"{name}: TVM cannot build this call: {reason}", call.span) from error
        return self._settled(lowered, call)

    def _lowered(self, site: OpCall) -> Value:
        """What the operator's rule says: that for blocked values where there is one and it fits."""
        rule = BLOCKED_RULES.get(site.name)
        lowered = None if rule is None else rule(site)
        return self._unblocked(replace(site, args=self._plain(site.args))) if lowered is None else lowered

    def _unblocked(self, site: OpCall) -> Value:
        """What the operator's rule says for plain values, or what it said to the same before."""
        key = key_of(site.name, site.attrs, site.args)
        lowered = self.repeats.find(key, site.args)
        if lowered is None:
            lowered = RULES[site.name](site)
            if not site.effects:
                self.repeats.remember(key, site.args, lowered)
        return lowered

    def _if(self, frame: _Frame, node: If) -> Value:
        """Both branches as blocks of their own; the result is a tuple in Relax where it is one in Relay."""
        if frame.nesting >= MAX_NESTED_BRANCHES:
            raise engine_error(f"more than {MAX_NESTED_BRANCHES} branches inside one another", node.span)
        frame.nesting += 1
        branches = []
        for region in frame.regions.branches[node]:
            blocks: list[Any] = []
            with self._block(blocks):
                value = self._plain(self._region(frame, region))
            branches.append((value, relax.SeqExpr(blocks, _packed(list(flatten(value))))))
        frame.nesting -= 1
        (value, then), (_, other) = branches
        chosen = self.builder.emit(relax.If(self._plain(frame.values[node.cond]), then, other))
        return self._settled(_shaped_like(value, flatten(self._unpacked(chosen))), node)

    def _call(self, name: str, call: Call, args: Sequence[Value], depth: Any) -> Value:
        """A call of another function of the module, inlined where the plan says so."""
        function = self.module.functions[name]
        if name in self.plan.inlined:
            return self._body(function, args, depth)
        flat = [relax.ShapeExpr([depth + 1]), *(leaf for arg in args for leaf in flatten(self._plain(arg)))]
        result = self._unpacked(self.builder.emit(relax.Call(self._declared(name, function), flat)))
        assert call.checked_type is not None
        return self._settled(rebuild(call.checked_type, flatten(result)), call)

    def _declared(self, name: str, function: Function) -> Any:
        """The Relax function of that name; its body is defined later, so that it may call itself."""
        if name not in self.declared:
            dims = SymbolicDims()
            dims.declare(leaf for var in function.params for leaf in leaves(type_of(var), var.span))
            params = [relax.Var("calls", relax.ShapeType(ndim=1))]
            params += [leaf for var in function.params for leaf in flatten(_parameter(var, dims))]
            assert function.ret_type is not None
            results = [dims.result(leaf) for leaf in leaves(function.ret_type, function.span)]
            type_ = results[0] if len(results) == 1 else relax.TupleType(results)
            empty = relax.Function.create_empty(params, type_, is_pure=False)
            empty = empty.with_attr("declares", name)  # TVM's builder takes equal functions for one
            self.declared[name] = self.builder.add_func(empty, f"{name}_" if name == ENTRY else name)
            self.waiting.append(name)
        return self.declared[name]

    def _unpacked(self, value: Any) -> Value:
        """A bound value of Relax with its tuples taken apart."""
        if not isinstance(value.ty, relax.TupleType):
            return value
        parts = range(len(value.ty.fields))
        return tuple(self._unpacked(self.builder.emit(relax.TupleGetItem(value, i))) for i in parts)

    def _settled(self, value: Value, node: Expr) -> Value:
        """The value, each tensor of the dtype and rank that Relay found and of a shape that can be named."""
        if node.checked_type is None:
            return value
        return self._settle(value, node.checked_type, node)

    def _settle(self, value: Value, type_: Type, node: Expr) -> Value:
        match type_:
            case TupleType(fields=fields):
                return tuple(
                    self._settle(part, field, node) for part, field in zip(value, fields, strict=True)
                )
            case TensorType(shape=shape, dtype=dtype):
                found = value.ty
                if not isinstance(found.shape, relax.ShapeExpr) and int(found.ndim) == len(shape):
                    value = self.builder.match_cast(value, SymbolicDims().tensor(type_))
                elif str(found.dtype.dtype) != dtype or not _agree(found.shape.values, shape):
                    what = f"{found}, but Relay says {type_text(type_)}"
                    raise engine_error(f"the relax engine computes {what}", node.span)
                return value
        return value


def _parameter(var: Var, dims: SymbolicDims) -> Value:
    """A Relay parameter as Relax variables, one a tensor."""
    type_ = type_of(var)
    names = flat_names(var.name_hint, type_)
    flat = [
        relax.Var(name, dims.tensor(leaf)) for name, leaf in zip(names, leaves(type_, var.span), strict=True)
    ]
    return rebuild(type_, iter(flat))


def _labels(params: Sequence[Var], args: Sequence[Value]) -> Iterator[tuple[str, Any]]:
    """The dimensions that a function's parameters name, as the arguments have them."""
    work = [(var.checked_type or var.type_annotation, arg) for var, arg in zip(params, args, strict=True)]
    while work:
        type_, arg = work.pop(0)
        if isinstance(type_, TupleType):
            work[:0] = zip(type_.fields, arg, strict=True)
        elif isinstance(type_, TensorType):  # and not a type variable
            for dim, value in zip(type_.shape, arg.ty.shape.values, strict=True):
                label = label_of(dim)
                if label is not None:
                    yield label, value


def _packed(tensors: Sequence[Any]) -> Any:
    """What a Relax function or branch yields: the tensor, or a tuple of them."""
    return tensors[0] if len(tensors) == 1 else relax.Tuple(list(tensors))


def _shaped_like(value: Value, tensors: Iterator[Any]) -> Value:
    """The tensors in tuples nested as those of ``value``."""
    if isinstance(value, tuple):
        return tuple(_shaped_like(part, tensors) for part in value)
    return next(tensors)


def _agree(lowered: Sequence[Any], shape: Sequence[Dim]) -> bool:
    """Whether two shapes can be the same, as far as both are known."""
    if len(lowered) != len(shape):
        return False
    known = ((int(a.value), b) for a, b in zip(lowered, shape, strict=True) if hasattr(a, "value"))
    return all(not isinstance(b, int) or a == b for a, b in known)


def refuse_unknown_operators(module: Module, entry: str) -> None:
    """Reports at once every operator that an entry function needs and this engine cannot run."""
    found = Diagnostics()
    needed = reachable(call_graph(module), entry)
    for function in (function for name, function in module.functions.items() if name in needed):
        for node in post_order(function.body):
            if isinstance(node, OpRef) and node.name not in RULES:
                found.error(f"the relax engine cannot run {node.name} yet", node.span)
    found.raise_if_any(EngineError)
