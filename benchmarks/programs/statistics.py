"""Statistics: estimates, resampling, clusters, regression and filters."""

from __future__ import annotations

import math

import numpy as np


class group_statistics:
    """Return how many values each group has, their means and their standard deviations."""

    types = 'values: Tensor[("n",), f64], keys: Tensor[("n",), i64], k: i64'
    sizes = (8000, 200_000)
    single = False  # NumPy sums the groups in f64

    def draw(rng, n):
        return {"values": rng.standard_normal(n), "keys": rng.integers(0, 20, n), "k": 20}

    def arrays(values, keys, k):
        counts = np.bincount(keys, minlength=k)
        means = np.bincount(keys, weights=values, minlength=k) / counts
        squares = np.bincount(keys, weights=(values - means[keys]) ** 2, minlength=k)
        return counts, means, np.sqrt(squares / (counts - 1))

    def loops(values, keys, k):
        counts = np.zeros(k, dtype=np.int64)
        means = np.zeros(k)
        deviations = np.zeros(k)
        for i in range(len(values)):
            counts[keys[i]] += 1
            means[keys[i]] += values[i]
        for g in range(k):
            means[g] /= counts[g]
        for i in range(len(values)):
            deviations[keys[i]] += (values[i] - means[keys[i]]) ** 2
        for g in range(k):
            deviations[g] = math.sqrt(deviations[g] / (counts[g] - 1))
        return counts, means, deviations

    def mixed(values, keys, k):
        counts = np.zeros(k, dtype=np.int64)
        means = np.zeros(k)
        deviations = np.zeros(k)
        for g in range(k):
            chosen = values[keys == g]
            counts[g] = len(chosen)
            means[g] = chosen.mean()
            deviations[g] = chosen.std(ddof=1)
        return counts, means, deviations


class bootstrap:
    """Return the standard error of a mean and its interval of 95 %, from given samples of indices."""

    types = 'x: Tensor[("n",), f64], samples: Tensor[("rounds", "n"), i64]'
    sizes = (150, 1000)

    def draw(rng, n):
        return {"x": rng.exponential(2.0, n), "samples": rng.integers(0, n, (n, n))}

    def arrays(x, samples):
        means = x[samples].mean(axis=1)
        return means.std(ddof=1), np.quantile(means, 0.025), np.quantile(means, 0.975)

    def loops(x, samples):
        rounds, n = samples.shape
        means = np.empty(rounds)
        mean = 0.0
        for b in range(rounds):
            total = 0.0
            for i in range(n):
                total += x[samples[b, i]]
            means[b] = total / n
            mean += means[b] / rounds
        squares = 0.0
        for b in range(rounds):
            squares += (means[b] - mean) ** 2
        means = np.sort(means)
        low, high = 0.025 * (rounds - 1), 0.975 * (rounds - 1)
        i, j = int(low), int(high)
        lower = means[i] + (low - i) * (means[i + 1] - means[i])
        upper = means[j] + (high - j) * (means[j + 1] - means[j])
        return math.sqrt(squares / (rounds - 1)), lower, upper

    def mixed(x, samples):
        means = np.empty(len(samples))
        for b in range(len(samples)):
            means[b] = x[samples[b]].mean()
        return means.std(ddof=1), np.quantile(means, 0.025), np.quantile(means, 0.975)

    def jax(jax, x, samples):
        means = x[samples].mean(axis=1)
        quantile = jax.numpy.quantile
        return means.std(ddof=1), quantile(means, 0.025), quantile(means, 0.975)


class k_means:
    """Move the centers of k clusters, at first the first points; return the label of each point, too."""

    types = 'x: Tensor[("n", "d"), f64], k: i64, rounds: i64'
    sizes = (150, 5000)

    def draw(rng, n):
        centers = 4 * rng.standard_normal((6, 3))
        return {"x": centers[np.arange(n) % 6] + rng.standard_normal((n, 3)), "k": 6, "rounds": 5}

    def arrays(x, k, rounds):
        centers = x[:k].copy()
        labels = np.zeros(len(x), dtype=np.int64)
        for _ in range(rounds):
            distances = ((x[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2)
            labels = np.argmin(distances, axis=1)
            member = (labels[:, None] == np.arange(k)).astype(x.dtype)
            centers = (member.T @ x) / member.sum(axis=0)[:, None]
        return centers, labels

    def loops(x, k, rounds):
        n, d = x.shape
        centers = x[:k].copy()
        labels = np.zeros(n, dtype=np.int64)
        for _ in range(rounds):
            sums = np.zeros_like(centers)
            counts = np.zeros(k, dtype=x.dtype)
            for i in range(n):
                least = np.inf
                for c in range(k):
                    distance = 0.0
                    for j in range(d):
                        distance += (x[i, j] - centers[c, j]) ** 2
                    if distance < least:
                        least = distance
                        labels[i] = c
                counts[labels[i]] += 1
                for j in range(d):
                    sums[labels[i], j] += x[i, j]
            for c in range(k):
                for j in range(d):
                    centers[c, j] = sums[c, j] / counts[c]
        return centers, labels

    def mixed(x, k, rounds):
        centers = x[:k].copy()
        labels = np.zeros(len(x), dtype=np.int64)
        for _ in range(rounds):
            for i in range(len(x)):
                labels[i] = np.argmin(((x[i] - centers) ** 2).sum(axis=1))
            for c in range(k):
                centers[c] = x[labels == c].mean(axis=0)
        return centers, labels


class kernel_density:
    """Estimate a density at the points of a grid by normal kernels."""

    types = 'x: Tensor[("n",), f64], grid: Tensor[("m",), f64], width: f64'
    sizes = (100, 800)

    def draw(rng, n):
        return {"x": rng.standard_normal(n), "grid": np.linspace(-4.0, 4.0, n), "width": 0.3}

    def arrays(x, grid, width):
        z = (grid[:, None] - x[None, :]) / width
        return np.exp(-0.5 * z**2).sum(axis=1) / (len(x) * width * np.sqrt(2 * np.pi))

    def loops(x, grid, width):
        density = np.zeros_like(grid)
        for i in range(len(grid)):
            for sample in x:
                z = (grid[i] - sample) / width
                density[i] += math.exp(-0.5 * z * z)
        return density / (len(x) * width * math.sqrt(2 * math.pi))

    def mixed(x, grid, width):
        density = np.empty_like(grid)
        for i, at in enumerate(grid):
            z = (at - x) / width
            density[i] = np.mean(np.exp(-0.5 * z**2))
        return density / (width * np.sqrt(2 * np.pi))

    def jax(jax, x, grid, width):
        jnp = jax.numpy
        z = (grid[:, None] - x[None, :]) / width
        return jnp.exp(-0.5 * z**2).sum(axis=1) / (len(x) * width * jnp.sqrt(2 * jnp.pi))


class gaussian_process:
    """Return the mean and the variance of a Gaussian process at new points, by a Cholesky factor."""

    types = (
        'x: Tensor[("n",), f64], y: Tensor[("n",), f64], new: Tensor[("m",), f64], length: f64, noise: f64'
    )
    sizes = (32, 200)

    def draw(rng, n):
        x = np.sort(rng.uniform(0.0, 10.0, n))
        y = np.sin(x) + 0.1 * rng.standard_normal(n)
        return {"x": x, "y": y, "new": np.linspace(0.0, 10.0, n), "length": 1.0, "noise": 0.1}

    def arrays(x, y, new, length, noise):
        covariance = np.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + noise * np.eye(len(x))
        cross = np.exp(-0.5 * ((x[:, None] - new) / length) ** 2)
        factor = np.linalg.cholesky(covariance)
        z = np.linalg.solve(factor, y)
        v = np.linalg.solve(factor, cross)
        return v.T @ z, 1 + noise - (v**2).sum(axis=0)

    def loops(x, y, new, length, noise):
        n = len(x)
        factor = np.zeros((n, n))
        z = np.zeros_like(y)
        for i in range(n):
            for j in range(i + 1):
                s = math.exp(-0.5 * ((x[i] - x[j]) / length) ** 2)
                if i == j:
                    s += noise
                for k in range(j):
                    s -= factor[i, k] * factor[j, k]
                factor[i, j] = math.sqrt(s) if i == j else s / factor[j, j]
            s = y[i]
            for k in range(i):
                s -= factor[i, k] * z[k]
            z[i] = s / factor[i, i]
        mean = np.zeros_like(new)
        variance = np.zeros_like(new)
        v = np.zeros_like(x)
        for j in range(len(new)):
            variance[j] = 1 + noise
            for i in range(n):
                s = math.exp(-0.5 * ((x[i] - new[j]) / length) ** 2)
                for k in range(i):
                    s -= factor[i, k] * v[k]
                v[i] = s / factor[i, i]
                mean[j] += v[i] * z[i]
                variance[j] -= v[i] * v[i]
        return mean, variance

    def mixed(x, y, new, length, noise):
        n = len(x)
        factor = np.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + noise * np.eye(n)
        v = np.exp(-0.5 * ((x[:, None] - new) / length) ** 2)
        z = y.copy()
        for i in range(n):
            for j in range(i):
                factor[i, j] = (factor[i, j] - factor[i, :j] @ factor[j, :j]) / factor[j, j]
            factor[i, i] = np.sqrt(factor[i, i] - factor[i, :i] @ factor[i, :i])
            z[i] = (z[i] - factor[i, :i] @ z[:i]) / factor[i, i]
            v[i] = (v[i] - factor[i, :i] @ v[:i]) / factor[i, i]
        return z @ v, 1 + noise - (v**2).sum(axis=0)

    def jax(jax, x, y, new, length, noise):
        jnp, linalg = jax.numpy, jax.scipy.linalg
        covariance = jnp.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + noise * jnp.eye(len(x))
        cross = jnp.exp(-0.5 * ((x[:, None] - new) / length) ** 2)
        factor = jnp.linalg.cholesky(covariance)
        z = linalg.solve_triangular(factor, y, lower=True)
        v = linalg.solve_triangular(factor, cross, lower=True)
        return v.T @ z, 1 + noise - (v**2).sum(axis=0)


class conjugate_gradients:
    """Solve a system with a positive definite matrix by conjugate gradients."""

    types = 'a: Tensor[("n", "n"), f64], b: Tensor[("n",), f64], enough: f64'
    sizes = (64, 400)
    tolerance = 1e-3  # another order of sums may need another round

    def draw(rng, n):
        factor = rng.standard_normal((n, n)) / np.sqrt(n)
        return {"a": factor @ factor.T + 0.5 * np.eye(n), "b": rng.standard_normal(n), "enough": 1e-4}

    def arrays(a, b, enough):
        x = np.zeros_like(b)
        r = b.copy()
        p = r.copy()
        rr = r @ r
        while np.sqrt(rr) > enough:
            ap = a @ p
            step = rr / (p @ ap)
            x += step * p
            r -= step * ap
            rr, before = r @ r, rr
            p = r + rr / before * p
        return x

    def loops(a, b, enough):
        n = len(b)
        x = np.zeros_like(b)
        r = b.copy()
        p = b.copy()
        ap = np.zeros_like(b)
        rr = 0.0
        for i in range(n):
            rr += r[i] * r[i]
        while math.sqrt(rr) > enough:
            pap = 0.0
            for i in range(n):
                s = 0.0
                for j in range(n):
                    s += a[i, j] * p[j]
                ap[i] = s
                pap += p[i] * s
            step = rr / pap
            before = rr
            rr = 0.0
            for i in range(n):
                x[i] += step * p[i]
                r[i] -= step * ap[i]
                rr += r[i] * r[i]
            for i in range(n):
                p[i] = r[i] + rr / before * p[i]
        return x

    def mixed(a, b, enough):
        x = np.zeros_like(b)
        r = b.copy()
        p = b.copy()
        ap = np.empty_like(b)
        rr = np.dot(r, r)
        while rr > enough**2:
            for i in range(len(b)):
                ap[i] = np.dot(a[i], p)
            step = rr / np.dot(p, ap)
            x += step * p
            r -= step * ap
            before = rr
            rr = np.dot(r, r)
            p = r + rr / before * p
        return x

    def jax(jax, a, b, enough):
        def unfinished(state):
            return jax.numpy.sqrt(state[3]) > enough

        def step(state):
            x, r, p, before = state
            ap = a @ p
            alpha = before / (p @ ap)
            r = r - alpha * ap
            rr = r @ r
            return x + alpha * p, r, r + rr / before * p, rr

        return jax.lax.while_loop(unfinished, step, (jax.numpy.zeros_like(b), b, b, b @ b))[0]


class logistic_regression:
    """Fit a logistic regression by gradient descent; return its weights and its loss."""

    types = 'x: Tensor[("n", "d"), f64], y: Tensor[("n",), f64], rate: f64, rounds: i64'
    sizes = (100, 10_000)

    def draw(rng, n):
        x = rng.standard_normal((n, 10))
        y = (x @ rng.standard_normal(10) + rng.standard_normal(n) > 0).astype(float)
        return {"x": x, "y": y, "rate": 0.5, "rounds": 20}

    def arrays(x, y, rate, rounds):
        w = np.zeros_like(x[0])
        for _ in range(rounds):
            p = 1 / (1 + np.exp(-(x @ w)))
            w -= rate * (x.T @ (p - y)) / len(y)
        p = 1 / (1 + np.exp(-(x @ w)))
        return w, -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))

    def loops(x, y, rate, rounds):
        n, d = x.shape
        w = np.zeros_like(x[0])
        gradient = np.zeros_like(x[0])
        loss = 0.0
        for t in range(rounds + 1):
            loss = 0.0
            for j in range(d):
                gradient[j] = 0.0
            for i in range(n):
                s = 0.0
                for j in range(d):
                    s += x[i, j] * w[j]
                p = 1 / (1 + math.exp(-s))
                if t == rounds:
                    loss -= y[i] * math.log(p) + (1 - y[i]) * math.log(1 - p)
                for j in range(d):
                    gradient[j] += (p - y[i]) * x[i, j]
            if t < rounds:
                for j in range(d):
                    w[j] -= rate * gradient[j] / n
        return w, loss / n

    def mixed(x, y, rate, rounds):
        w = np.zeros_like(x[0])
        for _ in range(rounds):
            gradient = np.zeros_like(w)
            for row, target in zip(x, y):  # noqa: B905 - as one writes it in a notebook
                p = 1 / (1 + np.exp(-(row @ w)))
                gradient += (p - target) * row
            w -= rate * gradient / len(y)
        p = 1 / (1 + np.exp(-(x @ w)))
        return w, -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))

    def jax(jax, x, y, rate, rounds):
        jnp = jax.numpy

        def loss(w):
            p = 1 / (1 + jnp.exp(-(x @ w)))
            return -jnp.mean(y * jnp.log(p) + (1 - y) * jnp.log(1 - p))

        descended = jax.lax.fori_loop(
            0, rounds, lambda _, w: w - rate * jax.grad(loss)(w), jnp.zeros_like(x[0])
        )
        return descended, loss(descended)


class kalman_filter:
    """Follow a body in the plane, of whose place and speed only the place is measured."""

    types = (
        'z: Tensor[("t", 2), f64], f: Tensor[(4, 4), f64], h: Tensor[(2, 4), f64], '
        "q: Tensor[(4, 4), f64], r: Tensor[(2, 2), f64]"
    )
    sizes = (100, 4000)

    def draw(rng, t):
        f = np.eye(4)
        f[0, 2] = f[1, 3] = 0.1
        h = np.eye(2, 4)
        speed = np.cumsum(0.1 * rng.standard_normal((t, 2)), axis=0)
        z = np.cumsum(0.1 * speed, axis=0) + 0.3 * rng.standard_normal((t, 2))
        return {"z": z, "f": f, "h": h, "q": 0.01 * np.eye(4), "r": 0.09 * np.eye(2)}

    def arrays(z, f, h, q, r):
        x = np.zeros_like(f[0])
        p = np.eye(4, dtype=f.dtype)
        estimates = np.zeros((len(z), 4), dtype=z.dtype)
        for t in range(len(z)):
            x = f @ x
            p = f @ p @ f.T + q
            s = h @ p @ h.T + r
            k = p @ h.T @ np.linalg.inv(s)
            x = x + k @ (z[t] - h @ x)
            p = p - k @ h @ p
            estimates[t] = x
        return estimates, p

    def loops(z, f, h, q, r):
        x, y = np.zeros_like(f[0]), np.zeros_like(f[0])
        p, a = np.zeros_like(f), np.zeros_like(f)
        ph, gain = np.zeros_like(h), np.zeros_like(h)
        s, e = r.copy(), np.zeros_like(r[0])
        estimates = np.zeros((len(z), 4), dtype=z.dtype)
        for i in range(4):
            p[i, i] = 1.0
        for t in range(len(z)):
            for i in range(4):
                y[i] = 0.0
                for j in range(4):
                    y[i] += f[i, j] * x[j]
                    a[i, j] = 0.0
                    for k in range(4):
                        a[i, j] += f[i, k] * p[k, j]
            for i in range(4):
                for j in range(4):
                    p[i, j] = q[i, j]
                    for k in range(4):
                        p[i, j] += a[i, k] * f[j, k]
            for i in range(2):
                e[i] = z[t, i]
                for j in range(4):
                    e[i] -= h[i, j] * y[j]
                    ph[i, j] = 0.0
                    for k in range(4):
                        ph[i, j] += h[i, k] * p[k, j]
            for i in range(2):
                for j in range(2):
                    s[i, j] = r[i, j]
                    for k in range(4):
                        s[i, j] += ph[i, k] * h[j, k]
            det = s[0, 0] * s[1, 1] - s[0, 1] * s[1, 0]
            for j in range(4):
                gain[0, j] = (ph[0, j] * s[1, 1] - ph[1, j] * s[1, 0]) / det
                gain[1, j] = (ph[1, j] * s[0, 0] - ph[0, j] * s[0, 1]) / det
                x[j] = y[j] + gain[0, j] * e[0] + gain[1, j] * e[1]
                estimates[t, j] = x[j]
            for i in range(4):
                for j in range(4):
                    p[i, j] -= gain[0, i] * ph[0, j] + gain[1, i] * ph[1, j]
        return estimates, p

    def mixed(z, f, h, q, r):
        x = np.zeros_like(f[0])
        p = np.eye(4, dtype=f.dtype)
        estimates = np.zeros((len(z), 4), dtype=z.dtype)
        for t in range(len(z)):
            x = f @ x
            p = f @ p @ f.T + q
            for i in range(2):  # one measured number after the other, as their errors are independent
                ph = p @ h[i]
                gain = ph / (h[i] @ ph + r[i, i])
                x = x + gain * (z[t, i] - h[i] @ x)
                p = p - np.outer(gain, ph)
            estimates[t] = x
        return estimates, p

    def jax(jax, z, f, h, q, r):
        jnp = jax.numpy

        def step(state, z):
            x, p = state
            x = f @ x
            p = f @ p @ f.T + q
            k = p @ h.T @ jnp.linalg.inv(h @ p @ h.T + r)
            x = x + k @ (z - h @ x)
            p = p - k @ h @ p
            return (x, p), x

        (_, p), estimates = jax.lax.scan(step, (jnp.zeros_like(f[0]), jnp.eye(4, dtype=f.dtype)), z)
        return estimates, p


class moving_quantiles:
    """Return the quantile 0.9 of each window of 25 values."""

    types = 'x: Tensor[("n",), f64]'
    sizes = (400, 20_000)

    def draw(rng, n):
        return {"x": np.cumsum(rng.standard_normal(n))}

    def arrays(x):
        windows = np.lib.stride_tricks.sliding_window_view(x, 25)
        return np.quantile(windows, 0.9, axis=1)

    def loops(x):
        n = len(x) - 24
        result = np.empty_like(x[:n])
        window = np.sort(x[:25])
        at = 0.9 * 24
        low = int(at)
        for i in range(n):
            if i > 0:
                gone = x[i - 1]
                new = x[i + 24]
                j = 0
                while window[j] != gone:
                    j += 1
                while j < 24 and window[j + 1] < new:
                    window[j] = window[j + 1]
                    j += 1
                while j > 0 and window[j - 1] > new:
                    window[j] = window[j - 1]
                    j -= 1
                window[j] = new
            result[i] = window[low] + (at - low) * (window[low + 1] - window[low])
        return result

    def mixed(x):
        n = len(x) - 24
        result = np.empty_like(x[:n])
        at = 0.9 * 24
        low = int(at)
        for i in range(n):
            window = np.sort(x[i : i + 25])
            result[i] = window[low] + (at - low) * (window[low + 1] - window[low])
        return result


def _ranks(x):
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - 0.5 * (counts - 1))[inverse]


def _ranks_by_loops(x):
    n = len(x)
    order = np.argsort(x)
    ranks = np.empty(n)
    i = 0
    while i < n:
        j = i + 1
        while j < n and x[order[j]] == x[order[i]]:
            j += 1
        for k in range(i, j):
            ranks[order[k]] = 0.5 * (i + j + 1)
        i = j
    return ranks


class rank_correlation:
    """Return the ranks of two samples, of which equal values share one, and how they correlate."""

    types = 'x: Tensor[("n",), f64], y: Tensor[("n",), f64]'
    sizes = (500, 10_000)
    helpers = (_ranks, _ranks_by_loops)

    def draw(rng, n):
        x = rng.standard_normal(n)
        return {"x": np.round(x, 2), "y": np.round(x + rng.standard_normal(n), 2)}

    def arrays(x, y):
        a = _ranks(x)
        b = _ranks(y)
        return a, b, np.corrcoef(a, b)[0, 1]

    def loops(x, y):
        a = _ranks_by_loops(x)
        b = _ranks_by_loops(y)
        mean = 0.5 * (len(x) + 1)
        ab, aa, bb = 0.0, 0.0, 0.0
        for i in range(len(x)):
            ab += (a[i] - mean) * (b[i] - mean)
            aa += (a[i] - mean) ** 2
            bb += (b[i] - mean) ** 2
        return a, b, ab / math.sqrt(aa * bb)

    def mixed(x, y):
        in_order = np.sort(x), np.sort(y)
        a = np.empty(len(x))
        b = np.empty(len(y))
        for i in range(len(x)):
            a[i] = np.searchsorted(in_order[0], x[i]) + np.searchsorted(in_order[0], x[i], side="right")
            b[i] = np.searchsorted(in_order[1], y[i]) + np.searchsorted(in_order[1], y[i], side="right")
        a, b = 0.5 * (a + 1), 0.5 * (b + 1)
        da, db = a - a.mean(), b - b.mean()
        return a, b, (da @ db) / np.sqrt((da @ da) * (db @ db))


class metropolis:
    """Draw from a banana-shaped density by many chains; return their ends and how often each moved."""

    types = 'start: Tensor[("n", 2), f64], steps: Tensor[("t", "n", 2), f64], r: Tensor[("t", "n"), f64]'
    sizes = (30, 500)
    single = False  # whether a chain moves may depend on the last digits

    def draw(rng, n):
        steps = 0.5 * rng.standard_normal((100, n, 2))
        return {"start": rng.standard_normal((n, 2)), "steps": steps, "r": rng.random((100, n))}

    def arrays(start, steps, r):
        x, y = start[:, 0], start[:, 1]
        energy = 0.5 * x**2 + 2 * (y - x**2) ** 2
        moves = np.zeros(len(start), dtype=np.int64)
        for t in range(len(r)):
            u = x + steps[t, :, 0]
            v = y + steps[t, :, 1]
            new = 0.5 * u**2 + 2 * (v - u**2) ** 2
            moved = r[t] < np.exp(np.minimum(energy - new, 0))
            x, y, energy = np.where(moved, u, x), np.where(moved, v, y), np.where(moved, new, energy)
            moves += moved
        return x, y, moves

    def loops(start, steps, r):
        end = start.copy()
        moves = np.zeros(len(start), dtype=np.int64)
        for i in range(len(start)):
            x, y = start[i, 0], start[i, 1]
            energy = 0.5 * x**2 + 2 * (y - x**2) ** 2
            for t in range(len(r)):
                u = x + steps[t, i, 0]
                v = y + steps[t, i, 1]
                new = 0.5 * u**2 + 2 * (v - u**2) ** 2
                if new < energy or r[t, i] < math.exp(energy - new):
                    x, y, energy = u, v, new
                    moves[i] += 1
            end[i, 0] = x
            end[i, 1] = y
        return end[:, 0], end[:, 1], moves

    def mixed(start, steps, r):
        x = start.copy()
        moves = np.zeros(len(start), dtype=np.int64)
        for i in range(len(start)):
            energy = 0.5 * x[i, 0] ** 2 + 2 * (x[i, 1] - x[i, 0] ** 2) ** 2
            proposals = steps[:, i]
            for t in range(len(r)):
                u = x[i] + proposals[t]
                new = 0.5 * u[0] ** 2 + 2 * (u[1] - u[0] ** 2) ** 2
                if r[t, i] < np.exp(min(energy - new, 0)):
                    x[i] = u
                    energy = new
                    moves[i] += 1
        return x[:, 0], x[:, 1], moves
