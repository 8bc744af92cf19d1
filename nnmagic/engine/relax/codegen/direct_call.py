"""Compile what CPython calls in place of a compiled function; see ``runtime/direct_call.py``.

It is one function of machine code for all programs: it looks at the arguments, makes the result, and calls
the entry of the program that a table describes. Whatever it does not take it hands over to Python. Another
function stands between kernels and TVM's thread pool, which is for calls through Python only. A third is the
loop of NumPy's ufuncs, see ``runtime/ufunc.py``.
"""

from __future__ import annotations

import re
import struct
import textwrap
from functools import cache
from itertools import starmap

import numpy as np

from nnmagic.engine.relax.codegen.object_code import compile_llvm
from nnmagic.engine.relax.runtime.direct_call import (
    ADDRESS,
    DIMENSIONS,
    LARGEST,
    LAUNCH,
    LEFT_WORDS,
    MAX_ARITY,
    MAX_DEPTH,
    MAX_DIMS,
    MAX_RESULTS,
    NUMBERS,
    RESULT_WORDS,
    NumberWords,
    StackCode,
    Word,
)
from nnmagic.engine.relax.runtime.numpy_abi import DATA, DESCR, DIMS, FLAGS, RANK, READABLE, TYPE, WORDS
from nnmagic.engine.relax.runtime.ufunc import LOOP, MAX_RANK, MOST_OPERANDS, LoopWord

#: A value of TVM's calls: the kind of an integer, then the integer.
_INTEGER = 1

#: The word of an object of Python's float or of a scalar of NumPy where the number is.
_CONTENT = 2

#: NumPy's flag of an array that can be changed.
_WRITEABLE = 0x400

#: The most rows of a loop that machine code runs without Python, the most of one each row of which takes the
#: row before, and the most bytes of an element.
_MOST_ROWS, _MOST_IN_SEQUENCE, _ITEM = 128, 32, 16

#: The largest number of float32, in the hexadecimal digits in which LLVM writes a double.
_LARGEST_SINGLE = "0x" + struct.pack(">d", float(np.finfo("float32").max)).hex().upper()

#: How many calls go through Python after one that failed, as the next ones may be like it.
_SKIPS = 64

#: The words below the stack of sizes that an instruction may read and not use.
_BELOW = 3

#: The instructions that compute ``%value`` of an operator from ``%left`` and ``%right``, the topmost
#: sizes, and ``%third`` below them.
_OPERATORS = {
    StackCode.NUMBER: "%value = add i64 %operand, 0",
    StackCode.DIM: "%dim_at = getelementptr i64, ptr %sizes, i64 %operand\n%value = load i64, ptr %dim_at",
    StackCode.ADD: "%value = add i64 %left, %right",
    StackCode.SUBTRACT: "%value = sub i64 %left, %right",
    StackCode.MULTIPLY: "%value = mul i64 %left, %right",
    StackCode.DIVIDE: """%quotient = sdiv i64 %right, %operand
%rest = srem i64 %right, %operand
%borrow = ashr i64 %rest, 63
%value = add i64 %quotient, %borrow""",
    StackCode.REMAINDER: """%rest = srem i64 %right, %operand
%sign = ashr i64 %rest, 63
%borrow = and i64 %sign, %operand
%value = add i64 %rest, %borrow""",
    StackCode.MINIMUM: "%value = call i64 @llvm.smin.i64(i64 %left, i64 %right)",
    StackCode.MAXIMUM: "%value = call i64 @llvm.smax.i64(i64 %left, i64 %right)",
    **{
        operator: f"%holds = icmp {predicate} i64 %left, %right\n%value = zext i1 %holds to i64"
        for operator, predicate in (
            (StackCode.LESS, "slt"),
            (StackCode.AT_MOST, "sle"),
            (StackCode.GREATER, "sgt"),
            (StackCode.AT_LEAST, "sge"),
            (StackCode.EQUAL, "eq"),
            (StackCode.DIFFERENT, "ne"),
        )
    },
    StackCode.AND: "%value = and i64 %left, %right",
    StackCode.OR: "%value = or i64 %left, %right",
    StackCode.IF: "%holds = icmp ne i64 %third, 0\n%value = select i1 %holds, i64 %left, i64 %right",
}

#: What the entry takes after the results: a value of the code, and what has its number. The next one is
#: stored over what is not there.
_LAST_VALUES = {
    "addresses": "addresses_number",
    "workspace": "workspace_number",
    "constants": "constants_number",
}

_CODE = """
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare double @llvm.fabs.f64(double)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define ptr @nnmagic_direct_call(ptr %self, ptr %given, i64 %count, ptr %names) {{
entry:
  %values = alloca [{values} x i64]
  %sizes = alloca [{max_dims} x i64]
  %stack = alloca [{stack} x i64]
  %shape = getelementptr i64, ptr %stack, i64 {below}
  %overflow_at = alloca i32
  %returned = alloca [2 x i64]
  %made = alloca [{max_results} x ptr]
  %parts = load ptr, ptr %self[{data}]
  %python = load ptr, ptr %parts
  %table_object = load ptr, ptr %parts[1]
  %words = load ptr, ptr %table_object[{data}]
{loads}
  %plain = icmp eq ptr %names, null
  %complete = icmp eq i64 %count, %arity
  %is_off = load i64, ptr %switch
  %is_on = icmp eq i64 %is_off, 0
  %is_idle = icmp eq i64 %busy, 0
  %takes = and i1 (and i1 (and i1 %plain, %complete), %is_idle), %is_on
  br i1 %takes, label %look_back, label %refuse
look_back:
  br i1 (icmp eq i64 %skips, 0), label %arguments, label %skip
skip:
  %fewer_skips = sub i64 %skips, 1
  store i64 %fewer_skips, ptr %skips_at
  br label %refuse

arguments:
  %argument = phi i64 [ 0, %look_back ], [ %next_argument, %next ]
  br i1 (icmp slt i64 %argument, %arity), label %look, label %dimensions
look:
  %object = load ptr, ptr %given[%argument]
  %type = load ptr, ptr %object[{type}]
  br i1 (icmp eq ptr %type, %array_type), label %next, label %scalar
scalar:
  %slot_at = getelementptr i64, ptr %words, i64 (add i64 (mul i64 %argument, {number_words}), {numbers})
  %slot = load ptr, ptr %slot_at
  br i1 (icmp ne ptr %slot, null), label %look_at_type, label %refuse
look_at_type:
  %slot_data = load ptr, ptr %slot[{data}]
  %content_at = getelementptr i64, ptr %object, i64 {content}
  %scalar_type = load ptr, ptr %slot_at[{scalar}]
  %float_kind = load i64, ptr %slot_at[{float_kind}]
  br i1 (icmp eq ptr %type, %scalar_type), label %copy_scalar, label %python_number
copy_scalar:
  %bits = load i64, ptr %content_at
  store i64 %bits, ptr %slot_data
  br label %next
python_number:
  br i1 (icmp eq ptr %type, %int_type), label %read_integer, label %python_float
read_integer:
  %integer = call i64 %read_int(ptr %object, ptr %overflow_at)
  %overflow = load i32, ptr %overflow_at
  %least = load i64, ptr %slot_at[{least}]
  %largest = load i64, ptr %slot_at[{largest_int}]
  %has_overflow = icmp ne i32 %overflow, 0
  %is_below = icmp slt i64 %integer, %least
  %is_above = icmp sgt i64 %integer, %largest
  %is_outside = or i1 (or i1 %has_overflow, %is_below), %is_above
  br i1 %is_outside, label %refuse, label %convert_integer
convert_integer:
  %from_integer = sitofp i64 %integer to double
  switch i64 %float_kind, label %store_integer [
    i64 1, label %store_double
    i64 2, label %store_single
  ]
store_integer:
  store i64 %integer, ptr %slot_data
  br label %next
python_float:
  br i1 (icmp eq ptr %type, %float_type), label %convert_float, label %refuse
convert_float:
  %from_float = load double, ptr %content_at
  switch i64 %float_kind, label %refuse [
    i64 1, label %store_double
    i64 2, label %narrow
  ]
store_double:
  %double = phi double [ %from_integer, %convert_integer ], [ %from_float, %convert_float ]
  store double %double, ptr %slot_data
  br label %next
narrow:
  %magnitude = call double @llvm.fabs.f64(double %from_float)
  %fits_single = fcmp ole double %magnitude, {largest_single}
  br i1 %fits_single, label %store_single, label %refuse
store_single:
  %wide = phi double [ %from_integer, %convert_integer ], [ %from_float, %narrow ]
  %single = fptrunc double %wide to float
  store float %single, ptr %slot_data
  br label %next
next:
  %taken = phi ptr [ %object, %look ], [ %slot, %copy_scalar ], [ %slot, %store_integer ],
      [ %slot, %store_double ], [ %slot, %store_single ]
  %kind_at = getelementptr i64, ptr %values, i64 (mul i64 %argument, 2)
  store i64 {integer}, ptr %kind_at
  store ptr %taken, ptr %kind_at[1]
  %next_argument = add i64 %argument, 1
  br label %arguments

dimensions:
  %dimension = phi i64 [ 0, %arguments ], [ %next_dimension, %counted ]
  %elements = phi i64 [ 1, %arguments ], [ %product, %counted ]
  br i1 (icmp slt i64 %dimension, %dims), label %measure, label %result_shape
measure:
  %triple_at = getelementptr i64, ptr %words, i64 (mul i64 %dimension, 3)
  %array_at = getelementptr i64, ptr %triple_at, i64 {first}
  %array_number = load i64, ptr %array_at
  %axis = load i64, ptr %array_at[1]
  %wanted = load i64, ptr %array_at[2]
  br i1 (icmp slt i64 %axis, 0), label %look_at_value, label %measure_array
look_at_value:
  %own_slot = load ptr, ptr %words[(add i64 (mul i64 %array_number, {number_words}), {numbers})]
  %own_value = load ptr, ptr %values[(add i64 (mul i64 %array_number, 2), 1)]
  br i1 (icmp eq ptr %own_value, %own_slot), label %read_value, label %refuse
read_value:
  %own_data = load ptr, ptr %own_slot[{data}]
  %given_size = load i64, ptr %own_data
  br label %limit_size
measure_array:
  %measured = load ptr, ptr %given[%array_number]
  %rank_bits = load i32, ptr %measured[{rank}]
  %rank = zext i32 %rank_bits to i64
  br i1 (icmp eq i64 %rank, %wanted), label %read, label %refuse
read:
  %extents = load ptr, ptr %measured[{extents}]
  %measured_size = load i64, ptr %extents[%axis]
  br label %limit_size
limit_size:
  %extent = phi i64 [ %given_size, %read_value ], [ %measured_size, %read ]
  br i1 (icmp ule i64 %extent, %limit), label %count_elements, label %refuse
count_elements:
  store i64 %extent, ptr %sizes[%dimension]
  %is_empty = icmp eq i64 %extent, 0
  %factor = select i1 %is_empty, i64 1, i64 %extent
  %product = mul i64 %elements, %factor
  br i1 (icmp ule i64 %product, %limit), label %counted, label %refuse
counted:
  %next_dimension = add i64 %dimension, 1
  br label %dimensions

result_shape:
  %first_result = add i64 (mul i64 %dims, 3), {first}
  br label %next_result
next_result:
  %nth = phi i64 [ 0, %result_shape ], [ %following, %keep ]
  %place = phi i64 [ %first_result, %result_shape ], [ %following_place, %keep ]
  br i1 (icmp slt i64 %nth, %results), label %describe, label %run
describe:
  %described = getelementptr i64, ptr %words, i64 %place
  %result_rank = load i64, ptr %described
  %result_dtype = load ptr, ptr %described[1]
  %most_elements = load i64, ptr %described[2]
  %instructions = load i64, ptr %described[3]
  %result_slot = load ptr, ptr %described[4]
  %begin = getelementptr i64, ptr %described, i64 {result_words}
  %length_of_code = mul i64 %instructions, 2
  %following_place = add i64 (add i64 %place, {result_words}), %length_of_code
  br label %steps
steps:
  %step = phi i64 [ 0, %describe ], [ %next_step, %push ]
  %depth = phi i64 [ 0, %describe ], [ %next_depth, %push ]
  br i1 (icmp slt i64 %step, %instructions), label %instruction, label %axes
instruction:
  %operator_at = getelementptr i64, ptr %begin, i64 (mul i64 %step, 2)
  %operator = load i64, ptr %operator_at
  %operand = load i64, ptr %operator_at[1]
  %first_at = getelementptr i64, ptr %shape, i64 %depth
  %third = load i64, ptr %first_at[-3]
  %left = load i64, ptr %first_at[-2]
  %right = load i64, ptr %first_at[-1]
  switch i64 %operator, label %abandon [
{cases}
  ]
{operators}
push:
  %pushed = phi i64 {pushed}
  %popped = phi i64 {popped}
  %base = sub i64 %depth, %popped
  store i64 %pushed, ptr %shape[%base]
  %next_depth = add i64 %base, 1
  %next_step = add i64 %step, 1
  %shifted = add i64 %pushed, {largest}
  br i1 (icmp ule i64 %shifted, {twice_largest}), label %steps, label %abandon
axes:
  %result_axis = phi i64 [ 0, %steps ], [ %next_axis, %size_of_axis ]
  %result_elements = phi i64 [ 1, %steps ], [ %result_product, %size_of_axis ]
  br i1 (icmp slt i64 %result_axis, %result_rank), label %size_of_axis, label %make
size_of_axis:
  %axis_size = load i64, ptr %shape[%result_axis]
  %is_axis_empty = icmp eq i64 %axis_size, 0
  %axis_factor = select i1 %is_axis_empty, i64 1, i64 %axis_size
  %result_product = mul i64 %result_elements, %axis_factor
  %next_axis = add i64 %result_axis, 1
  %few_results = icmp ule i64 %result_product, %most_elements
  %is_positive = icmp sge i64 %axis_size, 0
  %is_axis_valid = and i1 %few_results, %is_positive
  br i1 %is_axis_valid, label %axes, label %abandon

make:
  br i1 (icmp ne ptr %result_slot, null), label %use_slot, label %make_array
use_slot:
  call void %incref(ptr %result_slot)
  br label %keep
make_array:
  call void %incref(ptr %result_dtype)
  %rank_of_result = trunc i64 %result_rank to i32
  %array = call ptr %new_array(ptr %array_type, ptr %result_dtype, i32 %rank_of_result, ptr %shape,
      ptr null, ptr null, i32 0, ptr null)
  br i1 (icmp ne ptr %array, null), label %keep, label %not_made
keep:
  %result = phi ptr [ %result_slot, %use_slot ], [ %array, %make_array ]
  store ptr %result, ptr %made[%nth]
  %number_of_value = add i64 %arity, %nth
{store_result}
  %following = add i64 %nth, 1
  br label %next_result
run:
  %leaves = icmp ne ptr %addresses, null
  %addresses_count = zext i1 %leaves to i64
  %addresses_number = add i64 %arity, %results
  %workspace_number = add i64 %addresses_number, %addresses_count
  %constants_number = add i64 %workspace_number, 1
{stores}
  store i64 0, ptr %returned
  %code_at = getelementptr i64, ptr %returned, i64 1
  store i64 0, ptr %code_at
  %length = trunc i64 (add i64 %constants_number, 1) to i32
  %releases = icmp ugt i64 %elements, %most_locked
  %has_mark = icmp ne ptr %mark, null
  store i64 1, ptr %busy_at
  br i1 %has_mark, label %set_mark, label %marked
set_mark:
  %set = call i32 %write_mark(ptr %mark, ptr %words)
  br label %marked
marked:
  br i1 %releases, label %release_lock, label %start
release_lock:
  %released = call ptr %save_thread()
  br label %start
start:
  %thread = phi ptr [ null, %marked ], [ %released, %release_lock ]
  %status = call i32 %call(ptr %program, ptr %values, i32 %length, ptr %returned)
  br i1 %releases, label %take_lock, label %locked
take_lock:
  call void %restore_thread(ptr %thread)
  br label %locked
locked:
  br i1 %has_mark, label %unset_mark, label %unmarked
unset_mark:
  %unset = call i32 %write_mark(ptr %mark, ptr null)
  br label %unmarked
unmarked:
  store i64 0, ptr %busy_at
  %code = load i64, ptr %code_at
  %no_error = icmp eq i32 %status, 0
  %no_code = icmp eq i64 %code, 0
  %is_done = and i1 %no_error, %no_code
  br i1 %is_done, label %done, label %drop
done:
  br i1 %leaves, label %read_left, label %finish
read_left:
  %addresses_data = load ptr, ptr %addresses[{data}]
  br label %next_left
next_left:
  %nth_left = phi i64 [ 0, %read_left ], [ %following_left, %copy_left ]
  %described_at = phi i64 [ 0, %read_left ], [ %next_described, %copy_left ]
  br i1 (icmp slt i64 %nth_left, %left_count), label %make_left, label %free_left
make_left:
  %left_index = add i64 (mul i64 %nth_left, {left_words}), %first_left
  %left_dtype_at = getelementptr i64, ptr %words, i64 %left_index
  %left_dtype = load ptr, ptr %left_dtype_at
  %left_rank = load i64, ptr %left_dtype_at[1]
  %left_item = load i64, ptr %left_dtype_at[2]
  %left_address_at = getelementptr i64, ptr %addresses_data, i64 %described_at
  %left_address = load ptr, ptr %left_address_at
  %left_shape = getelementptr i64, ptr %left_address_at, i64 1
  %left_place = add i64 %results, %nth_left
  call void %incref(ptr %left_dtype)
  %rank_of_left = trunc i64 %left_rank to i32
  %left_array = call ptr %new_array(ptr %array_type, ptr %left_dtype, i32 %rank_of_left, ptr %left_shape,
      ptr null, ptr null, i32 0, ptr null)
  br i1 (icmp ne ptr %left_array, null), label %count_left, label %not_made
count_left:
  %left_axis = phi i64 [ 0, %make_left ], [ %next_left_axis, %multiply_left ]
  %left_bytes = phi i64 [ %left_item, %make_left ], [ %more_left_bytes, %multiply_left ]
  br i1 (icmp slt i64 %left_axis, %left_rank), label %multiply_left, label %copy_left
multiply_left:
  %left_extent = load i64, ptr %left_shape[%left_axis]
  %more_left_bytes = mul i64 %left_bytes, %left_extent
  %next_left_axis = add i64 %left_axis, 1
  br label %count_left
copy_left:
  %left_data = load ptr, ptr %left_array[{data}]
  call void @llvm.memcpy.p0.p0.i64(ptr %left_data, ptr %left_address, i64 %left_bytes, i1 false)
  store ptr %left_array, ptr %made[%left_place]
  %following_left = add i64 %nth_left, 1
  %next_described = add i64 (add i64 %described_at, %left_rank), 1
  br label %next_left
free_left:
  store i64 {integer}, ptr %values
  store i64 %state, ptr %values[1]
  %freed = call i32 %call(ptr %release, ptr %values, i32 1, ptr %returned)
  br label %finish
finish:
  br i1 (icmp ne i64 %scalars, 0), label %next_scalar, label %give
next_scalar:
  %nth_scalar = phi i64 [ 0, %finish ], [ %following_scalar, %keep_scalar ]
  br i1 (icmp slt i64 %nth_scalar, %results), label %make_scalar, label %give
make_scalar:
  %made_so_far = add i64 %results, %left_count
  %scalar_at = getelementptr ptr, ptr %made, i64 %nth_scalar
  %slot_or_array = load ptr, ptr %scalar_at
  %scalar_or_array = call ptr %to_scalar(ptr %slot_or_array)
  store ptr %scalar_or_array, ptr %scalar_at
  br i1 (icmp ne ptr %scalar_or_array, null), label %keep_scalar, label %not_made
keep_scalar:
  %following_scalar = add i64 %nth_scalar, 1
  br label %next_scalar
give:
  %every_result = add i64 %results, %left_count
  %first_order = add i64 %first_left, (mul i64 %left_count, {left_words})
  %the_result = load ptr, ptr %made
  br i1 (icmp eq i64 %is_tuple, 0), label %one_result, label %pack
pack:
  %tuple = call ptr %new_tuple(i64 %every_result)
  br i1 (icmp ne ptr %tuple, null), label %fill, label %not_made
fill:
  %item = phi i64 [ 0, %pack ], [ %next_item, %put ]
  br i1 (icmp slt i64 %item, %every_result), label %put, label %give_tuple
put:
  %order = load i64, ptr %words[(add i64 %first_order, %item)]
  %object_of_item = load ptr, ptr %made[%order]
  %was_put = call i32 %set_item(ptr %tuple, i64 %item, ptr %object_of_item)
  %next_item = add i64 %item, 1
  br label %fill
give_tuple:
  ret ptr %tuple
one_result:
  ret ptr %the_result
drop:
  store i64 {skips}, ptr %skips_at
  br label %not_made
not_made:
  %made_count = phi i64 [ %results, %drop ], [ %nth, %make_array ], [ %left_place, %make_left ],
      [ %made_so_far, %make_scalar ], [ %every_result, %pack ]
  call void %clear_error()
  br label %abandoned
abandon:
  br label %abandoned
abandoned:
  %kept = phi i64 [ %made_count, %not_made ], [ %nth, %abandon ]
  br label %unmake
unmake:
  %unmade = phi i64 [ 0, %abandoned ], [ %next_unmade, %release_made ]
  br i1 (icmp slt i64 %unmade, %kept), label %release_made, label %refuse
release_made:
  %object_to_release = load ptr, ptr %made[%unmade]
  call void %decref(ptr %object_to_release)
  %next_unmade = add i64 %unmade, 1
  br label %unmake
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

define void @nnmagic_ufunc_loop(ptr %all_addresses, ptr %all_sizes, ptr %strides, ptr %words) {{
  %shape = alloca [{loop_rank} x i64]
  %steps = alloca [{loop_rank} x i64]
  %scratch = alloca [{scratch} x i8], align 64
  %described = alloca [{described} x i64]
  %values = alloca [{loop_values} x i64]
  %returned = alloca [2 x i64]
  %count_at = alloca i64
  %rest = alloca [{most_operands} x ptr]
  %rest_sizes = alloca [1 x i64]
{loop_loads}
  %all_rows = load i64, ptr %all_sizes
  br i1 (icmp eq i64 %all_rows, 0), label %leave, label %choose
choose:
  %has_program = icmp ne ptr %program, null
  %is_short = icmp ule i64 %all_rows, {most_rows}
  %is_fast = and i1 %has_program, %is_short
  br i1 %is_fast, label %compare, label %begin

compare:
  %pair = phi i64 [ 0, %choose ], [ %next_pair, %compared ]
  %is_sequence = phi i1 [ false, %choose ], [ %is_sequence_now, %compared ]
  %outputs = sub i64 %operands, %inputs
  %pairs = mul i64 %inputs, %outputs
  br i1 (icmp ult i64 %pair, %pairs), label %compared, label %compared_all
compared:
  %input = udiv i64 %pair, %outputs
  %output = add i64 (urem i64 %pair, %outputs), %inputs
  %last_row = sub i64 %all_rows, 1
  %from = load i64, ptr %all_addresses[%input]
  %from_step = load i64, ptr %strides[%input]
  %from_end = add i64 %from, (mul i64 %from_step, %last_row)
  %from_low = call i64 @llvm.smin.i64(i64 %from, i64 %from_end)
  %from_high0 = call i64 @llvm.smax.i64(i64 %from, i64 %from_end)
  %from_high = add i64 %from_high0, {item}
  %to = load i64, ptr %all_addresses[%output]
  %to_step = load i64, ptr %strides[%output]
  %to_end = add i64 %to, (mul i64 %to_step, %last_row)
  %to_low = call i64 @llvm.smin.i64(i64 %to, i64 %to_end)
  %to_high0 = call i64 @llvm.smax.i64(i64 %to, i64 %to_end)
  %to_high = add i64 %to_high0, {item}
  %is_before = icmp sle i64 %from_high, %to_low
  %is_after = icmp sle i64 %to_high, %from_low
  %is_apart = or i1 %is_before, %is_after
  %same_step = icmp eq i64 %from_step, %to_step
  %moves = icmp ne i64 %to_step, 0
  %is_same = and i1 (and i1 (icmp eq i64 %from, %to), %same_step), %moves
  %is_independent = or i1 %is_apart, %is_same
  %is_dependent = xor i1 %is_independent, true
  %is_sequence_now = or i1 %is_sequence, %is_dependent
  %next_pair = add i64 %pair, 1
  br label %compare
compared_all:
  %few_in_sequence = icmp ule i64 %all_rows, {most_in_sequence}
  %in_parts = xor i1 %is_sequence, true
  %takes = or i1 %in_parts, %few_in_sequence
  br i1 %takes, label %reserve, label %begin
reserve:
  %exchanged = cmpxchg ptr %busy_at, i64 0, i64 1 acquire monotonic
  %is_reserved = extractvalue {{ i64, i1 }} %exchanged, 1
  br i1 %is_reserved, label %prepare, label %begin
prepare:
  %chunk = select i1 %is_sequence, i64 1, i64 %all_rows
  store i64 %chunk, ptr %count_at
  br label %prepare_next
prepare_next:
  %prepared = phi i64 [ 0, %prepare ], [ %next_prepared, %prepare_one ]
  br i1 (icmp ult i64 %prepared, %operands), label %prepare_one, label %prepare_last
prepare_one:
  %own_scratch = getelementptr i8, ptr %scratch, i64 (mul i64 %prepared, {scratch_row})
  %own_dtype = load ptr, ptr %words[(add i64 (mul i64 %prepared, 3), {first_operand})]
  %own = getelementptr i64, ptr %described, i64 (mul i64 %prepared, {description})
  store ptr %array_type, ptr %own[{type}]
  store ptr %own_scratch, ptr %own[{data}]
  store i64 1, ptr %own[{rank}]
  store ptr %count_at, ptr %own[{extents}]
  store ptr %own_dtype, ptr %own[{descr}]
  store i64 {readable}, ptr %own[{flags}]
  %is_output = icmp uge i64 %prepared, %inputs
  %own_kind_at = getelementptr i64, ptr %values, i64 (mul i64 %prepared, 2)
  store i64 {integer}, ptr %own_kind_at
  store ptr %own, ptr %own_kind_at[1]
  %again0 = add i64 %prepared, %outputs
  %again1 = select i1 %is_output, i64 %again0, i64 %prepared
  %again_kind_at = getelementptr i64, ptr %values, i64 (mul i64 %again1, 2)
  store i64 {integer}, ptr %again_kind_at
  store ptr %own, ptr %again_kind_at[1]
  %next_prepared = add i64 %prepared, 1
  br label %prepare_next
prepare_last:
  %workspace_number = add i64 %operands, %outputs
  %constants_number = add i64 %workspace_number, 1
{loop_stores}
  %length = trunc i64 (add i64 %constants_number, 1) to i32
  %is_marked = icmp ne ptr %mark, null
  br i1 %is_marked, label %set_mark, label %part
set_mark:
  %set = call i32 %write_mark(ptr %mark, ptr %words)
  br label %part
part:
  %start = phi i64 [ 0, %prepare_last ], [ 0, %set_mark ], [ %next_start, %scattered ]
  br i1 (icmp ult i64 %start, %all_rows), label %gather_next, label %end
{gather}
compute:
  store i64 0, ptr %returned
  %code_at = getelementptr i64, ptr %returned, i64 1
  store i64 0, ptr %code_at
  %status = call i32 %run(ptr %program, ptr %values, i32 %length, ptr %returned)
  %code = load i64, ptr %code_at
  %no_error = icmp eq i32 %status, 0
  %no_code = icmp eq i64 %code, 0
  %has_run = and i1 %no_error, %no_code
  br i1 %has_run, label %scatter_next, label %end
{scatter}
scattered:
  %next_start = add i64 %start, %chunk
  br label %part
end:
  %is_done = phi i1 [ true, %part ], [ false, %compute ]
  br i1 %is_marked, label %unset_mark, label %unmarked
unset_mark:
  %unset = call i32 %write_mark(ptr %mark, ptr null)
  br label %unmarked
unmarked:
  store atomic i64 0, ptr %busy_at release, align 8
  br i1 %is_done, label %unflag, label %give_up
give_up:
  %rest_rows = sub i64 %all_rows, %start
  store i64 %rest_rows, ptr %rest_sizes
  br label %move_on
move_on:
  %moved = phi i64 [ 0, %give_up ], [ %next_moved, %move_one ]
  br i1 (icmp ult i64 %moved, %operands), label %move_one, label %begin
move_one:
  %moved_from = load ptr, ptr %all_addresses[%moved]
  %moved_step = load i64, ptr %strides[%moved]
  %moved_to = getelementptr i8, ptr %moved_from, i64 (mul i64 %moved_step, %start)
  store ptr %moved_to, ptr %rest[%moved]
  %next_moved = add i64 %moved, 1
  br label %move_on

begin:
  %addresses = phi ptr [ %all_addresses, %choose ], [ %all_addresses, %compared_all ],
      [ %all_addresses, %reserve ], [ %rest, %move_on ]
  %sizes = phi ptr [ %all_sizes, %choose ], [ %all_sizes, %compared_all ], [ %all_sizes, %reserve ],
      [ %rest_sizes, %move_on ]
  %rows = load i64, ptr %sizes
  %lock = call i32 %take_lock()
  %raised = call ptr %error_occurred()
  br i1 (icmp ne ptr %raised, null), label %unlock, label %gather
gather:
  %tuple = call ptr %new_tuple(i64 %operands)
  br i1 (icmp ne ptr %tuple, null), label %operand, label %finish
operand:
  %number = phi i64 [ 0, %gather ], [ %next_number, %put ]
  %place = phi i64 [ {first_operand}, %gather ], [ %next_place, %put ]
  %inner = phi i64 [ %operands, %gather ], [ %next_inner, %put ]
  br i1 (icmp slt i64 %number, %operands), label %describe, label %call_loop
describe:
  %dtype_at = getelementptr ptr, ptr %words, i64 %place
  %dtype = load ptr, ptr %dtype_at
  %rank_at = getelementptr i64, ptr %dtype_at, i64 2
  %rank = load i64, ptr %rank_at
  %outer = load i64, ptr %strides[%number]
  store i64 %rows, ptr %shape
  store i64 %outer, ptr %steps
  br label %axes
axes:
  %axis = phi i64 [ 0, %describe ], [ %next_axis, %set_axis ]
  %next_axis = add i64 %axis, 1
  br i1 (icmp slt i64 %axis, %rank), label %set_axis, label %make
set_axis:
  %size_number = load i64, ptr %rank_at[%next_axis]
  %size = load i64, ptr %sizes[%size_number]
  store i64 %size, ptr %shape[%next_axis]
  %stride_number = add i64 %inner, %axis
  %stride = load i64, ptr %strides[%stride_number]
  store i64 %stride, ptr %steps[%next_axis]
  br label %axes
make:
  %address = load ptr, ptr %addresses[%number]
  call void %incref(ptr %dtype)
  %rank_with_rows = trunc i64 (add i64 %rank, 1) to i32
  %array = call ptr %new_array(ptr %array_type, ptr %dtype, i32 %rank_with_rows, ptr %shape, ptr %steps,
      ptr %address, i32 {writeable}, ptr null)
  br i1 (icmp ne ptr %array, null), label %put, label %finish
put:
  %was_put = call i32 %set_item(ptr %tuple, i64 %number, ptr %array)
  %next_number = add i64 %number, 1
  %next_inner = add i64 %inner, %rank
  %next_place = add i64 (add i64 %place, 3), %rank
  br label %operand
call_loop:
  %answer = call ptr %call_object(ptr %python, ptr %tuple)
  call void %decref(ptr %answer)
  br label %finish
finish:
  call void %decref(ptr %tuple)
  br label %unlock
unlock:
  call void %release_lock(i32 %lock)
  br label %unflag
unflag:
  br i1 (icmp ne ptr %clear_flags, null), label %clear, label %leave
clear:
  %flags = trunc i64 %float_flags to i32
  %cleared = call i32 %clear_flags(i32 %flags)
  br label %leave
leave:
  ret void
}}

define i32 @__tvm_ffi_{loop}(ptr %self, ptr %arguments, i32 %count, ptr %returned) {{
  store i64 {integer}, ptr %returned
  %value = getelementptr i8, ptr %returned, i64 8
  store ptr @nnmagic_ufunc_loop, ptr %value
  ret i32 0
}}

@nnmagic_mark = internal global ptr null
@nnmagic_read_mark = internal global ptr null
@nnmagic_launch_of_tvm = internal global ptr null

define i32 @nnmagic_launch(ptr %task, ptr %data, i32 %count) {{
  %mark = load ptr, ptr @nnmagic_mark
  %read_mark = load ptr, ptr @nnmagic_read_mark
  %value = call ptr %read_mark(ptr %mark)
  br i1 (icmp ne ptr %value, null), label %refuse, label %launch
launch:
  %function = load ptr, ptr @nnmagic_launch_of_tvm
  %status = call i32 %function(ptr %task, ptr %data, i32 %count)
  ret i32 %status
refuse:
  ret i32 -1
}}

define i32 @__tvm_ffi_{launch}(ptr %self, ptr %arguments, i32 %count, ptr %returned) {{
  %mark_at = getelementptr i8, ptr %arguments, i64 8
  %mark = load ptr, ptr %mark_at
  store ptr %mark, ptr @nnmagic_mark
  %read_mark_at = getelementptr i8, ptr %arguments, i64 24
  %read_mark = load ptr, ptr %read_mark_at
  store ptr %read_mark, ptr @nnmagic_read_mark
  %function_at = getelementptr i8, ptr %arguments, i64 40
  %function = load ptr, ptr %function_at
  store ptr %function, ptr @nnmagic_launch_of_tvm
  store i64 {integer}, ptr %returned
  %value = getelementptr i8, ptr %returned, i64 8
  store ptr @nnmagic_launch, ptr %value
  ret i32 0
}}
"""


@cache
def compile_direct_call() -> bytes:
    """Return the object file, for this machine."""
    code = _CODE.format(
        **_stack_code_texts(),
        largest=LARGEST,
        twice_largest=2 * LARGEST,
        stack=_BELOW + MAX_DEPTH,
        below=_BELOW,
        address=ADDRESS,
        launch=LAUNCH,
        values=2 * (MAX_ARITY + MAX_RESULTS + 3),
        max_results=MAX_RESULTS,
        result_words=RESULT_WORDS,
        left_words=LEFT_WORDS,
        skips=_SKIPS,
        stores="\n".join(starmap(_store_value, _LAST_VALUES.items())),
        store_result=_store_value("result", "number_of_value"),
        max_dims=MAX_DIMS,
        data=DATA,
        type=TYPE,
        rank=RANK,
        extents=DIMS,
        first=DIMENSIONS,
        integer=_INTEGER,
        numbers=NUMBERS,
        number_words=len(NumberWords),
        content=_CONTENT,
        scalar=NumberWords.SCALAR.value,
        float_kind=NumberWords.FLOAT_KIND.value,
        least=NumberWords.LEAST.value,
        largest_int=NumberWords.LARGEST.value,
        largest_single=_LARGEST_SINGLE,
        loads="\n".join(map(_load, Word)),
        loop=LOOP,
        loop_rank=1 + MAX_RANK,
        scratch=MOST_OPERANDS * _MOST_ROWS * _ITEM,
        scratch_row=_MOST_ROWS * _ITEM,
        item=_ITEM,
        most_rows=_MOST_ROWS,
        most_in_sequence=_MOST_IN_SEQUENCE,
        most_operands=MOST_OPERANDS,
        described=MOST_OPERANDS * WORDS,
        description=WORDS,
        loop_values=2 * (2 * MOST_OPERANDS + 2),
        descr=DESCR,
        flags=FLAGS,
        readable=READABLE,
        loop_stores="\n".join(
            _store_value(name, number)
            for name, number in (("workspace", "workspace_number"), ("constants", "constants_number"))
        ),
        gather=_copy_rows("gather", "0 %inputs", "part compute", "memory scratched"),
        scatter=_copy_rows("scatter", "%inputs %operands", "compute scattered", "scratched memory"),
        first_operand=len(LoopWord),
        writeable=_WRITEABLE,
        loop_loads="\n".join(map(_load, LoopWord)),
    )
    return compile_llvm(expand(code)).code


def _stack_code_texts() -> dict[str, str]:
    """Return the parts of the code that have a line for each operator of the stack machine."""
    return dict(  # noqa: C408 - the names of the code's parts
        cases="\n".join(
            f"    i64 {operator.value}, label %{operator.name.lower()}" for operator in StackCode
        ),
        operators="\n".join(map(_compute, StackCode)),
        pushed=", ".join(
            f"[ %{operator.name.lower()}.value, %{operator.name.lower()} ]" for operator in StackCode
        ),
        popped=", ".join(f"[ {operator.operands}, %{operator.name.lower()} ]" for operator in StackCode),
    )


#: An instruction that is an operand, or a word of memory that is an address.
_NESTED = re.compile(r"\(((?:add|sub|mul|urem|and|or|icmp|trunc) [^()\[\]]*)\)|(%[\w.]+)\[([^()\[\]]+)\]")


def expand(code: str) -> str:
    """Return LLVM code of lines whose operands may be ``(add i64 %a, 1)`` and whose addresses ``%a[%i]``."""
    lines = list[str]()
    for line in code.splitlines():
        while nested := _NESTED.search(line):
            instruction, base, index = nested.groups()
            name = f"%operand{len(lines)}"
            lines.append(f"  {name} = {instruction or f'getelementptr i64, ptr {base}, i64 {index}'}")
            line = line[: nested.start()] + name + line[nested.end() :]  # noqa: PLW2901 - rest of the line
        lines.append(line)
    return "\n".join(lines)


def _load(word: Word | LoopWord) -> str:
    """Return the instructions that load a word of the table under its name."""
    name = word.name.lower()
    kind = "i64" if word.is_number else "ptr"
    return (
        f"  %{name}_at = getelementptr i64, ptr %words, i64 {word.value}\n"
        f"  %{name} = load {kind}, ptr %{name}_at"
    )


def _store_value(name: str, number: str) -> str:
    """Return the instructions that make a value an argument of the entry, which has the number."""
    return (
        f"  %{name}.kind = getelementptr i64, ptr %values, i64 (mul i64 %{number}, 2)\n"
        f"  store i64 {_INTEGER}, ptr %{name}.kind\n"
        f"  store ptr %{name}, ptr %{name}.kind[1]"
    )


def _copy_rows(block: str, numbers: str, blocks: str, copied: str) -> str:
    """Return the blocks that copy the rows of operands to the scratch, or back from there.

    ``numbers``: the first operand and the end; ``blocks``: those before and after; ``copied``: from and to.
    """
    (first, end), (before, after), (source, target) = numbers.split(), blocks.split(), copied.split()
    text = f"""_next:
  %.number = phi i64 [ {first}, %{before} ], [ %.next, %._end ]
  br i1 (icmp ult i64 %.number, {end}), label %._one, label %{after}
_one:
  %.row = phi i64 [ 0, %._next ], [ %.next_row, %._copy ]
  br i1 (icmp ult i64 %.row, %chunk), label %._copy, label %._end
_copy:
  %.address = load ptr, ptr %all_addresses[%.number]
  %.step = load i64, ptr %strides[%.number]
  %.memory = getelementptr i8, ptr %.address, i64 (mul i64 (add i64 %start, %.row), %.step)
  %.bytes = load i64, ptr %words[(add i64 (mul i64 %.number, 3), {len(LoopWord) + 1})]
  %.offset = add i64 (mul i64 %.number, {_MOST_ROWS * _ITEM}), (mul i64 %.row, %.bytes)
  %.scratched = getelementptr i8, ptr %scratch, i64 %.offset
  call void @llvm.memcpy.p0.p0.i64(ptr %.{target}, ptr %.{source}, i64 %.bytes, i1 false)
  %.next_row = add i64 %.row, 1
  br label %._one
_end:
  %.next = add i64 %.number, 1
  br label %._next"""
    text = text.replace("%._", f"%{block}_").replace("%.", f"%{block}.")
    return re.sub(r"^_", f"{block}_", text, flags=re.MULTILINE)


def _compute(operator: StackCode) -> str:
    """Return the block of instructions that compute the value of an operator of sizes."""
    name = operator.name.lower()
    own = re.sub(r"%(?!(?:third|left|right|operand|sizes)\b)(\w+)", rf"%{name}.\1", _OPERATORS[operator])
    return f"{name}:\n{textwrap.indent(own, '  ')}\n  br label %push"
