"""Say what a step of a native function reads, and what it writes."""

from __future__ import annotations

from collections.abc import Iterator

from nnmagic.engine.relax.codegen.aot import program as aot


def values_read(step: aot.Step) -> Iterator[aot.Value]:
    """Yield the values that a step reads, those of a branch without those of its regions."""
    match step:
        case aot.KernelCall(args=args, reads=reads):
            yield from args[:reads]
        case aot.ScalarCode(reads=reads):
            yield from reads
        case aot.CopyArray(source=source):
            yield source
        case aot.StoreElement(storage=target, values=values) | aot.PointAt(target=target, values=values):
            yield target
            yield from values.values()
        case aot.FunctionCall(args=args):
            yield from args
        case aot.Assign(pairs=pairs) | aot.NextRound(assign=aot.Assign(pairs=pairs)):
            yield from (value for _, value in pairs)
        case aot.Exit(results=results):
            yield from results
        case aot.Check(condition=condition, index=index, report=report):
            yield from (
                value
                for value in (condition, index, report)
                if isinstance(value, aot.Register | aot.Immediate | aot.Storage)
            )
        case aot.NameSizes(vector=vector):
            yield vector
        case aot.MakeCell(fields=fields, apart=apart):
            yield from (value for _, value, _ in (*fields, *apart))
        case aot.ReadCell(cell=cell):
            yield cell
        case aot.CloseCells(roots=roots):
            yield from roots
        case aot.Branch(condition=condition):
            yield condition


def written_storage(step: aot.Step) -> Iterator[aot.Storage]:
    """Yield the storage that a step writes as a whole, or an element of, with the frame of a call."""
    match step:
        case aot.KernelCall(args=args, reads=reads):
            yield from (value for value in args[reads:] if isinstance(value, aot.Storage))
        case aot.FunctionCall(results=results, frame=frame):
            yield from (value for value in results if isinstance(value, aot.Storage))
            if not isinstance(frame.nbytes, int) or frame.nbytes:
                yield frame
        case aot.CopyArray(target=target) | aot.MakeArray(target=target) | aot.StoreElement(storage=target):
            yield target


def written_values(step: aot.Step) -> Iterator[aot.Value]:
    """Yield the registers and the storage that a step writes, or points somewhere."""
    match step:
        case aot.KernelCall(args=args, reads=reads):
            yield from args[reads:]
        case aot.ScalarCode(stages=stages, values=values):
            yield from (values[buffer] for stage in stages for buffer in stage.writes)
        case aot.FunctionCall(results=results):
            yield from results
        case aot.Assign(pairs=pairs):
            yield from (target for target, _ in pairs)
        case aot.PointAt(target=target) | aot.CopyArray(target=target) | aot.StoreElement(storage=target):
            yield target
        case aot.MakeArray(target=target) | aot.MakeCell(target=target) | aot.ReadCell(target=target):
            yield target
        case aot.CloseCells(target=target, size=size):
            yield from (target, size)
