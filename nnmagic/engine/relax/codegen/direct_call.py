"""Compile what CPython calls in the place of a compiled function; see ``runtime/direct_call.py``.

It is one function of machine code for all programs: it looks at the arguments, makes the result, and calls
the entry of the program that a table describes. Whatever it does not take it hands over to Python.
"""

from __future__ import annotations

from functools import cache

from nnmagic.engine.relax.codegen.object_code import compile_llvm
from nnmagic.engine.relax.runtime.direct_call import ADDRESS, DIMENSIONS, MAX_ARITY, MAX_DIMS, MAX_RANK, Word
from nnmagic.engine.relax.runtime.numpy_abi import DATA, DIMS, RANK, TYPE

#: A value of TVM's calls: the kind of an integer, then the integer.
_INTEGER = 1

_CODE = """
define ptr @nnmagic_direct_call(ptr %self, ptr %given, i64 %count, ptr %names) {{
entry:
  %values = alloca [{values} x i64]
  %sizes = alloca [{max_dims} x i64]
  %shape = alloca [{max_rank} x i64]
  %returned = alloca [2 x i64]
  %parts_at = getelementptr i64, ptr %self, i64 {data}
  %parts = load ptr, ptr %parts_at
  %python = load ptr, ptr %parts
  %table_at = getelementptr ptr, ptr %parts, i64 1
  %table_object = load ptr, ptr %table_at
  %words_at = getelementptr i64, ptr %table_object, i64 {data}
  %words = load ptr, ptr %words_at
{loads}
  %plain = icmp eq ptr %names, null
  %complete = icmp eq i64 %count, %arity
  %is_off = load i64, ptr %switch
  %is_on = icmp eq i64 %is_off, 0
  %takes0 = and i1 %plain, %complete
  %is_idle = icmp eq i64 %busy, 0
  %takes1 = and i1 %takes0, %is_idle
  %takes = and i1 %takes1, %is_on
  br i1 %takes, label %arguments, label %refuse

arguments:
  %argument = phi i64 [ 0, %entry ], [ %next_argument, %next ]
  %more = icmp slt i64 %argument, %arity
  br i1 %more, label %look, label %dimensions
look:
  %object_at = getelementptr ptr, ptr %given, i64 %argument
  %object = load ptr, ptr %object_at
  %type_at = getelementptr ptr, ptr %object, i64 {type}
  %type = load ptr, ptr %type_at
  %is_array = icmp eq ptr %type, %array_type
  br i1 %is_array, label %next, label %refuse
next:
  %kind_index = mul i64 %argument, 2
  %kind_at = getelementptr i64, ptr %values, i64 %kind_index
  store i64 {integer}, ptr %kind_at
  %value_at = getelementptr i64, ptr %kind_at, i64 1
  store ptr %object, ptr %value_at
  %next_argument = add i64 %argument, 1
  br label %arguments

dimensions:
  %dimension = phi i64 [ 0, %arguments ], [ %next_dimension, %counted ]
  %elements = phi i64 [ 1, %arguments ], [ %product, %counted ]
  %more_dims = icmp slt i64 %dimension, %dims
  br i1 %more_dims, label %measure, label %result_shape
measure:
  %triple_index = mul i64 %dimension, 3
  %triple_at = getelementptr i64, ptr %words, i64 %triple_index
  %array_at = getelementptr i64, ptr %triple_at, i64 {first}
  %array_number = load i64, ptr %array_at
  %axis_at = getelementptr i64, ptr %array_at, i64 1
  %axis = load i64, ptr %axis_at
  %wanted_at = getelementptr i64, ptr %array_at, i64 2
  %wanted = load i64, ptr %wanted_at
  %measured_at = getelementptr ptr, ptr %given, i64 %array_number
  %measured = load ptr, ptr %measured_at
  %rank_at = getelementptr i64, ptr %measured, i64 {rank}
  %rank_bits = load i32, ptr %rank_at
  %rank = zext i32 %rank_bits to i64
  %same_rank = icmp eq i64 %rank, %wanted
  br i1 %same_rank, label %read, label %refuse
read:
  %extents_at = getelementptr i64, ptr %measured, i64 {extents}
  %extents = load ptr, ptr %extents_at
  %extent_at = getelementptr i64, ptr %extents, i64 %axis
  %extent = load i64, ptr %extent_at
  %fits = icmp ule i64 %extent, %limit
  br i1 %fits, label %count_elements, label %refuse
count_elements:
  %size_at = getelementptr i64, ptr %sizes, i64 %dimension
  store i64 %extent, ptr %size_at
  %is_empty = icmp eq i64 %extent, 0
  %factor = select i1 %is_empty, i64 1, i64 %extent
  %product = mul i64 %elements, %factor
  %few = icmp ule i64 %product, %limit
  br i1 %few, label %counted, label %refuse
counted:
  %next_dimension = add i64 %dimension, 1
  br label %dimensions

result_shape:
  %shape_index0 = mul i64 %dims, 3
  %shape_index = add i64 %shape_index0, {first}
  %shape_at = getelementptr i64, ptr %words, i64 %shape_index
  br label %axes
axes:
  %result_axis = phi i64 [ 0, %result_shape ], [ %next_axis, %set ]
  %more_axes = icmp slt i64 %result_axis, %result_rank
  br i1 %more_axes, label %axis_size, label %make
axis_size:
  %stated_at = getelementptr i64, ptr %shape_at, i64 %result_axis
  %stated = load i64, ptr %stated_at
  %is_number = icmp sge i64 %stated, 0
  br i1 %is_number, label %set, label %named
named:
  %name_number = xor i64 %stated, -1
  %named_at = getelementptr i64, ptr %sizes, i64 %name_number
  %named_size = load i64, ptr %named_at
  br label %set
set:
  %extent_of_axis = phi i64 [ %stated, %axis_size ], [ %named_size, %named ]
  %set_at = getelementptr i64, ptr %shape, i64 %result_axis
  store i64 %extent_of_axis, ptr %set_at
  %next_axis = add i64 %result_axis, 1
  br label %axes

make:
  call void %incref(ptr %result_dtype)
  %rank_of_result = trunc i64 %result_rank to i32
  %result = call ptr %new_array(ptr %array_type, ptr %result_dtype, i32 %rank_of_result, ptr %shape,
      ptr null, ptr null, i32 0, ptr null)
  %is_made = icmp ne ptr %result, null
  br i1 %is_made, label %run, label %failed
run:
  %rest_index = mul i64 %arity, 2
  %rest = getelementptr i64, ptr %values, i64 %rest_index
  store i64 {integer}, ptr %rest
  %result_at = getelementptr i64, ptr %rest, i64 1
  store ptr %result, ptr %result_at
  %workspace_kind = getelementptr i64, ptr %rest, i64 2
  store i64 {integer}, ptr %workspace_kind
  %workspace_value = getelementptr i64, ptr %rest, i64 3
  store ptr %workspace, ptr %workspace_value
  %constants_kind = getelementptr i64, ptr %rest, i64 4
  store i64 {integer}, ptr %constants_kind
  %constants_value = getelementptr i64, ptr %rest, i64 5
  store ptr %constants, ptr %constants_value
  store i64 0, ptr %returned
  %code_at = getelementptr i64, ptr %returned, i64 1
  store i64 0, ptr %code_at
  %length0 = add i64 %arity, 3
  %length = trunc i64 %length0 to i32
  store i64 1, ptr %busy_at
  %status = call i32 %call(ptr %program, ptr %values, i32 %length, ptr %returned)
  store i64 0, ptr %busy_at
  %code = load i64, ptr %code_at
  %no_error = icmp eq i32 %status, 0
  %no_code = icmp eq i64 %code, 0
  %is_done = and i1 %no_error, %no_code
  br i1 %is_done, label %done, label %drop
done:
  ret ptr %result
drop:
  call void %clear_error()
  call void %decref(ptr %result)
  br label %refuse
failed:
  ret ptr null
refuse:
  %answer = call ptr %call_python(ptr %python, ptr %given, i64 %count, ptr %names)
  ret ptr %answer
}}

define i32 @__tvm_ffi_{address}(ptr %self, ptr %arguments, i32 %count, ptr %returned) {{
  store i64 {integer}, ptr %returned
  %value = getelementptr i8, ptr %returned, i64 8
  store ptr @nnmagic_direct_call, ptr %value
  ret i32 0
}}
"""


@cache
def compile_direct_call() -> bytes:
    """Return the object file, for this machine."""
    code = _CODE.format(
        address=ADDRESS,
        values=2 * (MAX_ARITY + 3),
        max_dims=MAX_DIMS,
        max_rank=MAX_RANK,
        data=DATA,
        type=TYPE,
        rank=RANK,
        extents=DIMS,
        first=DIMENSIONS,
        integer=_INTEGER,
        loads="\n".join(map(_load, Word)),
    )
    return compile_llvm(code).code


def _load(word: Word) -> str:
    """Return the instructions that load a word of the table under its name."""
    name = word.name.lower()
    kind = "i64" if word.is_number else "ptr"
    return (
        f"  %{name}_at = getelementptr i64, ptr %words, i64 {word.value}\n"
        f"  %{name} = load {kind}, ptr %{name}_at"
    )
