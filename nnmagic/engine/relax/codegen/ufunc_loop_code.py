"""Hold the LLVM of the loops that NumPy calls, and of launches of threads, see ``direct_call.py``.

https://numpy.org/doc/stable/reference/c-api/ufunc.html says how loops are called.
"""

from __future__ import annotations

#: Its braces are doubled, as those of ``CALL_CODE``.
LOOP_CODE = """\
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
