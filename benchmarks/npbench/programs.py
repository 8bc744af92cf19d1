"""The programs, as users of NumPy write them; numba compiles the same functions, a cell has their bodies."""

from __future__ import annotations

import numpy as np

# -- stencils -----------------------------------------------------------------------------------------------


def jacobi_1d(a):
    x, y = a.copy(), a.copy()
    for _ in range(50):
        y[1:-1] = (x[:-2] + x[1:-1] + x[2:]) / 3.0
        x[1:-1] = (y[:-2] + y[1:-1] + y[2:]) / 3.0
    return x


def jacobi_2d(a):
    x, y = a.copy(), a.copy()
    for _ in range(20):
        y[1:-1, 1:-1] = 0.2 * (x[1:-1, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1])
        x[1:-1, 1:-1] = 0.2 * (y[1:-1, 1:-1] + y[1:-1, :-2] + y[1:-1, 2:] + y[:-2, 1:-1] + y[2:, 1:-1])
    return x


def heat_3d(a):
    x = a.copy()
    for _ in range(10):
        inner = x[1:-1, 1:-1, 1:-1]
        change = x[2:, 1:-1, 1:-1] + x[:-2, 1:-1, 1:-1] + x[1:-1, 2:, 1:-1] + x[1:-1, :-2, 1:-1]
        change = change + x[1:-1, 1:-1, 2:] + x[1:-1, 1:-1, :-2] - 6.0 * inner
        new = inner + 0.1 * change
        x[1:-1, 1:-1, 1:-1] = new
    return x


def gauss_seidel(a):
    x = a.copy()
    for _ in range(5):
        for i in range(1, x.shape[0] - 1):
            for j in range(1, x.shape[1] - 1):
                x[i, j] = 0.25 * (x[i - 1, j] + x[i, j - 1] + x[i, j + 1] + x[i + 1, j])
    return x


def wave_2d(height):
    before, now = height.copy(), height.copy()
    for _ in range(20):
        after = np.zeros_like(now)
        around = now[2:, 1:-1] + now[:-2, 1:-1] + now[1:-1, 2:] + now[1:-1, :-2] - 4.0 * now[1:-1, 1:-1]
        after[1:-1, 1:-1] = 2.0 * now[1:-1, 1:-1] - before[1:-1, 1:-1] + 0.2 * around
        before, now = now, after
    return now


def pressure_of_cavity(source):
    p = np.zeros_like(source)
    for _ in range(30):
        old = p.copy()
        p[1:-1, 1:-1] = (
            0.25 * (old[1:-1, 2:] + old[1:-1, :-2] + old[2:, 1:-1] + old[:-2, 1:-1]) - source[1:-1, 1:-1]
        )
        p[:, -1] = p[:, -2]
        p[0, :] = p[1, :]
        p[:, 0] = p[:, 1]
        p[-1, :] = 0.0
    return p


def horizontal_diffusion(field, weight):
    laplace = (
        4.0 * field[1:-1, 1:-1] - field[2:, 1:-1] - field[:-2, 1:-1] - field[1:-1, 2:] - field[1:-1, :-2]
    )
    down = laplace[1:, 1:-1] - laplace[:-1, 1:-1]
    down = np.where(down * (field[2:-1, 2:-2] - field[1:-2, 2:-2]) > 0, 0.0, down)
    right = laplace[1:-1, 1:] - laplace[1:-1, :-1]
    right = np.where(right * (field[2:-2, 2:-1] - field[2:-2, 1:-2]) > 0, 0.0, right)
    return field[2:-2, 2:-2] - weight[2:-2, 2:-2] * (down[1:] - down[:-1] + right[:, 1:] - right[:, :-1])


# -- linear algebra -----------------------------------------------------------------------------------------


def gemm(a, b, c):
    return 1.5 * a @ b + 1.2 * c


def atax(a, x):
    return (a @ x) @ a


def mvt(a, x, y):
    return x + a @ y + (y + x @ a)


def gemver(a, u, v, x):
    b = a + np.outer(u, v) + np.outer(v, u)
    y = x + 1.2 * (v @ b)
    return 1.5 * (b @ y)


def syrk(a):
    c = np.zeros((a.shape[0], a.shape[0]))
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            c[i, : i + 1] += 1.5 * a[i, k] * a[: i + 1, k]
    return c


def forward_substitution(lower, b):
    x = np.zeros_like(b)
    for i in range(b.shape[0]):
        x[i] = (b[i] - lower[i, :i] @ x[:i]) / lower[i, i]
    return x


def cholesky(a):
    lower = np.zeros_like(a)
    for i in range(a.shape[0]):
        for j in range(i + 1):
            total = a[i, j]
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            lower[i, j] = np.sqrt(total) if i == j else total / lower[j, j]
    return lower


def lu(a):
    x = a.copy()
    for k in range(x.shape[0]):
        for i in range(k + 1, x.shape[0]):
            x[i, k] /= x[k, k]
            for j in range(k + 1, x.shape[0]):
                x[i, j] -= x[i, k] * x[k, j]
    return x


def durbin(r):
    y = np.zeros_like(r)
    y[0] = -r[0]
    alpha, beta = -r[0], 1.0
    for k in range(1, r.shape[0]):
        beta *= 1.0 - alpha * alpha
        total = r[k]
        for i in range(k):
            total += r[k - i - 1] * y[i]
        alpha = -total / beta
        z = y.copy()
        for i in range(k):
            y[i] = z[i] + alpha * z[k - i - 1]
        y[k] = alpha
    return y


def gram_schmidt(a):
    q = a.copy()
    for k in range(q.shape[1]):
        q[:, k] /= np.sqrt(np.sum(q[:, k] * q[:, k]))
        for j in range(k + 1, q.shape[1]):
            q[:, j] -= np.sum(q[:, k] * q[:, j]) * q[:, k]
    return q


def sparse_times_vector(starts, columns, values, x):
    y = np.zeros(starts.shape[0] - 1)
    for i in range(starts.shape[0] - 1):
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += values[k] * x[columns[k]]
        y[i] = total
    return y


# -- dynamic programs and integers --------------------------------------------------------------------------


def shortest_paths(lengths):
    paths = lengths.copy()
    for k in range(paths.shape[0]):
        for i in range(paths.shape[0]):
            for j in range(paths.shape[0]):
                paths[i, j] = min(paths[i, j], paths[i, k] + paths[k, j])
    return paths


def base_pairs(bases):
    n = bases.shape[0]
    most = np.zeros((n, n), np.int32)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            best = max(most[i, j - 1], most[i + 1, j])
            if i < j - 1 and bases[i] + bases[j] == 3:
                best = max(best, most[i + 1, j - 1] + 1)
            for k in range(i + 1, j):
                best = max(best, most[i, k] + most[k + 1, j])
            most[i, j] = best
    return most


def base_pairs_of_length(n, bases):
    most = np.zeros((n, n), np.int32)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            if j - 1 >= 0:
                most[i, j] = max(most[i, j], most[i, j - 1])
            if i + 1 < n:
                most[i, j] = max(most[i, j], most[i + 1, j])
            if i < j - 1 and bases[i] + bases[j] == 3:
                most[i, j] = max(most[i, j], most[i + 1, j - 1] + 1)
            for k in range(i + 1, j):
                most[i, j] = max(most[i, j], most[i, k] + most[k + 1, j])
    return most


def game_of_life(cells, rounds):
    now = cells.copy()
    n = now.shape[0]
    for _ in range(rounds):
        after = np.zeros((n, n))
        for i in range(n):
            for j in range(n):
                around = -now[i, j]
                for di in range(-1, 2):
                    for dj in range(-1, 2):
                        around += now[(i + di) % n, (j + dj) % n]
                if around == 3.0 or (now[i, j] == 1.0 and around == 2.0):
                    after[i, j] = 1.0
        now = after
    return now


def crc_16(data):
    crc = 0xFFFF
    for byte in data:
        rest = np.int64(byte)
        for _ in range(8):
            if (crc ^ rest) & 1:  # noqa: SIM108  # as people write it
                crc = (crc >> 1) ^ 0x8408
            else:
                crc = crc >> 1
            rest = rest >> 1
    return ~crc & 0xFFFF


# -- fields, particles, data --------------------------------------------------------------------------------


def mandelbrot(real, imaginary):
    steps = np.zeros((imaginary.shape[0], real.shape[0]), np.int64)
    for i in range(imaginary.shape[0]):
        for j in range(real.shape[0]):
            x, y, n = 0.0, 0.0, 0
            while x * x + y * y < 4.0 and n < 50:
                x, y = x * x - y * y + real[j], 2.0 * x * y + imaginary[i]
                n += 1
            steps[i, j] = n
    return steps


def accelerations(position, mass):
    dx = position[:, 0] - position[:, 0:1]
    dy = position[:, 1] - position[:, 1:2]
    dz = position[:, 2] - position[:, 2:3]
    inverse = (dx * dx + dy * dy + dz * dz + 0.01) ** -1.5
    return np.stack(((dx * inverse) @ mass, (dy * inverse) @ mass, (dz * inverse) @ mass), 1)


def potential_energy(position, mass):
    dx = position[:, 0:1].T - position[:, 0:1]
    dy = position[:, 1:2].T - position[:, 1:2]
    dz = position[:, 2:3].T - position[:, 2:3]
    inverse = np.sqrt(dx**2 + dy**2 + dz**2)
    inverse = np.where(inverse > 0, 1.0 / np.maximum(inverse, 1e-300), 0.0)
    return -0.5 * np.sum(np.outer(mass, mass) * inverse)


def flow_in_a_channel(width, height, rounds, source):
    pressure = np.zeros((height, width))
    for _ in range(rounds):
        old = pressure.copy()
        pressure[1:-1, 1:-1] = (
            0.25 * (old[1:-1, 2:] + old[1:-1, :-2] + old[2:, 1:-1] + old[:-2, 1:-1]) - source[1:-1, 1:-1]
        )
        pressure[:, -1] = pressure[:, -2]
        pressure[0, :] = pressure[1, :]
    return pressure


def radial_mean(values, radius):
    counts, total = np.zeros(64), np.zeros(64)
    step = 64.0 / np.max(radius)
    for k in range(radius.shape[0]):
        index = min(int(radius[k] * step), 63)
        counts[index] += 1.0
        total[index] += values[k]
    return total / np.maximum(counts, 1.0)


def covariances(data):
    centered = data - np.sum(data, 0) / data.shape[0]
    return centered.T @ centered / (data.shape[0] - 1.0)


def trace_of_tanh(a):
    total = 0.0
    for i in range(a.shape[0]):
        total += np.tanh(a[i, i])
    return a + total


def tridiagonal(lower, middle, upper, right):
    c, d = np.zeros_like(right), np.zeros_like(right)
    c[0] = upper[0] / middle[0]
    d[0] = right[0] / middle[0]
    for k in range(1, right.shape[0]):
        pivot = middle[k] - lower[k] * c[k - 1]
        c[k] = upper[k] / pivot
        d[k] = (right[k] - lower[k] * d[k - 1]) / pivot
    for k in range(right.shape[0] - 2, -1, -1):
        d[k] -= c[k] * d[k + 1]
    return d


def arc_distance(theta, phi, other_theta, other_phi):
    half = np.sin((other_theta - theta) / 2) ** 2
    half = half + np.cos(theta) * np.cos(other_theta) * np.sin((other_phi - phi) / 2) ** 2
    return 2 * np.arctan2(np.sqrt(half), np.sqrt(1 - half))
