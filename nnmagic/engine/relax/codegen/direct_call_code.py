"""Hold the LLVM of direct calls: of functions by CPython, see ``direct_call.py``.

Written in the language of https://llvm.org/docs/LangRef.html; calls are as in
https://docs.python.org/3/c-api/call.html.
"""

from __future__ import annotations

CALL_CODE = """
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

"""
