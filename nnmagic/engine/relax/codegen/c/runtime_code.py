"""Hold the LLVM of the small runtime that exported functions share.

A host may allocate memory and run tasks in threads for a call; it is this struct, whose members may be NULL:

    struct nnm_host {
        void *context;
        void *(*allocate)(void *context, size_t bytes);
        void (*release)(void *context, void *memory);
        int (*parallel)(void *context, int (*task)(void *data, int number, int count), void *data, int count);
        int threads;
    };
"""

from __future__ import annotations

from nnmagic.engine.relax.codegen.aot.program import ALIGNMENT

#: Goes to `ask` with the function by which a host allocates, else to `plain`. Who allocates also releases.
_ASK_HOST = """
  %none = icmp eq ptr %host, null
  br i1 %none, label %plain, label %look
look:
  %allocate_at = getelementptr %nnm_host, ptr %host, i32 0, i32 1
  %allocate = load ptr, ptr %allocate_at
  %without = icmp eq ptr %allocate, null
  br i1 %without, label %plain, label %ask
ask:"""

#: What the steps of a call use of it, and of LLVM.
DECLARED = """
declare ptr @nnm_allocate(ptr, i64)
declare void @nnm_release(ptr, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.umax.i64(i64, i64)
"""

_RUNTIME = f"""
%nnm_host = type {{ ptr, ptr, ptr, ptr, i32 }}
@__TVMBackendAllocWorkspace = internal constant ptr @nnm_workspace
@__TVMBackendFreeWorkspace = internal constant ptr @nnm_free

declare ptr @malloc(i64)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal ptr @nnm_workspace(i32 %device, i32 %id, i64 %bytes, i32 %code, i32 %bits) {{
  %more = add i64 %bytes, {ALIGNMENT - 1}
  %rounded = and i64 %more, {-ALIGNMENT}
  %some = call i64 @llvm.umax.i64(i64 %rounded, i64 {ALIGNMENT})
  %memory = call ptr @aligned_alloc(i64 {ALIGNMENT}, i64 %some)
  ret ptr %memory
}}

declare i64 @llvm.umax.i64(i64, i64)

define internal i32 @nnm_free(i32 %device, i32 %id, ptr %memory) {{
  call void @free(ptr %memory)
  ret i32 0
}}

define internal ptr @nnm_allocate(ptr %host, i64 %bytes) {{
{_ASK_HOST}
  %context = load ptr, ptr %host
  %theirs = call ptr %allocate(ptr %context, i64 %bytes)
  ret ptr %theirs
plain:
  %own = call ptr @malloc(i64 %bytes)
  ret ptr %own
}}

define internal void @nnm_release(ptr %host, ptr %memory) {{
{_ASK_HOST}
  %at = getelementptr %nnm_host, ptr %host, i32 0, i32 2
  %release = load ptr, ptr %at
  %keeps = icmp eq ptr %release, null
  br i1 %keeps, label %done, label %give
give:
  %context = load ptr, ptr %host
  call void %release(ptr %context, ptr %memory)
  br label %done
plain:
  call void @free(ptr %memory)
  br label %done
done:
  ret void
}}
"""

#: Runs a parallel loop in one thread.
_SERIAL = """
@__TVMBackendParallelLaunch = internal constant ptr @nnm_launch

define internal i32 @nnm_launch(ptr %body, ptr %data, i32 %wanted) {
  %shared = alloca { ptr, i32 }
  store ptr null, ptr %shared
  %count_at = getelementptr { ptr, i32 }, ptr %shared, i32 0, i32 1
  store i32 1, ptr %count_at
  %status = call i32 %body(i32 0, ptr %shared, ptr %data)
  ret i32 %status
}
"""

#: Runs it in the threads of the host of this thread's call, if it has some.
_PARALLEL = """
@nnm_current = internal thread_local global ptr null
@__TVMBackendParallelLaunch = internal constant ptr @nnm_launch

define internal i32 @nnm_task(ptr %record, i32 %number, i32 %count) {
  %shared = alloca { ptr, i32 }
  store ptr null, ptr %shared
  %count_at = getelementptr { ptr, i32 }, ptr %shared, i32 0, i32 1
  store i32 %count, ptr %count_at
  %body = load ptr, ptr %record
  %data_at = getelementptr { ptr, ptr }, ptr %record, i32 0, i32 1
  %data = load ptr, ptr %data_at
  %status = call i32 %body(i32 %number, ptr %shared, ptr %data)
  ret i32 %status
}

define internal i32 @nnm_launch(ptr %body, ptr %data, i32 %wanted) {
  %record = alloca { ptr, ptr }
  store ptr %body, ptr %record
  %data_at = getelementptr { ptr, ptr }, ptr %record, i32 0, i32 1
  store ptr %data, ptr %data_at
  %host = load ptr, ptr @nnm_current
  %none = icmp eq ptr %host, null
  br i1 %none, label %alone, label %look
look:
  %parallel_at = getelementptr %nnm_host, ptr %host, i32 0, i32 3
  %parallel = load ptr, ptr %parallel_at
  %threads_at = getelementptr %nnm_host, ptr %host, i32 0, i32 4
  %threads = load i32, ptr %threads_at
  %without = icmp eq ptr %parallel, null
  %few = icmp slt i32 %threads, 2
  %is_serial = or i1 %without, %few
  br i1 %is_serial, label %alone, label %share
share:
  %all = icmp eq i32 %wanted, 0
  %most = select i1 %all, i32 %threads, i32 %wanted
  %count = call i32 @llvm.smin.i32(i32 %most, i32 %threads)
  %context = load ptr, ptr %host
  store ptr null, ptr @nnm_current
  %status = call i32 %parallel(ptr %context, ptr @nnm_task, ptr %record, i32 %count)
  store ptr %host, ptr @nnm_current
  ret i32 %status
alone:
  %own = call i32 @nnm_task(ptr %record, i32 0, i32 1)
  ret i32 %own
}

declare i32 @llvm.smin.i32(i32, i32)
"""


def runtime(*, parallel: bool) -> str:
    """Return what the functions of a library share; ``parallel``: whether some use threads."""
    return _RUNTIME + (_PARALLEL if parallel else _SERIAL)
