"""Emit the steps of native functions that call nothing."""

from __future__ import annotations

from collections.abc import Mapping

from tvm import ir, tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.bodies.registers import as_byte, first_of, store_first, store_word
from nnmagic.engine.relax.codegen.aot.bodies.storage import StorageEmitter, copy_bytes, element_position
from nnmagic.engine.relax.codegen.aot.wrapping import wrap_integers
from nnmagic.engine.relax.runtime.callbacks import SHAPES_FIT_NATIVE
from nnmagic.engine.relax.runtime.native_entry import FAILURES, REFUSED
from nnmagic.engine.relax.schedules.kernel_analysis import Stage, substitute
from nnmagic.engine.relax.tir.builders import (
    as_expr,
    as_pointer,
    dtype_of,
    item_bytes,
    sequence,
    static_int,
    unlikely,
    words_at,
)
from nnmagic.engine.relax.tir.types import Buffer, Index, PrimExpr, Stmt, Var
from nnmagic.engine.relax.tir.vectorizable_isnan import compare_with_infinity
from nnmagic.engine.relax.tir.visitors import collect, replace_vars, rewrite

#: Whether a loop that is a part of its caller goes on.
RUNNING = aot.Register("int8", "running")


class StepEmitter(StorageEmitter):
    """Computes single elements, checks and assigns them, and stores the results."""

    caller: StepEmitter | None

    def _scalar_code(self, step: aot.ScalarCode) -> list[Stmt]:
        """Compute the stages of a kernel of single elements in registers."""
        statements: list[Stmt] = []
        for stage in step.stages:
            statements += self._scalar_stage(stage, step.values, step.sizes)
        return statements

    def _store_in_memory(self, step: aot.StoreElement) -> list[Stmt]:
        """Store one element of an array in memory."""
        declared: list[Stmt] = []

        def load(node: ir.expr.TensorLoad) -> PrimExpr:
            value = step.values[node.source]
            if not isinstance(value, aot.Storage):
                return self.load(value)
            return self._element_of(value, node.source, node.indices, step.sizes, declared)

        def compute(expr: PrimExpr) -> PrimExpr:
            expr = replace_vars(as_expr(expr), step.sizes)
            return rewrite(expr, [(ir.expr.TensorLoad, load)])

        bound: list[Stmt] = []
        indices: list[PrimExpr] = []
        for index in step.indices:
            statement, name = self._name_value("index", compute(index))
            bound.append(statement)
            indices.append(name)
        statement, value = self._name_value("element", wrap_integers(compute(step.value)))
        if step.storage in self.elements:
            value = as_byte(value) if dtype_of(value) == "bool" else value
            return [*declared, *bound, statement, store_first(self.elements[step.storage], value)]
        # An array of one element is written as a whole.
        is_whole = all(static_int(dim) == 1 for dim in step.buffer.ty.shape)
        chosen = self._choose_copies([step.storage]) if is_whole else []
        view, offset, declaration = self._view(step.storage, step.buffer, indices, step.sizes)
        if dtype_of(value) == "bool":
            value = as_byte(value)
        return [*declared, *bound, statement, *chosen, *declaration, tirx.BufferStore(view, value, [offset])]

    def _scalar_stage(
        self, stage: Stage, values: Mapping[Buffer, aot.Value], sizes: Mapping[Var, PrimExpr]
    ) -> list[Stmt]:
        names: dict[Var, PrimExpr] = {axis: as_expr(0) for axis in stage.axes} | dict(sizes)
        declared: list[Stmt] = []
        loads = {} if stage.inits is None else dict(zip(stage.writes, stage.inits, strict=True))

        def load(node: ir.expr.TensorLoad) -> PrimExpr:
            buffer = node.source
            if buffer in loads:
                return loads[buffer]
            value = values[buffer]
            if isinstance(value, aot.Register) and value.dtype in ("float32", "float64") and selects:
                # TVM would make a branch of the choice, as reading memory may not be safe.
                var = tirx.Var(buffer.name, value.dtype)
                declared.append(tirx.Bind(var, self.load(value)))
                return var
            if not isinstance(value, aot.Storage):
                return self.load(value)
            return self._element_of(value, buffer, node.indices, names, declared)

        selects = any(isinstance(value, tirx.Select) for value in stage.values)
        stores: list[Stmt] = []
        results: list[tuple[aot.Register, PrimExpr]] = []
        for buffer, value in zip(stage.writes, stage.values, strict=True):
            target = values[buffer]
            assert isinstance(target, aot.Register)
            expr = replace_vars(compare_with_infinity(value), names)
            expr = rewrite(expr, [(ir.expr.TensorLoad, load)])
            if target in self.wrapped:
                self.from_end[target] = tirx.Var("from_end", "int64")
                stores.append(tirx.Bind(self.from_end[target], wrap_integers(expr.true_value)))
                expr = expr.false_value
            store, result = self._name_value(buffer.name, wrap_integers(expr))
            stores.append(store)
            results.append((target, result))
        return [*declared, *stores, *(self.assign(target, result) for target, result in results)]

    def _name_value(self, name: str, value: PrimExpr) -> tuple[Stmt, PrimExpr]:
        """Return a statement that computes a value, and the expression that it has from then on.

        One that is computed from bfloat16 is stored, as BF16ComputeLegalize does not look into a Bind. So is
        one with lets, which ``let_to_buffers`` then removes: TVM may simplify a Bind twice, and refuses to
        bind the variable of a let again.
        """
        if not (_has_bfloat16(value) or collect(tirx.Let, value)):
            var = tirx.Var(name, dtype_of(value))
            return tirx.Bind(var, value), var
        register = aot.Register(dtype_of(value), name)
        return self.assign(register, value), self.load(register)

    def _address_of_element(self, step: aot.PointAt) -> PrimExpr:
        def compute(index: Index) -> PrimExpr:
            expr = replace_vars(as_expr(index), step.sizes)
            return rewrite(expr, [(ir.expr.TensorLoad, lambda load: self.load(step.values[load.source]))])

        element = element_position(step.buffer, [compute(index) for index in step.indices], step.sizes)
        return self.address(step.source) + element * as_expr(item_bytes(dtype_of(step.buffer)))

    def _assign(self, step: aot.Assign) -> list[Stmt]:
        """Assign several values at once: all are read before the first is written."""
        reads, writes = [], []
        for target, value in step.pairs:
            if isinstance(value, aot.Register):
                read: PrimExpr = first_of(self.local(value))
            else:
                read = self.load(value)
                if dtype_of(read) == "bool":
                    read = as_byte(read)
            if len(step.pairs) == 1:
                return [store_first(self.local(target), read)]
            var = tirx.Var("next", dtype_of(read))
            # Parallel assignment: in `a, b = b, a` the second store must see the old value (the
            # swap problem of Briggs et al., Practical improvements to the construction and
            # destruction of static single assignment form, 1998).
            reads.append(tirx.Bind(var, read))
            writes.append(store_first(self.local(target), var))
        return [*reads, *writes]

    def _check(self, step: aot.Check) -> list[Stmt]:
        assert self.state is not None
        fail = self.fail(FAILURES + step.number)
        if step.condition is not None:
            condition = step.condition
            is_value = isinstance(condition, aot.Register | aot.Immediate)
            holds = self.load(condition) if is_value else condition
            return [tirx.IfThenElse(tirx.Not(holds), sequence(fail), None)]
        if step.index is not None:
            return self._check_index(step, step.index)
        assert step.report is not None
        report = tirx.decl_buffer((2,), "int64", "report", data_alignment=8)
        wrong = tirx.NE(report[0], as_expr(0))
        details = [
            store_word(self.state, aot.DETAIL + at, word) for at, word in enumerate((report[1], step.size))
        ]
        return [*self.declare(report, step.report), tirx.IfThenElse(wrong, sequence([*details, *fail]), None)]

    def _check_index(self, step: aot.Check, register: aot.Register | aot.Immediate) -> list[Stmt]:
        """Check that an index is in range; one that counts from the end is changed to one from the start."""
        state, index, size = self.state, tirx.Var("index", "int64"), as_expr(step.size)
        assert state is not None

        def is_outside(place: PrimExpr) -> PrimExpr:
            # One comparison for both bounds: as unsigned, a negative index is larger than any size.
            return tirx.Cast("uint64", place) >= tirx.Cast("uint64", size)

        def fail(place: PrimExpr) -> Stmt:
            details = [store_word(state, aot.DETAIL + at, value) for at, value in enumerate((place, size))]
            return sequence([*details, *self.fail(FAILURES + step.number)])

        loaded = self.load(register)
        bound = tirx.Bind(index, loaded if dtype_of(loaded) == "int64" else tirx.Cast("int64", loaded))
        if not isinstance(register, aot.Register) or register not in self.wrapped:
            return [bound, tirx.IfThenElse(is_outside(index), fail(index), None)]
        place = tirx.Var("place", "int64")
        wrap = [
            tirx.Bind(place, tirx.Select(index < as_expr(0), self.from_end[register], index)),
            tirx.IfThenElse(is_outside(place), fail(place), None),
            store_first(self.local(register), place),
        ]
        return [bound, tirx.IfThenElse(unlikely(is_outside(index)), sequence(wrap), None)]

    def _name_sizes(self, step: aot.NameSizes) -> list[Stmt]:
        if not isinstance(step.vector, aot.Storage):
            (dim,) = step.dims
            return [tirx.Bind(dim, self.load(step.vector))]
        words = words_at("sizes")
        sizes = [tirx.Bind(dim, words[number]) for number, dim in enumerate(step.dims)]
        return [*self.declare(words, step.vector), *sizes]

    def _shape_check(self, step: aot.ShapeCheck) -> list[Stmt]:
        """Ask about shapes that were not checked the last time, and remember them."""
        assert self.state is not None
        # The question whether shapes fit goes to Python, which takes microseconds; it is asked
        # again only for other sizes than those of the last call.
        changed: PrimExpr = tirx.EQ(self.state[step.record], as_expr(0))
        for number, size in enumerate(step.sizes):
            changed = tirx.Or(changed, tirx.NE(self.state[step.record + 1 + number], size))
        answer = tirx.call_packed(
            SHAPES_FIT_NATIVE, step.key, *map(as_expr, (len(step.ranks), *step.ranks)), *step.sizes
        )
        remember = [
            store_word(self.state, step.record + 1 + number, size) for number, size in enumerate(step.sizes)
        ]
        ask = [
            tirx.IfThenElse(tirx.NE(answer, 0), sequence(self.fail(REFUSED)), None),
            *remember,
            store_word(self.state, step.record, as_expr(1)),
        ]
        return [tirx.IfThenElse(tirx.And(tirx.Not(step.fit), changed), sequence(ask), None)]

    def _exit(self, step: aot.Exit) -> list[Stmt]:
        statements: list[Stmt] = []
        measured = self.function.measured_results()
        sizes = dict(zip(self.function.result_dims, step.sizes, strict=True))
        for number, value in enumerate(step.results):
            if number in self.function.left:
                continue
            if number in measured:
                assert isinstance(value, aot.Storage)
                nbytes = substitute(as_expr(self.function.result_bytes(number)), sizes)
                words = words_at("block")
                statements += [
                    *self._reserve(self.results[number], nbytes),
                    tirx.DeclBuffer(words, data=self.results[number]),
                    copy_bytes(words[0], self.address(value), nbytes),
                ]
                continue
            if isinstance(value, aot.Storage):
                if value.kind != "result" and number not in self.function.changed:
                    nbytes = self.function.result_bytes(number)
                    statements.append(copy_bytes(self.results[number], self.address(value), nbytes))
                continue
            loaded = self.load(value) if isinstance(value, aot.Immediate) else first_of(self.local(value))
            if dtype_of(loaded) == "bool":
                loaded = as_byte(loaded)
            if self.caller is not None:
                statements.append(store_first(self.caller.local(self.targets[number]), loaded))
                continue
            view = tirx.decl_buffer(
                (1,), dtype_of(loaded), "result", data_alignment=item_bytes(dtype_of(loaded))
            )
            address = self.results[number]
            data = address if isinstance(address.ty, ir.PointerType) else as_pointer(address)
            statements.append(tirx.DeclBuffer(view, data=data))
            statements.append(store_first(view, loaded))
        if self.result_sizes is not None:
            words = words_at("result_sizes")
            statements.append(tirx.DeclBuffer(words, data=self.result_sizes))
            left = [self._place_of_left(number, step.results[number], sizes) for number in self.function.left]
            every = [size for each in left for size in each] or step.sizes
            statements += [store_word(words, at, size) for at, size in enumerate(every)]
        if self.caller is None:
            return [*statements, *self._hand_on_budget(), *self.leave(0)]
        if self.function.loops:
            statements.append(store_first(self.local(RUNNING), tirx.const(0, "int8")))
        return statements or [tirx.Evaluate(tirx.const(0, "int32"))]

    def _place_of_left(self, number: int, value: aot.Value, sizes: dict[Var, PrimExpr]) -> list[PrimExpr]:
        """Return the address and the sizes of a result that an entry leaves where it is."""
        assert isinstance(value, aot.Storage)
        shape = self.function.all_results[number].shape
        return [self.address(value), *(substitute(as_expr(size), sizes) for size in shape)]


def _has_bfloat16(value: PrimExpr) -> bool:
    return any(dtype_of(part) == "bfloat16" for part in collect((ir.expr.TensorLoad, tirx.Cast), value))
