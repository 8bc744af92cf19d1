"""Write the wrapper of exported functions in C++20: one header.

It takes arrays with their shapes, checks named sizes against each other, makes results, and throws errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from nnmagic._version import __version__
from nnmagic.functions.exporting.header import C_TYPES, c_size
from nnmagic.functions.exporting.wrapped_function import WrappedFunction

if TYPE_CHECKING:
    from nnmagic.engine.relax.codegen.c.entry_code import CArgument
    from nnmagic.engine.relax.codegen.c.functions import CFunction

_CPP = """// {name}: made by nnmagic {version}. C++20; link it with the library of {header}.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <version>
#if defined(__cpp_lib_mdspan)
#include <mdspan>
#endif
#include "{header}"

#ifndef NNM_WRAPPERS
#define NNM_WRAPPERS
namespace nnm {{
/// Elements of the caller in C's order, and their shape.
template <class T, std::size_t Rank> struct view {{
    T *data;
    std::array<std::size_t, Rank> shape;
    view(T *data, std::array<std::size_t, Rank> shape) : data(data), shape(shape) {{}}
    template <class U> view(std::span<U> span) requires (Rank == 1)
        : data(span.data()), shape{{span.size()}} {{}}
    template <class C> view(C &container) requires (Rank == 1 && requires {{ std::data(container); }})
        : data(std::data(container)), shape{{std::size(container)}} {{}}
#if defined(__cpp_lib_mdspan)
    template <class U, class Extents> view(std::mdspan<U, Extents> given) : data(given.data_handle()) {{
        for (std::size_t axis = 0; axis < Rank; ++axis) shape[axis] = given.extent(axis);
    }}
#endif
}};
/// A result: its elements in C's order, and their shape.
template <class T, std::size_t Rank> struct array {{
    std::array<std::size_t, Rank> shape;
    std::unique_ptr<T[]> data;
    explicit array(std::array<std::size_t, Rank> shape) : shape(shape), data(new T[size() + 1]) {{}}
    std::size_t size() const {{
        std::size_t count = 1;
        for (std::size_t extent : shape) count *= extent;
        return count;
    }}
    T &operator[](std::size_t index) const {{ return data[index]; }}
    T *begin() const {{ return data.get(); }}
    T *end() const {{ return data.get() + size(); }}
#if defined(__cpp_lib_mdspan)
    auto mdspan() const {{ return std::mdspan<T, std::dextents<std::size_t, Rank>>(data.get(), shape); }}
#endif
}};
/// A call that failed: the code of the C function, and its message.
struct error : std::runtime_error {{
    int code;
    error(int code, const char *message) : std::runtime_error(message), code(code) {{}}
}};
inline void fits(std::size_t given, std::int64_t wanted, const char *what) {{
    if (given != static_cast<std::size_t>(wanted)) throw error(1, what);
}}
}}  // namespace nnm
#endif

namespace {name}_cpp {{
"""


def cpp_text(functions: Sequence[CFunction], name: str, header: str, docs: Sequence[str]) -> str:
    """Return the header of C++ for a library.

    Args:
        functions: the functions.
        name: the library's.
        header: the file of its header of C.
        docs: the docstring of each function.

    """
    parts = [_CPP.format(name=_word(name), header=header, version=__version__)]
    for function, doc in zip(functions, docs, strict=True):
        parts += [f"/// {line}".rstrip() for line in doc.strip().splitlines()]
        parts += [*_cpp_function(WrappedFunction(function)), ""]
    return "\n".join([*parts, f"}}  // namespace {_word(name)}_cpp", ""])


def _cpp_function(wrapped: WrappedFunction) -> Iterator[str]:
    function = wrapped.function
    results = [_cpp_result(each) for each in wrapped.results]
    result = results[0] if len(results) == 1 else f"std::tuple<{', '.join(results)}>" if results else "void"
    parameters = ", ".join(f"{_cpp_parameter(each)} {each.name}" for each in wrapped.given)
    yield f"inline {result} {function.name}({parameters}) {{"
    for size, length in wrapped.sizes("{name}.shape[{axis}]"):
        yield f"    const auto {size} = static_cast<std::int64_t>({length});"
    for argument, axis, size in wrapped.checks():
        what = f'"{function.name}: axis {axis} of {argument.name} must be {size}"'
        yield f"    nnm::fits({argument.name}.shape[{axis}], {c_size(size)}, {what});"
    call = []
    for argument in function.arguments:
        name, type_ = argument.name, C_TYPES[argument.dtype]
        if argument.role == "out" and argument.shape:
            sizes = ", ".join(f"static_cast<std::size_t>({c_size(size)})" for size in argument.shape)
            yield f"    {_cpp_result(argument)} {name}({{{sizes}}});"
        elif argument.role in ("out", "made"):
            yield f"    {type_} {'*' * (argument.role == 'made')}{name}{{}};"
        elif argument.role == "made_shape":
            yield f"    std::int64_t {name}[{(argument.shape or ('1',))[0]}];"
        is_view = argument.shape is not None and argument.role in ("in", "inout", "copied")
        is_own = argument.role == "out" and argument.shape
        is_address = argument.role == "made" or (argument.role == "out" and not argument.shape)
        call.append(
            f"{name}.data" if is_view else f"{name}.data.get()" if is_own else "&" * is_address + name
        )
    yield f"    if (const int nnm_code = ::{function.name}({', '.join(call)}))"
    yield f"        throw nnm::error(nnm_code, ::{function.name}_message(nnm_code));"
    values = list[str]()
    for argument in wrapped.results:
        if argument.role == "made":
            shape = [f"static_cast<std::size_t>({size})" for size in argument.shape or ()]
            own, type_ = f"{argument.name}_array", C_TYPES[argument.dtype]
            memory = f"std::unique_ptr<{type_}, decltype(&std::free)> {own}_memory"
            yield f"    {memory}({argument.name}, &std::free);"
            yield f"    {_cpp_result(argument)} {own}({{{', '.join(shape)}}});"
            yield f"    std::copy_n({argument.name}, {own}.size(), {own}.begin());"
            values.append(f"std::move({own})")
        else:
            values.append(f"std::move({argument.name})" if argument.shape else argument.name)
    if values:
        yield (
            f"    return {{{', '.join(values)}}};"
            if len(values) > 1
            else f"    return {_strip_move(values[0])};"
        )
    yield "}"


def _strip_move(expression: str) -> str:
    """Return what is returned alone: a name is moved by itself."""
    return expression.removeprefix("std::move(").removesuffix(")")


def _cpp_parameter(argument: CArgument) -> str:
    if argument.shape is None:
        return C_TYPES[argument.dtype]
    const = "const " if argument.role == "in" else ""
    return f"nnm::view<{const}{C_TYPES[argument.dtype]}, {len(argument.shape)}>"


def _cpp_result(argument: CArgument) -> str:
    type_ = C_TYPES[argument.dtype]
    return f"nnm::array<{type_}, {len(argument.shape)}>" if argument.shape else type_


def _word(name: str) -> str:
    """Return a library's name as an identifier."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII)
    return word if word[:1].isalpha() or word[:1] == "_" else f"_{word}"
