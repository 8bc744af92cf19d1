"""Write the header of C functions, and a program that calls them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from nnmagic._version import __version__

if TYPE_CHECKING:
    from nnmagic.engine.relax.codegen.c.entry_code import CArgument
    from nnmagic.engine.relax.codegen.c.functions import CFunction

#: The types of C by dtype.
C_TYPES = {
    "bool": "bool",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "float32": "float",
    "float64": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}

#: What the codes of failures begin at.
_FAILURES = 16

_ROLES = {
    "in": "read",
    "inout": "read and changed",
    "copied": "read and changed",
    "out": "written",
    "made": "allocated by the function, for the caller to free; NULL if it fails",
    "made_shape": "written",
    "size": "a size",
}

_HOST = """#ifndef NNM_HOST
#define NNM_HOST
/* What a host may do for a call: allocate memory, and run tasks in its threads. Members may be NULL.
   `parallel` runs task(data, number, count) for each number below count, which is `threads` at most, perhaps
   at the same time, and returns 0, or what a task returned else. */
typedef struct nnm_host {
    void *context;
    void *(*allocate)(void *context, size_t bytes);
    void (*release)(void *context, void *memory);
    int (*parallel)(void *context, int (*task)(void *data, int number, int count), void *data, int count);
    int threads;
} nnm_host;
#endif
"""


def header_text(functions: Sequence[CFunction], name: str, docs: Sequence[str], machine: str) -> str:
    """Return the header of functions.

    Args:
        functions: the functions.
        name: the library's.
        docs: the docstring of each function.
        machine: what it is for.

    """
    guard = re.sub(r"\W", "_", f"NNM_{name.upper()}_H", flags=re.ASCII)
    lines = [
        f"/* {name}: made by nnmagic {__version__} for {machine}. It needs libm and libc alone.\n"
        "   Arrays are in C's order, aligned as their elements, and share no memory with what is written.\n"
        "   Functions return 0, or a code that their message explains; any threads may call them. */",
        f"#ifndef {guard}\n#define {guard}\n",
        "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n",
        '#ifdef __cplusplus\nextern "C" {\n#endif\n',
        _HOST,
    ]
    for function, doc in zip(functions, docs, strict=True):
        lines += _function(function, doc)
    lines.append("#ifdef __cplusplus\n}\n#endif\n#endif")
    return "\n".join(lines) + "\n"


def _function(function: CFunction, doc: str) -> Iterator[str]:
    lines = [*_comment_lines(doc), ""] if doc else []
    width = max((len(argument.name) for argument in function.arguments), default=0)
    for argument in function.arguments:
        shape = "" if not argument.shape else f"[{', '.join(argument.shape)}]"
        role = "" if argument.role == "in" and argument.shape is None else f": {_ROLES[argument.role]}"
        lines.append(f"{argument.name:{width}}  {argument.dtype}{shape}{role}")
    for code, message in enumerate(function.messages, _FAILURES):
        lines += [f"returns {code}: {line}" for line in _comment_lines(message)[:1]]
    comment = "\n".join(f"   {line}".rstrip() for line in lines).strip()
    yield f"/* {comment.replace('*/', '* /')} */"
    parameters = [declare(argument) for argument in function.arguments]
    yield f"int {function.name}({', '.join(parameters) or 'void'});"
    yield f"int {function.name}_with({', '.join(['const nnm_host *host', *parameters])});"
    yield f"const char *{function.name}_message(int code);\n"


def _comment_lines(text: str) -> list[str]:
    lines = textwrap.dedent(text.expandtabs().strip()).splitlines()
    return [line.rstrip().replace("\\", "\\\\") for line in lines]


def declare(argument: CArgument) -> str:
    """Return the declaration of an argument."""
    type_ = C_TYPES[argument.dtype]
    if argument.shape is None:
        return f"{type_} {argument.name}"
    stars = "**" if argument.role == "made" else "*"
    const = "const " if argument.role == "in" else ""
    return f"{const}{type_} {stars}{argument.name}"


def example_text(functions: Sequence[CFunction], header: str) -> str:
    """Return a program of C that calls each function with zeros, and named sizes of 4."""
    lines = ["#include <stdio.h>", "#include <stdlib.h>", f'#include "{header}"', "", "int main(void) {"]
    lines += ["    int failed = 0;"]
    for function in functions:
        lines += ["    {"]
        passed, declared, freed = list[str](), list[str](), list[str]()
        for argument in function.arguments:
            type_, name = C_TYPES[argument.dtype], argument.name
            passed.append(f"&{name}" if argument.role == "made" else name)
            if argument.role == "size":
                lines.append(f"        int64_t {name} = 4;")
            elif argument.shape is None:
                lines.append(f"        {type_} {name} = 0;")
            else:
                count = " * ".join(f"({c_size(size)})" for size in argument.shape) or "1"
                array = (
                    "NULL" if argument.role == "made" else f"calloc((size_t)({count}) + 1, sizeof({type_}))"
                )
                declared.append(f"        {type_} *{name} = {array};")
                freed.append(name)
        lines += declared
        call = f"{function.name}({', '.join(passed)})"
        lines.append(f"        int code = {call};")
        lines.append(f'        printf("{function.name}: %s\\n", {function.name}_message(code));')
        lines += [f"        free({name});" for name in freed]
        lines += ["        failed |= code != 0;", "    }"]
    return "\n".join([*lines, "    return failed;", "}", ""])


def c_size(size: str) -> str:
    """Return a size as C computes it: of sizes that are not negative."""
    return size.replace("//", "/").replace(" and ", " && ").replace(" or ", " || ")
