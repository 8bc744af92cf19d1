"""Write the wrapper of exported functions in Rust: one module, which needs no crate.

It takes arrays with their shapes, checks named sizes against each other, makes results, and returns errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from nnmagic._version import __version__
from nnmagic.functions.exporting.header import c_size
from nnmagic.functions.exporting.wrapped_function import WrappedFunction

if TYPE_CHECKING:
    from nnmagic.engine.relax.codegen.c.entry_code import CArgument
    from nnmagic.engine.relax.codegen.c.functions import CFunction

_RUST = {
    "bool": "bool",
    "float16": "u16",
    "bfloat16": "u16",
    "float32": "f32",
    "float64": "f64",
    **{f"{sign}int{bits}": f"{'u' if sign else 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
#: Words that a cell may have as a name.
_KEYWORDS = frozenset(
    """abstract become box const crate do dyn enum extern final fn impl let loop macro match mod move mut
    override priv pub ref static struct trait type typeof unsafe unsized use virtual where""".split()  # noqa: SIM905 - a list of words
)

_RS = """// {name}: made by nnmagic {version}. Link it with the library {name}, and libm.
#![allow(dead_code, clippy::all)]

/// Elements in C's order, and their shape.
pub struct View<'a, T, const RANK: usize> {{
    pub data: &'a [T],
    pub shape: [usize; RANK],
}}

/// The same, to be changed.
pub struct ViewMut<'a, T, const RANK: usize> {{
    pub data: &'a mut [T],
    pub shape: [usize; RANK],
}}

impl<'a, T> From<&'a [T]> for View<'a, T, 1> {{
    fn from(data: &'a [T]) -> Self {{ View {{ data, shape: [data.len()] }} }}
}}

impl<'a, T> From<&'a mut [T]> for ViewMut<'a, T, 1> {{
    fn from(data: &'a mut [T]) -> Self {{ let shape = [data.len()]; ViewMut {{ data, shape }} }}
}}

/// A result: its elements in C's order, and their shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Array<T, const RANK: usize> {{
    pub data: Vec<T>,
    pub shape: [usize; RANK],
}}

/// A call that failed: the code of the C function, and its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {{
    pub code: i32,
    pub message: String,
}}

impl std::fmt::Display for Error {{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {{ f.write_str(&self.message) }}
}}

impl std::error::Error for Error {{}}

fn fits(given: usize, wanted: i64, what: &str) -> Result<(), Error> {{
    if given as i64 == wanted {{ Ok(()) }} else {{ Err(Error {{ code: 1, message: what.to_string() }}) }}
}}

fn check(code: i32, message: unsafe extern "C" fn(i32) -> *const std::os::raw::c_char) -> Result<(), Error> {{
    if code == 0 {{ return Ok(()); }}
    let message = unsafe {{ std::ffi::CStr::from_ptr(message(code)) }}.to_string_lossy().into_owned();
    Err(Error {{ code, message }})
}}

extern "C" {{
    fn free(memory: *mut std::os::raw::c_void);
}}
"""


def rust_text(functions: Sequence[CFunction], name: str, docs: Sequence[str]) -> str:
    """Return the module of Rust for a library; ``docs``: the docstring of each function."""
    parts = [_RS.format(name=name, version=__version__)]
    for function, doc in zip(functions, docs, strict=True):
        parts += _declaration(function)
        parts += [f"/// {line}".rstrip() for line in doc.strip().splitlines()]
        parts += [*_function(WrappedFunction(function)), ""]
    return "\n".join(parts)


def _declaration(function: CFunction) -> Iterator[str]:
    parameters = ", ".join(f"{_name(argument.name)}: {_c_type(argument)}" for argument in function.arguments)
    yield 'mod c_NAME {\n    extern "C" {'.replace("NAME", function.name)
    yield f"        pub fn {_name(function.name)}({parameters}) -> i32;"
    yield f"        pub fn {function.name}_message(code: i32) -> *const std::os::raw::c_char;"
    yield "    }\n}\n"


def _c_type(argument: CArgument) -> str:
    type_ = _RUST[argument.dtype]
    if argument.shape is None:
        return type_
    if argument.role == "in":
        return f"*const {type_}"
    return f"*mut {'*mut ' * (argument.role == 'made')}{type_}"


def _function(wrapped: WrappedFunction) -> Iterator[str]:
    function = wrapped.function
    results = [_result(each) for each in wrapped.results]
    result = results[0] if len(results) == 1 else f"({', '.join(results)})"
    parameters = ", ".join(f"{_name(each.name)}: {_parameter(each)}" for each in wrapped.given)
    lifetime = "<'a>" if any(each.shape is not None for each in wrapped.given) else ""
    yield f"pub fn {_name(function.name)}{lifetime}({parameters}) -> Result<{result}, Error> {{"
    for each in wrapped.given:
        if each.shape is not None:
            yield f"    let {_name(each.name)} = {_name(each.name)}.into();"
            yield f"    let {each.name}_view: {_view(each)} = {_name(each.name)};"
            yield f"    let {each.name}_count: usize = {each.name}_view.shape.iter().product();"
            what = f'"{function.name}: {each.name} has another number of elements than its shape says"'
            yield f"    fits({each.name}_view.data.len(), {each.name}_count as i64, {what})?;"
    for size, length in wrapped.sizes("{name}_view.shape[{axis}]"):
        yield f"    let {_name(size)} = {length} as i64;"
    for argument, axis, size in wrapped.checks():
        what = f'"{function.name}: axis {axis} of {argument.name} must be {size}"'
        yield f"    fits({argument.name}_view.shape[{axis}], {_size(size)}, {what})?;"
    call = []
    for argument in function.arguments:
        statements, passed = _argument(argument)
        yield from statements
        call.append(passed)
    path = f"c_{function.name}::{_name(function.name)}"
    yield f"    let code = unsafe {{ {path}({', '.join(call)}) }};"
    yield f"    check(code, c_{function.name}::{function.name}_message)?;"
    for argument in wrapped.results:
        if argument.role == "made":
            yield from _copy_result(argument)
    values = ", ".join(_value(argument) for argument in wrapped.results)
    yield f"    Ok({values if len(results) == 1 else f'({values})'})"
    yield "}"


def _argument(argument: CArgument) -> tuple[list[str], str]:
    """Return the statements ahead of a call that an argument needs, and what the call is given."""
    name, type_ = argument.name, _RUST[argument.dtype]
    match argument.role:
        case "in" | "inout" | "copied" if argument.shape is not None:
            return [], f"{name}_view.data.as_{'' if argument.role == 'in' else 'mut_'}ptr()"
        case "out":
            zero = "false" if type_ == "bool" else f"0 as {type_}"
            return [f"    let mut {name} = vec![{zero}; {_count(argument)}];"], f"{name}.as_mut_ptr()"
        case "made":
            return [f"    let mut {name}: *mut {type_} = std::ptr::null_mut();"], f"&mut {name}"
        case "made_shape":
            return [f"    let mut {name} = [0i64; {(argument.shape or ('1',))[0]}];"], f"{name}.as_mut_ptr()"
    return [], _name(name)


def _count(argument: CArgument) -> str:
    """Return how many elements a result has."""
    sizes = " * ".join(f"({_size(size)})" for size in argument.shape or ())
    return f"({sizes}) as usize" if sizes else "1"


def _copy_result(argument: CArgument) -> Iterator[str]:
    """Yield what copies a result that the function has allocated, and frees it."""
    name = argument.name
    yield f"    let {name} = unsafe {{"
    yield f"        let copied = std::slice::from_raw_parts({name}, {_count(argument)}).to_vec();"
    yield f"        free({name} as *mut std::os::raw::c_void);"
    yield "        copied\n    };"


def _value(argument: CArgument) -> str:
    """Return a result as the wrapper returns it."""
    if not argument.shape:
        return f"{argument.name}[0]"
    shape = ", ".join(f"({_size(size)}) as usize" for size in argument.shape)
    return f"Array {{ data: {argument.name}, shape: [{shape}] }}"


def _view(argument: CArgument) -> str:
    changes = "" if argument.role == "in" else "Mut"
    return f"View{changes}<'a, {_RUST[argument.dtype]}, {len(argument.shape or ())}>"


def _parameter(argument: CArgument) -> str:
    return _RUST[argument.dtype] if argument.shape is None else f"impl Into<{_view(argument)}>"


def _result(argument: CArgument) -> str:
    type_ = _RUST[argument.dtype]
    return f"Array<{type_}, {len(argument.shape)}>" if argument.shape else type_


def _size(size: str) -> str:
    """Return a size as Rust computes it: of sizes that are not negative."""
    return re.sub(r"[A-Za-z_]\w*", lambda found: _name(found[0]), c_size(size))


def _name(name: str) -> str:
    return f"r#{name}" if name in _KEYWORDS else name
