"""Schedule kernels without reductions: chains of element functions, broadcasts, copies, transposes, gathers.

A kernel comes as one loop nest per tensor. A tensor that is needed once is computed where it is read. The
results remain, and the tensors that would be computed too often. For each of them:

- The dimensions that are contiguous in all memory that is touched become one loop (``collapse``).
- A condition on an index (of a concatenation or a padding) splits the loops where it changes (``pieces``).
- The innermost loop takes a few vectors at a time, with the intermediate values in registers. A vector that
  ends with the row does the rest, and computes some elements again: no element has a condition (``loops``).
- Threads share large kernels, by rows or by pieces of a single row.

Intermediate values go through small local arrays, which LLVM keeps in registers: an expression would be
simplified by TVM as if numbers had infinitely many digits (``nests``).
"""
