"""Join LLVM modules, as texts, into one that defines C functions and no other symbols.

Functions that only the joined modules call become internal. Debugging information and what TVM's runtime
looks for are left out. Names, attributes and metadata of a module get its number where they could clash.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

#: What TVM's modules define for its runtime.
_OF_TVM = re.compile(r"@(__tvm_ffi_|__TVM|\.tvm_func\.|__tvm_func_handle_init|llvm\.global_ctors)")

#: Conversions that code generation calls by name: an internal definition may be missing where it is needed.
_CONVERSIONS = ("@__truncsfhf2", "@__extendhfsf2")

_NAME, _NUMBER = re.compile(r"@[\w.$]+"), re.compile(r"(?<![\w\"])([!#])([0-9]+)\b")
_PRIVATE = re.compile(r"(?:@\S+ =|define) (?:private|internal)\b")
_LINKAGE = re.compile(r"^define (?:(?:private|internal|weak|linkonce|dso_local|dllexport|hidden) )*")
_DEBUGGING = re.compile(r",? !dbg ![0-9]+|^ +#dbg_.*\n", re.MULTILINE)
_HEAD = re.compile(r"^target .*|!\{.*!\"tvm_target\".*\}$", re.MULTILINE)

#: More than a module has attributes or metadata.
_MANY = 1_000_000


def join_modules(parts: Sequence[str], own: str) -> str:
    """Return the text of one module for the target of the first part.

    Args:
        parts: TVM's modules.
        own: definitions and declarations that stay as they are.

    """
    definitions: dict[str, str] = {}
    declarations: dict[str, str] = {}
    rest: list[str] = []
    types: list[str] = []
    for text in [*map(_rename, parts, range(len(parts))), own]:
        for statement in _statements(text):
            if statement.startswith("define available_externally"):
                continue  # it is in the functions that call it
            if " external " in statement.partition("(")[0]:
                declarations.setdefault(_name_of(statement), statement)
                continue
            if statement.startswith(("define ", "@")):
                name = _name_of(statement)
                if text is own or not _OF_TVM.match(name):
                    definitions.setdefault(name, statement)
            elif statement.startswith("declare "):
                declarations.setdefault(_name_of(statement), statement)
            elif re.match(r"attributes |![0-9]", statement):
                rest.append(statement)
            elif statement.startswith("%"):
                types.append(statement)
    triple = [line for line in _HEAD.findall(parts[0]) if line.startswith("target")]
    target = next(line for line in _HEAD.findall(parts[0]) if line.startswith("!"))
    needed = [text for name, text in declarations.items() if name not in definitions]
    flags = ["!llvm.module.flags = !{!0}", f"!0 = {target}"]
    return "\n".join([*triple, *types, *definitions.values(), *needed, *rest, *flags, ""])


def undefined_functions(text: str) -> list[str]:
    """Return the names of the functions that a module calls and does not define, without LLVM's own."""
    names = (_name_of(line)[1:] for line in text.splitlines() if line.startswith("declare "))
    return sorted(name for name in names if not name.startswith("llvm."))


def _name_of(statement: str) -> str:
    found = _NAME.search(statement)
    assert found is not None
    return found.group()


def _statements(text: str) -> Iterator[str]:
    """Yield functions as a whole, and other lines."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("define "):
            function = [line]
            while function[-1] != "}":
                function.append(next(lines))
            yield "\n".join(function)
        elif line:
            yield line


def _rename(text: str, number: int) -> str:
    """Return a module whose names clash with those of no other module, without debugging information."""
    statements = [_DEBUGGING.sub("", f"{statement}\n").rstrip() for statement in _statements(text)]
    private = {_name_of(statement) for statement in statements if _PRIVATE.match(statement)}
    first = (number + 1) * _MANY

    def name(match: re.Match[str]) -> str:
        return f"{match.group()}.{number}" if match.group() in private else match.group()

    def renumber(match: re.Match[str]) -> str:
        return f"{match[1]}{first + int(match[2])}"

    done = []
    for each in statements:
        if re.match(r"![0-9]", each):
            done.append(_NUMBER.sub(renumber, re.sub(r" = (distinct )?!DI.*", " = !{}", each)))
            continue
        if each.startswith("!"):
            continue
        renamed = _NAME.sub(name, each)
        if not each.startswith("@"):  # which may be a text
            renamed = re.sub(r"%(closure_[\w.]+)", rf"%\1.{number}", _NUMBER.sub(renumber, renamed))
        if each.startswith("define "):
            linkage = "weak hidden" if _name_of(each) in _CONVERSIONS else "internal"
            renamed = _LINKAGE.sub(f"define {linkage} ", renamed)
        done.append(renamed)
    return "\n".join(done)
