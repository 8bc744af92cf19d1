"""Loops as one writes them for numba, which compiles them; without numba nobody calls them."""

from __future__ import annotations

import math

import numpy as np

try:
    from numba import prange
except ImportError:
    prange = range


def chain(a, b):
    rows, columns = a.shape
    result = np.empty_like(a)
    for i in prange(rows):
        for j in range(columns):
            result[i, j] = max((a[i, j] + b[i, j]) * a[i, j] - b[i, j], np.float32(0)) * np.float32(0.5)
    return result


def sigmoid(x):
    rows, columns = x.shape
    result = np.empty_like(x)
    one = np.float32(1)
    for i in prange(rows):
        for j in range(columns):
            result[i, j] = one / (one + math.exp(-x[i, j]))
    return result


def exp(x):
    rows, columns = x.shape
    result = np.empty_like(x)
    for i in prange(rows):
        for j in range(columns):
            result[i, j] = math.exp(x[i, j])
    return result


def add_transposed(x, y):
    rows, columns = y.shape
    result = np.empty_like(y)
    for i in prange(rows):
        for j in range(columns):
            result[i, j] = x[j, i] + y[i, j]
    return result


def gelu(x):
    rows, columns = x.shape
    result = np.empty_like(x)
    half, one, root = np.float32(0.5), np.float32(1), np.float32(math.sqrt(0.5))
    for i in prange(rows):
        for j in range(columns):
            result[i, j] = half * x[i, j] * (one + math.erf(x[i, j] * root))
    return result


def softmax(x):
    rows, columns = x.shape
    result = np.empty_like(x)
    for i in prange(rows):
        most = x[i, 0]
        for j in range(columns):
            most = max(most, x[i, j])
        total = np.float32(0)
        for j in range(columns):
            result[i, j] = math.exp(x[i, j] - most)
            total += result[i, j]
        for j in range(columns):
            result[i, j] /= total
    return result


def layer_norm(x, weight, bias):
    rows, columns = x.shape
    result = np.empty_like(x)
    size, epsilon = np.float32(columns), np.float32(1e-5)
    for i in prange(rows):
        mean = np.float32(0)
        for j in range(columns):
            mean += x[i, j]
        mean /= size
        variance = np.float32(0)
        for j in range(columns):
            variance += (x[i, j] - mean) * (x[i, j] - mean)
        scale = np.float32(1) / math.sqrt(variance / size + epsilon)
        for j in range(columns):
            result[i, j] = (x[i, j] - mean) * scale * weight[j] + bias[j]
    return result


def log_sum_exp(x):
    rows, columns = x.shape
    result = np.empty(rows, x.dtype)
    for i in prange(rows):
        most = x[i, 0]
        for j in range(columns):
            most = max(most, x[i, j])
        total = np.float32(0)
        for j in range(columns):
            total += math.exp(x[i, j] - most)
        result[i] = math.log(total) + most
    return result


def row_sums(x):
    rows, columns = x.shape
    result = np.empty(rows, x.dtype)
    for i in prange(rows):
        total = np.float32(0)
        for j in range(columns):
            total += x[i, j]
        result[i] = total
    return result


def column_sums(x):
    """Blocks of columns, so that rows are read along memory."""
    rows, columns = x.shape
    block = 64
    result = np.zeros(columns, x.dtype)
    for part in prange((columns + block - 1) // block):
        end = min(columns, (part + 1) * block)
        for i in range(rows):
            for j in range(part * block, end):
                result[j] += x[i, j]
    return result


def argmax(x):
    rows, columns = x.shape
    result = np.empty(rows, np.int64)
    for i in prange(rows):
        best = 0
        for j in range(1, columns):
            if x[i, j] > x[i, best]:
                best = j
        result[i] = best
    return result


def variance(x):
    rows, columns = x.shape
    result = np.empty(rows, x.dtype)
    size = np.float32(columns)
    for i in prange(rows):
        mean = np.float32(0)
        for j in range(columns):
            mean += x[i, j]
        mean /= size
        total = np.float32(0)
        for j in range(columns):
            total += (x[i, j] - mean) * (x[i, j] - mean)
        result[i] = total / size
    return result


#: Too little work to be shared by threads.
SERIAL = {
    *("sum_of_list", "sum_of_tree", "evaluated"),
    *("product_and_sum", "add_one"),
    *(
        "collatz",
        "gcd",
        "logistic_map",
        "compensated_sum",
        "vote",
        "power_iteration",
        "recurrent",
        "kalman_filter",
    ),
    *("moving_average", "prefix_sums", "jacobi_by_elements", "jacobi_by_slices"),
    *("cholesky", "lu", "floyd_warshall", "triangular_solve"),
}


#: What must not be reordered.
STRICT = {
    *("sum_of_list", "sum_of_tree", "evaluated"),
    "compensated_sum",
    *("moving_average", "prefix_sums", "jacobi_by_elements", "jacobi_by_slices"),
    *("cholesky", "lu", "floyd_warshall", "triangular_solve"),
}


def product_and_sum(a, b, c):
    return a @ b + c


def add_one(x):
    return x + np.float32(1)


# What follows is a cell, too: benchmarks.cases.control_flow writes the annotations.


def collatz(n):
    count = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1
    return count


def gcd(a, b):
    while b != 0:
        a, b = b, a % b
    return a


def logistic_map(x):
    for _ in range(10_000):
        x = 2.8 * x * (1.0 - x)
    return x


def compensated_sum(x):
    total = 0.0
    lost = 0.0
    for i in range(x.shape[0]):
        y = x[i] - lost
        t = total + y
        lost = (t - total) - y
        total = t
    return total


def vote(x):
    """The majority (Boyer and Moore 1981)."""
    leader = 0
    lead = 0
    for i in range(x.shape[0]):
        if lead == 0:
            leader = x[i]
        lead = lead + 1 if x[i] == leader else lead - 1
    return leader


def power_iteration(a, v):
    for _ in range(100):
        v = a @ v
        v = v / np.sqrt(np.sum(v * v))
    return v


def recurrent(x, w, h):
    for t in range(64):
        h = np.tanh(x[t] + w @ h)
    return h


def kalman_filter(z, f, ft, q, x, p):
    """The filter of Kalman (1960) for a state of which the first number is measured, with noise of 0.1."""
    for t in range(100):
        x = f @ x
        p = f @ p @ ft + q
        gain = p[:, 0] / (p[0, 0] + np.float32(0.1))
        x = x + gain * (z[t] - x[0])
        p = p - np.outer(gain, p[0])
    return x


def moving_average(x):
    out = np.zeros_like(x)
    y = x[0]
    for i in range(len(x)):
        y = 0.9 * y + 0.1 * x[i]
        out[i] = y
    return out


def prefix_sums(x):
    y = x.copy()
    for i in range(1, len(x)):
        y[i] += y[i - 1]
    return y


def jacobi_by_elements(u, rounds):
    a = u.copy()
    b = u.copy()
    n = u.shape[0]
    for _ in range(rounds):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])
        a, b = b, a
    return a


def jacobi_by_slices(u, rounds):
    a = u.copy()
    for _ in range(rounds):
        a[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
    return a


def cholesky(m):
    a = m.copy()
    for i in range(a.shape[0]):
        for j in range(i):
            s = a[i, j]
            for k in range(j):
                s -= a[i, k] * a[j, k]
            a[i, j] = s / a[j, j]
        s = a[i, i]
        for k in range(i):
            s -= a[i, k] * a[i, k]
        a[i, i] = np.sqrt(s)
    return a


def lu(m):
    a = m.copy()
    n = a.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]
    return a


def floyd_warshall(m):
    a = m.copy()
    n = a.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                a[i, j] = min(a[i, j], a[i, k] + a[k, j])
    return a


def triangular_solve(m, b):
    x = b.copy()
    for i in range(len(b)):
        for j in range(i):
            x[i] -= m[i, j] * x[j]
        x[i] /= m[i, i]
    return x


# Data types as one writes them for numba: the fields of all values in arrays, and numbers for the values.


def sum_of_list(n, x):
    heads, tails = np.empty(n + 1, np.float32), np.empty(n + 1, np.int64)
    items = 0
    for i in range(n):
        heads[i + 1], tails[i + 1] = x + np.float32(n - 1 - i), items
        items = i + 1
    total = np.float32(0)
    while items:
        total += heads[items]
        items = tails[items]
    return total


def grow(depth, x, values, lefts, rights, free):
    node = free[0]
    free[0] += 1
    if depth <= 0:
        values[node], lefts[node] = x, -1
        return node
    lefts[node] = grow(depth - 1, x * np.float32(2), values, lefts, rights, free)
    rights[node] = grow(depth - 1, x * np.float32(2) + np.float32(1), values, lefts, rights, free)
    return node


def sum_of_node(node, values, lefts, rights):
    if lefts[node] < 0:
        return values[node]
    return sum_of_node(lefts[node], values, lefts, rights) + sum_of_node(rights[node], values, lefts, rights)


def sum_of_tree(depth, x):
    count = 2 << depth
    values, lefts, rights = np.empty(count, np.float32), np.empty(count, np.int64), np.empty(count, np.int64)
    root = grow(depth, x, values, lefts, rights, np.zeros(1, np.int64))
    return sum_of_node(root, values, lefts, rights)


def value_of(e, x, tags, values, firsts, seconds):
    if tags[e] == 0:
        return values[e]
    if tags[e] == 1:
        return x
    first = value_of(firsts[e], x, tags, values, firsts, seconds)
    if tags[e] == 2:
        return first + value_of(seconds[e], x, tags, values, firsts, seconds)
    if tags[e] == 3:
        return first * value_of(seconds[e], x, tags, values, firsts, seconds)
    return -first


def evaluated(n, points):
    tags, values = np.empty(5 * n + 1, np.int64), np.empty(5 * n + 1)
    firsts, seconds = np.empty(5 * n + 1, np.int64), np.empty(5 * n + 1, np.int64)
    tags[0], values[0] = 0, 1.0
    e = 0
    for i in range(n):
        k = 5 * i + 1
        tags[k], values[k] = 0, float(i)
        tags[k + 1], firsts[k + 1] = 4, e
        tags[k + 2] = 1
        tags[k + 3], firsts[k + 3], seconds[k + 3] = 3, k + 1, k + 2
        tags[k + 4], firsts[k + 4], seconds[k + 4] = 2, k, k + 3
        e = k + 4
    total = 0.0
    for i in range(points):
        total += value_of(e, i / 100.0, tags, values, firsts, seconds)
    return total
