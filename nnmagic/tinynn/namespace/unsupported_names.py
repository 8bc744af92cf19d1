"""Explain the names of libraries that a cell has no equivalent of."""

from __future__ import annotations

from nnmagic.diagnostics import Span, closest
from nnmagic.relay.ops import OPERATORS, resolve
from nnmagic.tinynn.builtins import BUILTINS, CONSTANTS, MODULES, PYTHON_ONLY
from nnmagic.tinynn.namespace.capture import NotCapturableError, is_method, member_names, not_capturable
from nnmagic.tinynn.namespace.unsupported_functions import ELSEWHERE, cell_equivalent
from nnmagic.tinynn.operators.iteration import ITERATION
from nnmagic.tinynn.types.annotations import DESTINATIONS, DTYPES, dtype_named
from nnmagic.tinynn.values import values as v

#: Prefixes that an operator's name may have.
PREFIXES = ("relay", "nnmagic")


def language_name(path: tuple[str, ...]) -> tuple[v.Value, int] | None:
    """Resolve a dtype, a type constructor, a function of the language, or an operator by its full path."""
    members = path
    while len(members) > 1 and members[0] in PREFIXES:
        members = members[1:]
    head, used = members[0], len(path) - len(members) + 1
    if head in DTYPES:
        return v.Known(DTYPES[head]), used
    if head in ("Tensor", "Tuple", "tuple", "Callable", *DESTINATIONS):
        return v.TupleConstructor(head), used
    if head in BUILTINS and len(members) == 1 and path[0] != "relay":
        return v.BuiltinName(BUILTINS[head]), used
    if head == "random" and path[0] != "relay" and ".".join(members) in BUILTINS:
        return v.BuiltinName(BUILTINS[".".join(members)]), len(path)
    if (
        head == "linalg"
        and len(members) == 2
        and path[0] != "relay"
        and members[1] in MODULES["numpy.linalg"]
    ):
        return v.BuiltinName(MODULES["numpy.linalg"][members[1]]), used + 1
    if (
        head == "special"
        and len(members) == 2
        and path[0] != "relay"
        and members[1] in MODULES["scipy.special"]
    ):
        return v.BuiltinName(MODULES["scipy.special"][members[1]]), used + 1
    if head in CONSTANTS and len(members) == 1 and path[0] != "relay":
        return v.Known(CONSTANTS[head]), used
    if len(path) == 1 and head in ITERATION:
        return v.BuiltinName(ITERATION[head]), 1
    name = ".".join(members)
    operator = resolve(name) or resolve(f"nn.{name}")
    return None if operator is None else (v.OperatorName(operator), len(path))


def operator_hint(path: tuple[str, ...]) -> str:
    """Return a hint for a path that begins like that of an operator."""
    last = path[-1].lower()
    layer = last if last in BUILTINS else closest(last, BUILTINS)
    if path[-1] != last and layer is not None:  # nn.Linear
        return f"a cell has functions, no layers: write {layer}(x, ...)"
    if path[-1] in BUILTINS:  # nn.gelu
        return f"did you mean {path[-1]}?"
    family = {name.rpartition(".")[2]: name for name in OPERATORS if name.startswith(f"{path[0]}.")}
    close = closest(path[-1], family)
    meant = family[close] if close is not None else closest(path[-1], BUILTINS)
    return f"did you mean {meant}?" if meant else "`%tinynn ops` lists the operators"


def refuse_python_only(name: str, span: Span) -> None:
    """Refuse a function of Python that no cell has as a value."""
    if name in PYTHON_ONLY and name not in ITERATION:
        message, hint = PYTHON_ONLY[name]
        raise v.RefusalError(message, span, hint=hint)


def unusable(
    path: tuple[str, ...], name: str, problem: NotCapturableError, span: Span, library: str | None
) -> v.RefusalError:
    """Return the error for a value that a cell cannot use; name the operator that it hides.

    ``library``: the module that has it, if it is a function of a library.
    """
    own = language_name(path)
    if own is not None and isinstance(own[0], v.Known | v.TupleConstructor):
        hint = f"for the language's own write nnmagic.{path[0]}, or rename the notebook's"
        return v.RefusalError(f"`{name}` is {problem.what}, which a cell cannot use", span, hint=hint)
    hidden = _operator_name(path)
    if hidden is not None:
        hint = f"for the operator write relay.{hidden}, or rename the notebook's `{path[0]}`"
        return v.RefusalError(
            f"`{name}` is {problem.what}, which hides the operator {hidden}", span, hint=hint
        )
    dtype = dtype_named(path[-1]) if len(path) > 1 else None
    if dtype is not None:  # torch.float32
        message = f"`{name}` is {problem.what}, which a cell cannot use"
        return v.RefusalError(message, span, hint=f"write {dtype.short}")
    twin = _operator_name(path[-1:]) if "." in name else None
    if library is not None:
        return unsupported_name(name, cell_equivalent(path, library, MODULES.get(library, ())), span)
    hint = (
        problem.hint.replace("{name}", name) if twin is None else f"write {twin}: the operator of that name"
    )
    return v.RefusalError(f"`{name}` is {problem.what}, which a cell cannot use", span, hint=hint)


def no_field(path: tuple[str, ...], owner: object, span: Span) -> v.RefusalError:
    """Return the error for an object that lacks the field or computes it by code."""
    name, field, what = ".".join(path), path[-1], not_capturable(owner).what
    hint = f"if code makes it, give it a name in another cell, as in {field} = {name}"
    members = member_names(owner)
    if is_method(owner, field):
        message = f"`{name}` is a method of {what}, and nothing of Python runs in a cell"
        return v.RefusalError(message, span, hint=ELSEWHERE)
    if field in members:
        message = f"`{name}` is made by code of {what}, and nothing of Python runs in a cell"
        return v.RefusalError(message, span, hint=f"give it a name in another cell, as in {field} = {name}")
    close = closest(field, [member for member in members if member[:1] != "_"])
    if close is not None:
        hint = f"did you mean {'.'.join([*path[:-1], close])}?"
    return v.RefusalError(f"`{'.'.join(path[:-1])}` ({what}) holds no `{field}`", span, hint=hint)


def unsupported_name(name: str, instead: str | None, span: Span) -> v.RefusalError:
    """Return the error for an unsupported name of a library; ``instead``: the cell's equivalent."""
    hint = f"write {instead}" if instead else ELSEWHERE
    return v.RefusalError(f"`{name}` is not supported in a cell", span, hint=hint)


def _operator_name(path: tuple[str, ...]) -> str | None:
    """Return the operator or function of the language that a written name means."""
    match language_name(path):
        case (v.OperatorName(operator=operator), _):
            return operator.name
        case (v.BuiltinName(builtin=builtin), _):
            return builtin.name
    return None
