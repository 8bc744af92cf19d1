"""Compile the stubs by which machine code calls NumPy's functions of random numbers; PCG64 itself is here.

A stub takes the address of a state, as `nnmagic.relay.generators` has it, in place of NumPy's struct of a
generator, and integers of 64 bits alone. ``runtime/numpy_random.py`` says what sets its function.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tvm.target import codegen

from nnmagic.engine.relax.codegen.object_code import ObjectCode, compile_llvm, settable_address
from nnmagic.engine.relax.codegen.ziggurats import ziggurat
from nnmagic.engine.relax.runtime.lapack import names_after
from nnmagic.engine.relax.runtime.numpy_random import PREFIX, SETTER

#: What a function returns, and what it takes after the generator: ``d`` and ``f`` are floats, ``p`` pointers,
#: other letters unsigned integers (``l`` of 64 bits, ``w`` 32, ``h`` 16, ``c`` 8), ``b`` a bool, ``s`` room
#: for what `random_binomial` sets up for its parameters. ``v`` is nothing.
_FUNCTIONS = {
    **{
        f"standard_{name}_fill{suffix}": "vlp"
        for name in ("uniform", "normal", "exponential")
        for suffix in ("", "_f")
    },
    **dict.fromkeys(("standard_exponential_inv_fill", "standard_exponential_inv_fill_f"), "vlp"),
    **dict.fromkeys(("standard_normal", "standard_exponential", "standard_cauchy"), "d"),
    **dict.fromkeys(("standard_uniform_f", "standard_normal_f", "standard_exponential_f"), "f"),
    **dict.fromkeys(("exponential", "standard_gamma", "chisquare", "standard_t", "pareto", "weibull"), "dd"),
    **dict.fromkeys(("power", "rayleigh"), "dd"),
    "standard_gamma_f": "ff",
    **dict.fromkeys(("normal", "uniform", "gamma", "beta", "f", "noncentral_chisquare"), "ddd"),
    **dict.fromkeys(("vonmises", "laplace", "gumbel", "logistic", "lognormal", "wald"), "ddd"),
    **dict.fromkeys(("noncentral_f", "triangular"), "dddd"),
    **dict.fromkeys(("poisson", "zipf", "geometric", "logseries"), "ld"),
    "negative_binomial": "ldd",
    "binomial": "ldls",
    "hypergeometric": "llll",
    "interval": "ll",
    "bounded_uint64": "llllb",
    "buffered_bounded_uint32": "wwwwbpp",
    "buffered_bounded_uint16": "hhhhbpp",
    "buffered_bounded_uint8": "ccccbpp",
    "buffered_bounded_bool": "ccccbpp",
    "bounded_uint64_fill": "vlllbp",
    "bounded_uint32_fill": "vwwlbp",
    "bounded_uint16_fill": "vhhlbp",
    "bounded_uint8_fill": "vcclbp",
    "bounded_bool_fill": "vcclbp",
    "multinomial": "vlppls",
    "multivariate_hypergeometric_count": "wllpllp",
    "multivariate_hypergeometric_marginals": "vllpllp",
}

#: What is computed here, without a function of NumPy: PCG64's own numbers, and its state for a seed.
_OWN = ("standard_uniform", "seed")

#: What exported functions draw without NumPy: uniform numbers of a range, and those of an array.
_UNIFORM = """
define double @{prefix}uniform(ptr %state, double %low, double %range) {{
  %fraction = call double @next_double(ptr %state)
  %product = fmul double %range, %fraction
  %rounded = call double @llvm.arithmetic.fence.f64(double %product)
  %number = fadd double %low, %rounded
  ret double %number
}}
"""
_FILLS = """
define void @{prefix}standard_uniform_fill{suffix}(ptr %state, i64 %count, ptr %out) {{
  br label %next
next:
  %number = phi i64 [ 0, %0 ], [ %following, %one ]
  %is_one = icmp slt i64 %number, %count
  br i1 %is_one, label %one, label %done
one:
  %value = call {type} @next_{type}(ptr %state)
  %at = getelementptr {type}, ptr %out, i64 %number
  store {type} %value, ptr %at
  %following = add i64 %number, 1
  br label %next
done:
  ret void
}}
"""
_NEXT_FLOAT = """
define internal float @next_float(ptr %state) {
  %word = call i32 @next32_of(ptr %state)
  %bits = lshr i32 %word, 8
  %number = sitofp i32 %bits to float
  %fraction = fmul float %number, 0x3E70000000000000
  ret float %fraction
}
"""

_TYPES = {"d": "double", "f": "float", "l": "i64", "p": "ptr", "v": "void"}
_NARROW = {"w": "i32", "h": "i16", "c": "i8", "b": "i1"}

#: PCG64 (O'Neill 2014): a linear congruential generator of 128 bits, whose output is the exclusive or of its
#: halves, rotated by its top bits.
_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
_PCG64 = f"""
define internal i64 @next64(ptr %state) alwaysinline {{
  %inc_at = getelementptr i8, ptr %state, i64 16
  %old = load i128, ptr %state, align 8
  %inc = load i128, ptr %inc_at, align 8
  %product = mul i128 %old, {_MULTIPLIER}
  %new = add i128 %product, %inc
  store i128 %new, ptr %state, align 8
  %word = call i64 @output(i128 %new)
  ret i64 %word
}}

define internal i64 @output(i128 %new) alwaysinline {{
  %shifted = lshr i128 %new, 64
  %high = trunc i128 %shifted to i64
  %low = trunc i128 %new to i64
  %both = xor i64 %high, %low
  %count = lshr i64 %high, 58
  %turned = call i64 @llvm.fshr.i64(i64 %both, i64 %both, i64 %count)
  ret i64 %turned
}}

define internal i64 @next64_of(ptr %state) {{
  %word = call i64 @next64(ptr %state)
  ret i64 %word
}}

define internal i32 @next32_of(ptr %state) {{
  %has_at = getelementptr i8, ptr %state, i64 32
  %half_at = getelementptr i8, ptr %state, i64 40
  %has = load i64, ptr %has_at
  %is_left = icmp ne i64 %has, 0
  br i1 %is_left, label %left, label %draw
left:
  store i64 0, ptr %has_at
  %half = load i64, ptr %half_at
  %kept = trunc i64 %half to i32
  ret i32 %kept
draw:
  %word = call i64 @next64(ptr %state)
  %high = lshr i64 %word, 32
  store i64 1, ptr %has_at
  store i64 %high, ptr %half_at
  %low = trunc i64 %word to i32
  ret i32 %low
}}

define internal double @next_double(ptr %state) {{
  %word = call i64 @next64(ptr %state)
  %bits = lshr i64 %word, 11
  %number = sitofp i64 %bits to double
  %fraction = fmul double %number, 0x3CA0000000000000
  ret double %fraction
}}

declare i64 @llvm.fshr.i64(i64, i64, i64)
declare double @llvm.arithmetic.fence.f64(double)
"""

#: The functions of a number that a ziggurat mostly gives at once, and what they make of that number. Where it
#: takes more than one draw, NumPy's function makes them all.
_QUICK = {
    "standard_normal": "standard_normal",
    "normal": "standard_normal",
    "standard_exponential": "standard_exponential",
    "exponential": "standard_exponential",
}
_FENCE = "call double @llvm.arithmetic.fence.f64(double"
_SCALED = {
    "standard_normal": ["  ret double %number"],
    "normal": [
        "  %product = fmul double %value1, %number",
        f"  %rounded = {_FENCE} %product)",
        "  %moved = fadd double %value0, %rounded",
        "  ret double %moved",
    ],
    "standard_exponential": ["  ret double %number"],
    "exponential": ["  %product = fmul double %value0, %number", "  ret double %product"],
}
_USE_QUICK = """  %drawn = call {{double, i1}} @quick_{name}(ptr %state)
  %is_quick = extractvalue {{double, i1}} %drawn, 1
  br i1 %is_quick, label %quick, label %slow
quick:
  %number = extractvalue {{double, i1}} %drawn, 0
{steps}
slow:
"""

#: A number of a ziggurat and true, or false, and the state as it was.
_ZIGGURAT = """
@widths_{name} = private constant [256 x double] [{widths}]
@limits_{name} = private constant [256 x i64] [{limits}]

define internal {{double, i1}} @quick_{name}(ptr %state) alwaysinline {{
  %inc_at = getelementptr i8, ptr %state, i64 16
  %old = load i128, ptr %state, align 8
  %inc = load i128, ptr %inc_at, align 8
  %product = mul i128 %old, {multiplier}
  %new = add i128 %product, %inc
  %word = call i64 @output(i128 %new)
  %layer_bits = lshr i64 %word, {layer_shift}
  %layer = and i64 %layer_bits, 255
  %bits_ = lshr i64 %word, {bits_shift}
  %bits = and i64 %bits_, {mask}
  %limit_at = getelementptr i64, ptr @limits_{name}, i64 %layer
  %limit = load i64, ptr %limit_at
  %is_quick = icmp ult i64 %bits, %limit
  br i1 %is_quick, label %quick, label %slow
quick:
  store i128 %new, ptr %state, align 8
  %width_at = getelementptr double, ptr @widths_{name}, i64 %layer
  %width = load double, ptr %width_at
  %count = sitofp i64 %bits to double
  %size = fmul double %count, %width
  %size_bits = bitcast double %size to i64
  %sign_at = lshr i64 %word, {sign}
  %sign_bit = shl i64 %sign_at, 63
  %sign = and i64 %sign_bit, {sign_mask}
  %number_bits = xor i64 %size_bits, %sign
  %number = bitcast i64 %number_bits to double
  %pair = insertvalue {{double, i1}} undef, double %number, 0
  %found = insertvalue {{double, i1}} %pair, i1 true, 1
  ret {{double, i1}} %found
slow:
  ret {{double, i1}} zeroinitializer
}}
"""

#: NumPy's struct of a generator: its state and the functions that draw from it.
_GENERATOR = """  %generator = alloca [5 x ptr]
  store ptr %state, ptr %generator
  %next1 = getelementptr ptr, ptr %generator, i64 1
  store ptr @next64_of, ptr %next1
  %next2 = getelementptr ptr, ptr %generator, i64 2
  store ptr @next32_of, ptr %next2
  %next3 = getelementptr ptr, ptr %generator, i64 3
  store ptr @next_double, ptr %next3
  %next4 = getelementptr ptr, ptr %generator, i64 4
  store ptr @next64_of, ptr %next4"""

#: What is above stands in an entry block; room for `random_binomial` is 17 words, of which the first is 0.
_ROOM = """  %room = alloca [24 x i64]
  store i64 0, ptr %room"""

_STUB = """
define {returned} @{prefix}{name}(ptr %state{parameters}) {{
{quick}{before}
  %function = load ptr, ptr @address_of_{name}
  {call} @@({arguments})
{after}
}}
"""


def compile_stubs(code: Sequence[bytes]) -> list[ObjectCode]:
    """Return the stubs that object files call: none if they call no function of random numbers."""
    names = names_after(PREFIX, code)
    if not names:
        return []
    text = "".join(_own_function(name) if name in _OWN else _stub(name) for name in names)
    quick = {_QUICK[name] for name in names if _is_quick(name)}
    return [compile_llvm(_PCG64 + "".join(map(_ziggurat, sorted(quick))) + text)]


def own_functions(texts: Sequence[str], name: str = "") -> list[str]:
    """Return LLVM's module of the functions that modules call and that need no library, if they call some.

    ``name``: one such function, with the prefix, or another name, for which there is none.
    """
    makers: dict[str, Callable[[], str]] = {name_: partial(_own_function, name_) for name_ in _OWN}
    fill = "standard_uniform_fill"
    makers["uniform"] = lambda: _UNIFORM.format(prefix=PREFIX)
    makers[fill] = lambda: _FILLS.format(prefix=PREFIX, suffix="", type="double")
    makers[f"{fill}_f"] = lambda: _NEXT_FLOAT + _FILLS.format(prefix=PREFIX, suffix="_f", type="float")
    called = (name_ for name_ in makers if not name or name == f"{PREFIX}{name_}")
    names = [name_ for name_ in called if any(f"@{PREFIX}{name_}(" in text for text in texts)]
    return [_PCG64 + "".join(makers[name_]() for name_ in names)] if names else []


def _stub(name: str) -> str:
    """Return the stub and the setter of a function as LLVM code."""
    result, kinds = _FUNCTIONS[name][0], _FUNCTIONS[name][1:]
    before, arguments, parameters = [_GENERATOR], ["ptr %generator"], []
    for number, kind in enumerate(kinds):
        if kind == "s":
            before.append(_ROOM)
            arguments.append("ptr %room")
            continue
        parameters.append(f"{_TYPES.get(kind, 'i64')} %value{number}")
        if kind not in _NARROW:
            arguments.append(parameters[-1])
            continue
        before.append(f"  %narrow{number} = trunc i64 %value{number} to {_NARROW[kind]}")
        arguments.append(f"{_NARROW[kind]} zeroext %narrow{number}")
    narrow = _NARROW.get(result)
    returned = _TYPES.get(result, "i64")
    quick = ""
    if _is_quick(name):
        quick = _USE_QUICK.format(name=_QUICK[name], steps="\n".join(_SCALED[name]))
    call, after = f"%result = call {narrow or returned}", f"  ret {returned} %result"
    if result == "v":
        call, after = "call void", "  ret void"
    elif narrow is not None:
        call = f"%result = call zeroext {narrow}"
        after = f"  %wide = zext {narrow} %result to i64\n  ret i64 %wide"
    return settable_address(name, f"{SETTER}{name}") + _STUB.format(
        name=name,
        prefix=PREFIX,
        returned=returned,
        parameters="".join(f", {parameter}" for parameter in parameters),
        quick=quick,
        before="\n".join(before),
        call=call,
        arguments=", ".join(arguments),
        after=after,
    ).replace("@@(", "%function(")


def _is_quick(name: str) -> bool:
    """Return whether a function draws here; other processors may round a product and a sum at once."""
    return name in _QUICK and (name != "normal" or codegen.llvm_get_system_triple().startswith("x86_64"))


def _ziggurat(name: str) -> str:
    """Return the function that draws a number of a ziggurat, as LLVM code."""
    tables = ziggurat(name)
    return _ZIGGURAT.format(
        name=name,
        widths=", ".join(f"double {_hexadecimal(width)}" for width in tables.widths),
        limits=", ".join(f"i64 {limit}" for limit in tables.limits),
        multiplier=_MULTIPLIER,
        layer_shift=tables.layer_shift,
        bits_shift=tables.bits_shift,
        mask=(1 << tables.bits) - 1,
        sign=tables.sign or 0,
        sign_mask=0 if tables.sign is None else -(1 << 63),
    )


def _hexadecimal(number: float) -> str:
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


def _own_function(name: str) -> str:
    if name == "standard_uniform":
        body = "  %number = call double @next_double(ptr %state)\n  ret double %number"
        return f"\ndefine double @{PREFIX}{name}(ptr %state) {{\n{body}\n}}\n"
    lines = "\n".join(f"  {line}" for line in _seeding())
    return f"\ndefine void @{PREFIX}{name}(ptr %state, i64 %seed) {{\n{lines}\n  ret void\n}}\n"


_MASK = 0xFFFFFFFF


def _seeding() -> Iterator[str]:
    """Yield the lines that store the state for ``%seed``: by NumPy's SeedSequence (O'Neill 2015)."""
    count = 0

    def compute(operation: str) -> str:
        nonlocal count
        count += 1
        lines.append(f"%v{count} = {operation}")
        return f"%v{count}"

    def scramble(value: str) -> str:
        return compute(f"xor i32 {value}, {compute(f'lshr i32 {value}, 16')}")

    constant = 0x43B0D7E5

    def hashed(value: str, factor: int = 0x931E8875) -> str:
        nonlocal constant
        value = compute(f"xor i32 {value}, {constant}")
        constant = constant * factor & _MASK
        return scramble(compute(f"mul i32 {value}, {constant}"))

    lines: list[str] = []
    high = compute("lshr i64 %seed, 32")
    entropy = [compute("trunc i64 %seed to i32"), compute(f"trunc i64 {high} to i32"), "0", "0"]
    pool = [hashed(word) for word in entropy]
    for source in range(4):
        for target in range(4):
            if source != target:
                lhs = compute(f"mul i32 {pool[target]}, {0xCA01F9DD}")
                rhs = compute(f"mul i32 {hashed(pool[source])}, {0x4973F715}")
                pool[target] = scramble(compute(f"sub i32 {lhs}, {rhs}"))
    constant = 0x8B51F9DD
    words = [compute(f"zext i32 {hashed(pool[number % 4], 0x58F38DED)} to i128") for number in range(8)]

    def joined(*numbers: int) -> str:
        """Return the number that four words are, the highest first."""
        whole = "0"
        for number in numbers:
            whole = compute(f"or i128 {compute(f'shl i128 {whole}, 32')}, {words[number]}")
        return whole

    inc = compute(f"or i128 {compute(f'shl i128 {joined(5, 4, 7, 6)}, 1')}, 1")
    begun = compute(f"add i128 {inc}, {joined(1, 0, 3, 2)}")  # a step from 0 gives the increment
    product = compute(f"mul i128 {begun}, {_MULTIPLIER}")
    state = compute(f"add i128 {product}, {inc}")
    yield from lines
    yield f"store i128 {state}, ptr %state, align 8"
    for offset, value in ((16, f"i128 {inc}"), (32, "i64 0"), (40, "i64 0")):
        yield f"%at{offset} = getelementptr i8, ptr %state, i64 {offset}"
        yield f"store {value}, ptr %at{offset}, align 8"
