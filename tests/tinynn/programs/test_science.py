"""Programs of science with nothing but annotations added, beside the same source as Python on NumPy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import nnmagic

R = np.random.default_rng(7)
PROGRAMS: dict[str, tuple[str, Sequence[Any]]] = {}


def prog(name: str, source: str, *arguments: Any) -> None:
    PROGRAMS[name] = source, arguments


prog(
    "ising",
    """
def f(spins: InOut[Tensor[("n", "n"), i64]], u: Tensor[("s", "n", "n"), f64], beta: f64):
    n = spins.shape[0]
    energy = np.zeros(u.shape[0])
    for s in range(u.shape[0]):
        for i in range(n):
            for j in range(n):
                nb = spins[(i + 1) % n, j] + spins[i - 1, j] + spins[i, (j + 1) % n] + spins[i, j - 1]
                dE = 2 * spins[i, j] * nb
                if dE <= 0 or u[s, i, j] < np.exp(-beta * dE):
                    spins[i, j] *= -1
        energy[s] = -np.sum(spins * (np.roll(spins, 1, axis=0) + np.roll(spins, 1, axis=1)))
    return energy
""",
    R.choice([-1, 1], (8, 8)),
    R.random((5, 8, 8)),
    0.4,
)
prog(
    "kmeans",
    """
def f(points: Tensor[("n", 2), f64], centres: Tensor[("k", 2), f64], rounds: i64):
    c = centres.copy()
    labels = np.zeros(points.shape[0], dtype=np.int64)
    for _ in range(rounds):
        d = np.sqrt(((points[:, np.newaxis, :] - c[np.newaxis, :, :]) ** 2).sum(axis=2))
        labels = np.argmin(d, axis=1)
        for j in range(c.shape[0]):
            mask = labels == j
            if mask.sum() > 0:
                c[j] = points[mask].mean(axis=0)
    return c, labels
""",
    R.random((60, 2)),
    R.random((4, 2)),
    6,
)
prog(
    "rk4 lorenz",
    """
def lorenz(s, sigma, rho, beta):
    x, y, z = s
    return np.array([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])

def f(s0: Tensor[(3,), f64], dt: f64, steps: i64):
    traj = np.empty((steps + 1, 3))
    traj[0] = s0
    for i in range(steps):
        s = traj[i]
        k1 = lorenz(s, 10.0, 28.0, 8 / 3)
        k2 = lorenz(s + dt / 2 * k1, 10.0, 28.0, 8 / 3)
        k3 = lorenz(s + dt / 2 * k2, 10.0, 28.0, 8 / 3)
        k4 = lorenz(s + dt * k3, 10.0, 28.0, 8 / 3)
        traj[i + 1] = s + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return traj
""",
    np.array([1.0, 1, 1]),
    0.01,
    50,
)
prog(
    "needleman wunsch",
    """
def f(a: Tensor[("n",), i64], b: Tensor[("m",), i64], gap: i64):
    n, m = len(a), len(b)
    F = np.zeros((n + 1, m + 1), dtype=np.int64)
    F[:, 0] = -gap * np.arange(n + 1)
    F[0, :] = -gap * np.arange(m + 1)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            match = F[i - 1, j - 1] + (1 if a[i - 1] == b[j - 1] else -1)
            F[i, j] = max(match, F[i - 1, j] - gap, F[i, j - 1] - gap)
    return F[n, m], F
""",
    R.integers(0, 4, 12),
    R.integers(0, 4, 15),
    2,
)
prog(
    "conjugate gradient",
    """
def f(A: Tensor[("n", "n"), f64], b: Tensor[("n",), f64], tol: f64):
    x = np.zeros_like(b)
    r = b - A @ x
    p = r.copy()
    rs = r @ r
    k = 0
    while np.sqrt(rs) > tol and k < 10 * len(b):
        Ap = A @ p
        alpha = rs / (p @ Ap)
        x += alpha * p
        r -= alpha * Ap
        new = r @ r
        p = r + (new / rs) * p
        rs = new
        k += 1
    return x, k
""",
    np.diag(np.arange(20.0, 40)) + 0.3,
    R.random(20),
    1e-8,
)
prog(
    "fdtd 1d complex source",
    """
def f(nx: i64, nt: i64, src: Tensor[("nt",), f64]):
    ez = np.zeros(nx)
    hy = np.zeros(nx - 1)
    probe = []
    for t in range(nt):
        hy += 0.5 * (ez[1:] - ez[:-1])
        ez[1:-1] += 0.5 * (hy[1:] - hy[:-1])
        ez[nx // 2] += src[t]
        probe.append(ez[nx // 4])
    return ez, np.array(probe)
""",
    40,
    60,
    np.exp(-(((np.arange(60) - 20) / 5.0) ** 2)),
)
prog(
    "power spectrum",
    """
def f(x: Tensor[(128,), f64], seg: i64):
    w = np.hanning(32)
    n = (len(x) - 32) // 16 + 1
    P = np.zeros(17)
    for i in range(n):
        s = x[i * 16:i * 16 + 32] * w
        P += np.abs(np.fft.rfft(s - s.mean())) ** 2
    P[1:-1] *= 2
    return P / (n * (w ** 2).sum() * seg)
""",
    R.random(128),
    2,
)
prog(
    "sieve",
    """
def f(n: i64):
    is_prime = np.ones(n + 1, dtype=bool)
    is_prime[:2] = False
    for i in range(2, int(n ** 0.5) + 1):
        if is_prime[i]:
            for j in range(i * i, n + 1, i):
                is_prime[j] = False
    return np.nonzero(is_prime)[0]
""",
    100,
)
prog(
    "page rank",
    """
def f(src: Tensor[("e",), i64], dst: Tensor[("e",), i64], n: i64, d: f64):
    out = np.bincount(src, minlength=n)
    r = np.full(n, 1 / n)
    err = 1.0
    while err > 1e-10:
        new = np.full(n, (1 - d) / n)
        np.add.at(new, dst, d * r[src] / out[src])
        new += d * r[out == 0].sum() / n
        err = np.abs(new - r).sum()
        r = new
    return r
""",
    R.integers(0, 10, 40),
    R.integers(0, 10, 40),
    10,
    0.85,
)
prog(
    "lotka euler events",
    """
def f(y0: Tensor[(2,), f64], dt: f64, steps: i64):
    y = y0.copy()
    peaks = []
    prev = y[0]
    rising = True
    for i in range(steps):
        dy0 = y[0] * (1.1 - 0.4 * y[1])
        dy1 = y[1] * (0.1 * y[0] - 0.4)
        y[0] += dt * dy0
        y[1] += dt * dy1
        if rising and y[0] < prev:
            peaks.append(i * dt)
            rising = False
        elif y[0] > prev:
            rising = True
        prev = y[0]
    return y, np.array(peaks)
""",
    np.array([10.0, 5.0]),
    0.01,
    5000,
)
prog(
    "sor",
    """
def f(u: InOut[Tensor[("n", "m"), f64]], h: f64, omega: f64, tol: f64):
    n, m = u.shape
    it = 0
    while True:
        biggest = 0.0
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                new = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
                diff = omega * (new - u[i, j])
                u[i, j] += diff
                if abs(diff) > biggest:
                    biggest = abs(diff)
        it += 1
        if biggest < tol or it > 1000:
            break
    return it
""",
    np.pad(R.random((8, 9)), 1),
    0.1,
    1.5,
    1e-6,
)
prog(
    "histogram equalisation",
    """
def f(img: Tensor[("h", "w"), u8]):
    hist, bins = np.histogram(img.flatten(), 256, (0, 256))
    cdf = hist.cumsum()
    cdf_min = cdf[np.nonzero(cdf)[0][0]]
    lut = np.round((cdf - cdf_min) / (img.size - cdf_min) * 255).astype(np.uint8)
    return lut[img]
""",
    R.integers(40, 200, (12, 13)).astype("u1"),
)
prog(
    "qr householder",
    """
def f(A: Tensor[("m", "n"), f64]):
    m, n = A.shape
    R = A.copy()
    Q = np.eye(m)
    for k in range(n):
        x = R[k:, k].copy()
        e = np.zeros_like(x)
        e[0] = np.sign(x[0]) * np.linalg.norm(x)
        v = x + e
        v = v / np.linalg.norm(v)
        R[k:, k:] -= 2.0 * np.outer(v, v @ R[k:, k:])
        Q[:, k:] -= 2.0 * np.outer(Q[:, k:] @ v, v)
    return Q, R
""",
    R.random((6, 4)),
)
prog(
    "dtw",
    """
def f(s: Tensor[("n",), f64], t: Tensor[("m",), f64], w: i64):
    n, m = len(s), len(t)
    w = max(w, abs(n - m))
    D = np.full((n + 1, m + 1), np.inf)
    D[0, 0] = 0
    for i in range(1, n + 1):
        for j in range(max(1, i - w), min(m, i + w) + 1):
            cost = abs(s[i - 1] - t[j - 1])
            D[i, j] = cost + min(D[i - 1, j], D[i, j - 1], D[i - 1, j - 1])
    return D[n, m]
""",
    R.random(12),
    R.random(10),
    3,
)
prog(
    "moments on a contour",
    """
def f(size: i64, H: Tensor[(3, "n", "n"), f64], points: Tensor[("p",), c128], Y: Tensor[("n", "m"), c128]):
    first = np.zeros((size, Y.shape[1]), dtype=np.complex128)
    second = np.zeros((size, Y.shape[1]), dtype=np.complex128)
    for z in points:
        T = np.zeros((size, size), dtype=np.complex128)
        for k in range(3):
            T += np.power(z, 1 - k) * H[k]
        if size == Y.shape[1]:
            X = np.linalg.inv(T) @ Y
        else:
            X = np.linalg.solve(T, Y)
        if abs(z) < 1:
            X = -X
        first += X
        second += z * X
    return first, second
""",
    4,
    R.random((3, 4, 4)) + 3 * np.eye(4),
    np.exp(2j * np.arange(6)) * 0.9,
    R.random((4, 2)) + 1j,
)
prog(
    "flow in a periodic channel",
    """
def sources(b, u, v, h):
    b[1:-1, 1:-1] = (u[1:-1, 2:] - u[1:-1, :-2] + v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * h)
    b[1:-1, -1] = (u[1:-1, 0] - u[1:-1, -2] + v[2:, -1] - v[:-2, -1]) / (2 * h)
    b[1:-1, 0] = (u[1:-1, 1] - u[1:-1, -1] + v[2:, 0] - v[:-2, 0]) / (2 * h)

def relax(p, b, rounds):
    for _ in range(rounds):
        q = p.copy()
        p[1:-1, 1:-1] = (q[1:-1, 2:] + q[1:-1, :-2] + q[2:, 1:-1] + q[:-2, 1:-1] - b[1:-1, 1:-1]) / 4
        p[1:-1, -1] = (q[1:-1, 0] + q[1:-1, -2] + q[2:, -1] + q[:-2, -1] - b[1:-1, -1]) / 4
        p[-1, :] = p[-2, :]
        p[0, :] = p[1, :]

def f(u: InOut[Tensor[("n", "m"), f64]], v: Tensor[("n", "m"), f64], p: InOut[Tensor[("n", "m"), f64]]):
    h = 0.5
    change, steps = 1.0, 0
    b = np.zeros_like(u)
    while change > 0.01:
        before = u.copy()
        sources(b, u, v, h)
        relax(p, b, 5)
        u[1:-1, 1:-1] -= 0.1 * h * (p[1:-1, 2:] - p[1:-1, :-2])
        u[0, :] = 0
        change = abs(np.sum(u) - np.sum(before)) / abs(np.sum(u))
        steps += 1
    return steps
""",
    R.random((7, 8)),
    R.random((7, 8)),
    R.random((7, 8)),
)
prog(
    "points that have not escaped",
    """
def f(n: i64, m: i64, rounds: i64):
    i, j = np.mgrid[0:n, 0:m]
    c = np.linspace(-2, 0.5, n)[i] + np.linspace(-1, 1, m)[j] * 1j
    found = np.zeros(c.shape, dtype=np.int64)
    i.shape = j.shape = c.shape = n * m
    z = np.zeros(c.shape, np.complex128)
    for k in range(rounds):
        if not len(z):
            break
        np.multiply(z, z, z)
        np.add(z, c, z)
        out = abs(z) > 2.0
        found[i[out], j[out]] = k + 1
        np.logical_not(out, out)
        z, c = z[out], c[out]
        i, j = i[out], j[out]
    return found.T
""",
    12,
    9,
    15,
)
prog(
    "mean by histograms",
    """
def f(values: Tensor[("n",), f64], radius: Tensor[("n",), f64], bins: i64):
    counts = np.histogram(radius, bins)[0]
    sums = np.histogram(radius, bins, weights=values)[0]
    return sums / counts
""",
    R.random(400),
    R.random(400),
    9,
)
prog(
    "fft by radix",
    """
def f(size: i64, radix: i64, stages: i64, x: Tensor[("n",), c128], y: InOut[Tensor[("n",), c128]]):
    i, j = np.mgrid[0:radix, 0:radix]
    matrix = np.exp(-2.0j * np.pi * i * j / radix)
    y[:] = x[:]
    rows, columns = np.mgrid[0:radix, 0:radix**stages]
    for s in range(stages):
        parts = np.transpose(np.reshape(y, (radix**s, radix, radix ** (stages - s - 1))), axes=(1, 0, 2))
        twist = np.exp(-2.0j * np.pi * rows[:, : radix**s] * columns[:, : radix**s] / radix ** (s + 1))
        whole = np.repeat(np.reshape(twist, (radix, radix**s, 1)), radix ** (stages - s - 1), axis=2)
        product = np.reshape(parts, (size,)) * np.reshape(whole, (size,))
        y[:] = np.reshape(matrix @ np.reshape(product, (radix, radix ** (stages - 1))), (size,))
    return np.abs(y)
""",
    16,
    2,
    4,
    R.random(16) + 1j * R.random(16),
    np.zeros(16, complex),
)


@pytest.mark.machine_code
@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array:DeprecationWarning")
def test_program(name: str) -> None:
    source, arguments = PROGRAMS[name]
    names: dict[str, Any] = {"np": np}
    exec(re.sub(r": (InOut\[)?(Tensor\[.*?\), \w+\]|i64|f64|u8)\]?", "", source), names)
    ours, theirs = (
        [each.copy() if isinstance(each, np.ndarray) else each for each in arguments] for _ in "ab"
    )
    expected = names["f"](*theirs)
    got = nnmagic.compile(source, namespace={"np": np})(*ours)
    expected, got = (each if isinstance(each, tuple) else (each,) for each in (expected, got))
    for mine, other in zip((*got, *ours), (*expected, *theirs), strict=True):
        assert np.shape(mine) == np.shape(other)
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-12)
