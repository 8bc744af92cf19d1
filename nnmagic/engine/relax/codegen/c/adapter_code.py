"""Write the LLVM of what SciPy and others call by a pointer, in place of C functions that return codes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from nnmagic.engine import engine_error
from nnmagic.engine.relax.codegen.c.entry_code import KERNEL, NEEDED, CArgument, call_run, llvm_type
from nnmagic.engine.relax.codegen.c.functions import CFunction

#: The symbol of the adapter, and the function of TVM's that returns its address when the code is loaded.
_ADAPTER, ADDRESS_OF = "nnm_adapter", "nnm_address"

_ADDRESS = """
define i32 @__tvm_ffi_{getter}(ptr %self, ptr %arguments, i32 %count, ptr %returned) {{
  %address = ptrtoint ptr @{symbol} to i64
  store i64 1, ptr %returned
  %value = getelementptr i8, ptr %returned, i64 8
  store i64 %address, ptr %value
  ret i32 0
}}
"""

_NAN = "0x7FF8000000000000"


def adapter_code(function: CFunction, signature: str) -> str:
    """Return the code of an adapter with a C signature, and of what returns its address.

    An empty signature is that of C's own numbers, ``double (double, int64_t)``; "c" is the function as it is
    exported. Raises EngineError for a function that the signature does not fit.
    """
    symbol, text = _ADAPTER, ""
    if signature == "c":
        symbol = function.name
    elif signature == "":
        text = _of_numbers(function)
    else:
        text = _ADAPTERS[signature](function, signature)
    return text + _ADDRESS.format(getter=ADDRESS_OF, symbol=symbol)


def _of_numbers(function: CFunction) -> str:
    """Return a number for numbers; NaN where the call fails."""
    *inputs, result = function.arguments
    parameters = ", ".join(argument.llvm for argument in inputs)
    return _returning(function, parameters, [argument.llvm for argument in inputs], result)


def _returning(
    function: CFunction, parameters: str, values: Sequence[str], result: CArgument, before: Sequence[str] = ()
) -> str:
    type_ = llvm_type(result.dtype)
    failed = _NAN if type_ in ("double", "float") else "0"
    return "\n".join(
        [
            f"define {type_} @{_ADAPTER}({parameters}) {{",
            f"  %.result = alloca {type_}",
            *before,
            *call_run(function.name, ["ptr null", *values, "ptr %.result"]),
            f"  %.number = load {type_}, ptr %.result",
            "  %.is_done = icmp eq i32 %.code, 0",
            f"  %.returned = select i1 %.is_done, {type_} %.number, {type_} {failed}",
            f"  ret {type_} %.returned",
            "}",
        ]
    )


def _of_count(function: CFunction, signature: str) -> str:
    """``double (int, double *)``: of several numbers, or of a vector."""
    *inputs, result = function.arguments
    more = ", ptr %user_data" if "void *" in signature else ""
    parameters = f"i32 %count, ptr %values{more}"
    if inputs and inputs[0].is_pointer:
        (shape,) = (inputs[0].shape,)
        assert shape is not None
        before = ["  %size = sext i32 %count to i64"]
        sizes = ["i64 %size"] if len(inputs) > 1 else []
        wanted = "%count" if sizes else shape[0]
        return _check_first(_returning(function, parameters, ["ptr %values", *sizes], result, before), wanted)
    before = []
    for number in range(len(inputs)):
        before.append(f"  %at{number} = getelementptr double, ptr %values, i64 {number}")
        before.append(f"  %value{number} = load double, ptr %at{number}")
    values = [f"double %value{number}" for number in range(len(inputs))]
    return _check_first(_returning(function, parameters, values, result, before), str(len(inputs)))


def _check_first(text: str, wanted: str) -> str:
    """Return a function of ``%count`` values that returns NaN where it is not the count that is wanted."""
    head, *body = text.split("\n")
    allocas = [line for line in body if " = alloca " in line]
    check = f"  %fits = icmp eq i32 %count, {wanted}\n  br i1 %fits, label %go, label %wrong"
    checked = [check, f"wrong:\n  ret double {_NAN}\ngo:", *(line for line in body if line not in allocas)]
    return "\n".join([head, *allocas, *checked])


_STATUS = """  %status = icmp eq i32 %.code, 0
  %.returned = zext i1 %status to i32
  ret i32 %.returned
wrong:
  ret i32 0
}"""


def _of_vector(function: CFunction) -> tuple[list[str], str]:
    """Return the check of a vector's length ``%size``, and the call of a function of the vector."""
    array, *sizes, _ = function.arguments
    assert array.shape is not None
    check = [] if sizes else _branch(f"icmp eq i64 %size, {array.shape[0]}", "fits")
    taken = ["ptr null", "ptr %values", *(["i64 %size"] if sizes else []), "ptr %result"]
    return check, "\n".join(call_run(function.name, taken))


def _filter(function: CFunction, signature: str) -> str:
    """``int (double *, npy_intp, double *, void *)``: of a vector, a number; 0 where it fails."""
    del signature
    check, call = _of_vector(function)
    head = f"define i32 @{_ADAPTER}(ptr %values, i64 %size, ptr %result, ptr %user_data) {{"
    return "\n".join([head, *check, call, _STATUS])


def _lines(function: CFunction, signature: str) -> str:
    """``int (double *, npy_intp, double *, npy_intp, void *)``: of a vector, another one."""
    del signature
    check, call = _of_vector(function)
    head = f"define i32 @{_ADAPTER}(ptr %values, i64 %size, ptr %result, i64 %length, ptr %user_data) {{"
    return "\n".join([head, *check, *_length_check(function), call, _STATUS])


def _length_check(function: CFunction) -> list[str]:
    """Return the instructions that leave where the result has another length than ``%length``."""
    *_, result = function.arguments
    assert result.shape is not None
    if result.shape[0].isdigit():
        return _branch(f"icmp eq i64 %length, {result.shape[0]}", "sized")
    return [
        "  %needed = alloca [2 x i64]",  # of the workspace and of the only result
        "  %status_at = alloca i64",
        "  %needed.address = ptrtoint ptr %needed to i64",
        "  %status.address = ptrtoint ptr %status_at to i64",
        f"  %.unused = call i32 @{function.name}.{KERNEL}{NEEDED}(i64 %size, i64 %needed.address, "
        "i64 %status.address)",
        "  %bytes_at = getelementptr i64, ptr %needed, i64 1",
        "  %bytes = load i64, ptr %bytes_at",
        "  %given_bytes = mul i64 %length, 8",
        *_branch("icmp eq i64 %bytes, %given_bytes", "sized"),
    ]


def _coordinates(function: CFunction, signature: str) -> str:
    """``int (npy_intp *, double *, int, int, void *)``: of a point of the output, that of the input."""
    del signature
    check, call = _of_vector(function)
    parts = [
        f"define i32 @{_ADAPTER}(ptr %values, ptr %result, i32 %rank, i32 %input_rank, ptr %user_data) {{",
        "  %size = sext i32 %rank to i64",
        "  %length = sext i32 %input_rank to i64",
        *check,
        *_length_check(function),
        call,
        _STATUS,
    ]
    return "\n".join(parts)


def _branch(condition: str, name: str) -> list[str]:
    return [f"  %{name} = {condition}", f"  br i1 %{name}, label %is_{name}, label %wrong", f"is_{name}:"]


_ADAPTERS: dict[str, Callable[[CFunction, str], str]] = {
    "double (double)": lambda function, _: _of_numbers(function),
    "double (double, void *)": lambda function, _: _of_numbers(function).replace(
        ") {", ", ptr %user_data) {", 1
    ),
    "double (int, double *)": _of_count,
    "double (int, double *, void *)": _of_count,
    "int (double *, npy_intp, double *, void *)": _filter,
    "int (double *, npy_intp, double *, npy_intp, void *)": _lines,
    "int (npy_intp *, double *, int, int, void *)": _coordinates,
}

#: What a function takes and returns, by the signature: ``d`` is a float64, ``D`` a vector of it, ``L`` a
#: vector of int64. The first signature that fits is the one that a function has by default.
_FORMS = {
    "double (double)": "d>d",
    "double (double, void *)": "d>d",
    "int (double *, npy_intp, double *, void *)": "D>d",
    "double (int, double *)": "(d+|D)>d",
    "double (int, double *, void *)": "(d+|D)>d",
    "int (double *, npy_intp, double *, npy_intp, void *)": "D>D",
    "int (npy_intp *, double *, int, int, void *)": "L>D",
}


def choose_signature(function: CFunction, signature: str | None) -> str:
    """Return a signature that fits a function: the one that is asked for, or the first one.

    Raises EngineError if none does.
    """
    letters = {("float64", 0): "d", ("float64", 1): "D", ("int64", 1): "L"}
    plain = [argument for argument in function.arguments if argument.role != "size"]
    known = [letters.get((each.dtype, len(each.shape or ())), "?") for each in plain]
    is_plain = [each.role for each in plain] == ["in"] * (len(plain) - 1) + ["out"]
    form = f"{''.join(known[:-1])}>{''.join(known[-1:])}" if is_plain else ""
    fitting = [name for name, pattern in _FORMS.items() if re.fullmatch(pattern, form)]
    if fitting and (signature is None or signature in fitting):
        return signature or fitting[0]
    what = f"the signature {signature!r}" if signature else "a signature that SciPy calls"
    hint = (
        f"those that it fits are {'; '.join(fitting)}" if fitting else "take f64, or a vector, and return one"
    )
    raise engine_error(f"@{function.title} does not fit {what}", hint=hint)
