"""Adapt LLVM modules to machines whose C functions take other types than TVM writes."""

from __future__ import annotations

import re

#: C's functions of memory for modules whose sizes have 64 bits, where pointers have 32.
_SHORT_SIZES = """
declare ptr @malloc(i32)
declare ptr @aligned_alloc(i32, i32)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal ptr @nnm_malloc(i64 %bytes) {
  %is_large = icmp ugt i64 %bytes, 4294967295
  br i1 %is_large, label %none, label %some
some:
  %size = trunc i64 %bytes to i32
  %memory = call ptr @malloc(i32 %size)
  ret ptr %memory
none:
  ret ptr null
}

define internal i64 @nnm_malloc_address(i64 %bytes) {
  %memory = call ptr @nnm_malloc(i64 %bytes)
  %address = ptrtoint ptr %memory to i64
  ret i64 %address
}

define internal ptr @nnm_aligned_alloc(i64 %alignment, i64 %bytes) {
  %is_large = icmp ugt i64 %bytes, 4294967295
  br i1 %is_large, label %none, label %some
some:
  %short = trunc i64 %alignment to i32
  %size = trunc i64 %bytes to i32
  %memory = call ptr @aligned_alloc(i32 %short, i32 %size)
  ret ptr %memory
none:
  ret ptr null
}

define internal ptr @nnm_memmove(ptr %to, ptr %from, i64 %bytes) {
  call void @llvm.memmove.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  ret ptr %to
}

define internal ptr @nnm_memset(ptr %to, i32 %value, i64 %bytes) {
  %byte = trunc i32 %value to i8
  call void @llvm.memset.p0.i64(ptr %to, i8 %byte, i64 %bytes, i1 false)
  ret ptr %to
}
"""

#: RISC-V passes half precision in float registers, and TVM defines its conversions for integers.
_HALVES = """
define weak hidden float @__extendhfsf2(half %half) {
  %bits = bitcast half %half to i16
  %single = call float @nnm_extendhfsf2(i16 %bits)
  ret float %single
}

define weak hidden half @__truncsfhf2(float %single) {
  %bits = call i16 @nnm_truncsfhf2(float %single)
  %half = bitcast i16 %bits to half
  ret half %half
}
"""

#: The product of integers of 128 bits, 32 at a time, which LLVM calls for WebAssembly, where no library is.
_PRODUCT = """
define weak hidden void @__multi3(ptr %result, i64 %a, i64 %a_high, i64 %b, i64 %b_high) {
  %a0 = and i64 %a, 4294967295
  %a1 = lshr i64 %a, 32
  %b0 = and i64 %b, 4294967295
  %b1 = lshr i64 %b, 32
  %p00 = mul i64 %a0, %b0
  %p01 = mul i64 %a0, %b1
  %p10 = mul i64 %a1, %b0
  %p11 = mul i64 %a1, %b1
  %carried = lshr i64 %p00, 32
  %m = add i64 %p10, %carried
  %m_low = and i64 %m, 4294967295
  %m_high = lshr i64 %m, 32
  %n = add i64 %p01, %m_low
  %n_high = lshr i64 %n, 32
  %h0 = add i64 %p11, %m_high
  %h1 = add i64 %h0, %n_high
  %x = mul i64 %a, %b_high
  %y = mul i64 %a_high, %b
  %h2 = add i64 %h1, %x
  %high = add i64 %h2, %y
  %low = mul i64 %a, %b
  store i64 %low, ptr %result
  %second = getelementptr i8, ptr %result, i64 8
  store i64 %high, ptr %second
  ret void
}
"""

_NAME = re.compile(r"@[\w.]+")
_CALLED = re.compile(r"@(malloc|aligned_alloc|memmove|memset)\(")


def adapt(text: str) -> str:
    """Return a module as its target needs it."""
    (architecture,) = re.findall(r'^target triple = "(\w+)', text, re.MULTILINE)
    if architecture == "riscv64":
        return re.sub(r"define weak hidden (\w+) @__(\w+)\(", r"define internal \1 @nnm_\2(", text) + _HALVES
    return _with_short_sizes(text) + _PRODUCT if architecture == "wasm32" else text


def _with_short_sizes(text: str) -> str:
    """Return a module that calls C's functions with 32 bits."""
    lines = [line for line in text.splitlines() if not (line.startswith("declare ") and _CALLED.search(line))]
    known = {_NAME.findall(line)[0] for line in lines if line.startswith("declare ")}
    own = [
        line
        for line in _SHORT_SIZES.splitlines()
        if not (line.startswith("declare ") and _NAME.findall(line)[0] in known)
    ]
    calls = re.sub(r"\bi64 @malloc\(", "i64 @nnm_malloc_address(", "\n".join(lines))
    return _CALLED.sub(r"@nnm_\1(", calls) + "\n".join(own) + "\n"
