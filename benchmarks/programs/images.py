"""Images: filters, sampling, histograms and morphology."""

from __future__ import annotations

import math

import numpy as np


def _picture(rng, n, m):
    waves = np.add.outer(np.sin(np.arange(n) / 7), np.cos(np.arange(m) / 11))
    return np.clip(0.5 + 0.2 * waves + 0.05 * rng.standard_normal((n, m)), 0, 1)


def _levels(rng, n, m):
    return (255 * _picture(rng, n, m)).astype(np.uint8)


def _box(x, r):
    n, m = x.shape
    padded = np.pad(x, ((r, r), (0, 0)), mode="edge")
    down = np.zeros_like(x)
    for k in range(2 * r + 1):
        down += padded[k : k + n]
    padded = np.pad(down, ((0, 0), (r, r)), mode="edge")
    across = np.zeros_like(x)
    for k in range(2 * r + 1):
        across += padded[:, k : k + m]
    return across / (2 * r + 1) ** 2


def _box_by_elements(x, r):
    n, m = x.shape
    down = np.empty_like(x)
    for j in range(m):
        s = r * x[0, j]
        for i in range(r + 1):
            s += x[min(i, n - 1), j]
        for i in range(n):
            down[i, j] = s / (2 * r + 1)
            s += x[min(i + r + 1, n - 1), j] - x[max(i - r, 0), j]
    across = np.empty_like(x)
    for i in range(n):
        s = r * down[i, 0]
        for j in range(r + 1):
            s += down[i, min(j, m - 1)]
        for j in range(m):
            across[i, j] = s / (2 * r + 1)
            s += down[i, min(j + r + 1, m - 1)] - down[i, max(j - r, 0)]
    return across


def _box_by_rows(x, r):
    n, m = x.shape
    y = np.empty_like(x)
    column = r * x[0]
    for i in range(r + 1):
        column = column + x[min(i, n - 1)]
    for i in range(n):
        sums = np.cumsum(np.pad(column, (r + 1, r), mode="edge"))
        y[i] = (sums[2 * r + 1 :] - sums[:m]) / (2 * r + 1) ** 2
        column = column + x[min(i + r + 1, n - 1)] - x[max(i - r, 0)]
    return y


class gaussian_blur:
    """Blur an image by a kernel along the columns, then along the rows; its edges are repeated."""

    types = 'x: Tensor[("n", "m"), f64], kernel: Tensor[("w",), f64]'
    sizes = (48, 512)

    def draw(rng, n):
        kernel = np.exp(-(np.linspace(-2, 2, 9) ** 2))
        return {"x": _picture(rng, n, n), "kernel": kernel / kernel.sum()}

    def arrays(x, kernel):
        n, m = x.shape
        w = kernel.shape[0]
        r = w // 2
        padded = np.pad(x, ((r, r), (0, 0)), mode="edge")
        down = np.zeros_like(x)
        for k in range(w):
            down += kernel[k] * padded[k : k + n]
        padded = np.pad(down, ((0, 0), (r, r)), mode="edge")
        y = np.zeros_like(x)
        for k in range(w):
            y += kernel[k] * padded[:, k : k + m]
        return y

    def loops(x, kernel):
        n, m = x.shape
        w = kernel.shape[0]
        r = w // 2
        down = np.zeros_like(x)
        for i in range(n):
            for k in range(w):
                row = min(max(i + k - r, 0), n - 1)
                for j in range(m):
                    down[i, j] += kernel[k] * x[row, j]
        y = np.empty_like(x)
        for i in range(n):
            for j in range(m):
                s = 0.0
                for k in range(w):
                    s += kernel[k] * down[i, min(max(j + k - r, 0), m - 1)]
                y[i, j] = s
        return y

    def mixed(x, kernel):
        n, m = x.shape
        r = kernel.shape[0] // 2
        y = np.zeros_like(x)
        for i in range(n):
            row = np.zeros_like(x[0])
            for k, weight in enumerate(kernel):
                row += weight * x[min(max(i + k - r, 0), n - 1)]
            padded = np.pad(row, (r, r), mode="edge")
            for k, weight in enumerate(kernel):
                y[i] += weight * padded[k : k + m]
        return y

    def jax(jax, x, kernel):
        r = kernel.shape[0] // 2
        padded = jax.numpy.pad(x, r, mode="edge")
        down = jax.vmap(lambda v: jax.numpy.convolve(v, kernel, mode="valid"), 1, 1)(padded)
        return jax.vmap(lambda v: jax.numpy.convolve(v, kernel, mode="valid"))(down)


class sobel_edges:
    """Return the strength of the edges of an image by Sobel's operator, less a share of the strongest."""

    types = 'x: Tensor[("n", "m"), f64], share: f64'
    sizes = (64, 1000)

    def draw(rng, n):
        return {"x": _picture(rng, n, n), "share": 0.1}

    def arrays(x, share):
        dx = (x[:-2, 2:] + 2 * x[1:-1, 2:] + x[2:, 2:]) - (x[:-2, :-2] + 2 * x[1:-1, :-2] + x[2:, :-2])
        dy = (x[2:, :-2] + 2 * x[2:, 1:-1] + x[2:, 2:]) - (x[:-2, :-2] + 2 * x[:-2, 1:-1] + x[:-2, 2:])
        strength = np.zeros_like(x)
        strength[1:-1, 1:-1] = np.sqrt(dx**2 + dy**2)
        return np.maximum(strength - share * strength.max(), 0.0)

    def loops(x, share):
        n, m = x.shape
        strength = np.zeros_like(x)
        top = 0.0
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                dx = x[i - 1, j + 1] + 2 * x[i, j + 1] + x[i + 1, j + 1]
                dx -= x[i - 1, j - 1] + 2 * x[i, j - 1] + x[i + 1, j - 1]
                dy = x[i + 1, j - 1] + 2 * x[i + 1, j] + x[i + 1, j + 1]
                dy -= x[i - 1, j - 1] + 2 * x[i - 1, j] + x[i - 1, j + 1]
                strength[i, j] = math.sqrt(dx * dx + dy * dy)
                top = max(top, strength[i, j])
        for i in range(n):
            for j in range(m):
                strength[i, j] = max(strength[i, j] - share * top, 0.0)
        return strength

    def mixed(x, share):
        n = x.shape[0]
        strength = np.zeros_like(x)
        for i in range(1, n - 1):
            smooth = x[i - 1] + 2 * x[i] + x[i + 1]
            steep = x[i + 1] - x[i - 1]
            dx = smooth[2:] - smooth[:-2]
            dy = steep[2:] + 2 * steep[1:-1] + steep[:-2]
            strength[i, 1:-1] = np.sqrt(dx**2 + dy**2)
        lowest = share * strength.max()
        for i in range(n):
            strength[i] = np.maximum(strength[i] - lowest, 0.0)
        return strength

    def jax(jax, x, share):
        smooth, steep = x[:-2] + 2 * x[1:-1] + x[2:], x[2:] - x[:-2]
        dx, dy = smooth[:, 2:] - smooth[:, :-2], steep[:, 2:] + 2 * steep[:, 1:-1] + steep[:, :-2]
        strength = jax.numpy.pad(jax.numpy.sqrt(dx**2 + dy**2), 1)
        return jax.numpy.maximum(strength - share * strength.max(), 0.0)


class guided_filter:
    """Smooth an image along the edges of a guide: a linear model of the guide in each box of a radius."""

    types = 'guide: Tensor[("n", "m"), f64], x: Tensor[("n", "m"), f64], radius: i64, eps: f64'
    sizes = (24, 256)
    single = False  # the size of a box is an i64
    helpers = (_box, _box_by_elements, _box_by_rows)

    def draw(rng, n):
        guide = _picture(rng, n, n)
        x = guide + 0.1 * rng.standard_normal((n, n))
        return {"guide": guide, "x": x, "radius": 3, "eps": 0.01}

    def arrays(guide, x, radius, eps):
        mean_guide, mean_x = _box(guide, radius), _box(x, radius)
        variance = _box(guide * guide, radius) - mean_guide**2
        covariance = _box(guide * x, radius) - mean_guide * mean_x
        a = covariance / (variance + eps)
        b = mean_x - a * mean_guide
        return _box(a, radius) * guide + _box(b, radius)

    def loops(guide, x, radius, eps):
        n, m = x.shape
        squares, products = np.empty_like(x), np.empty_like(x)
        for i in range(n):
            for j in range(m):
                squares[i, j] = guide[i, j] ** 2
                products[i, j] = guide[i, j] * x[i, j]
        mean_guide, mean_x = _box_by_elements(guide, radius), _box_by_elements(x, radius)
        a, b = _box_by_elements(products, radius), _box_by_elements(squares, radius)
        for i in range(n):
            for j in range(m):
                g = mean_guide[i, j]
                a[i, j] = (a[i, j] - g * mean_x[i, j]) / (b[i, j] - g * g + eps)
                b[i, j] = mean_x[i, j] - a[i, j] * g
        mean_a, mean_b = _box_by_elements(a, radius), _box_by_elements(b, radius)
        y = np.empty_like(x)
        for i in range(n):
            for j in range(m):
                y[i, j] = mean_a[i, j] * guide[i, j] + mean_b[i, j]
        return y

    def mixed(guide, x, radius, eps):
        mean_guide, mean_x = _box_by_rows(guide, radius), _box_by_rows(x, radius)
        variance = _box_by_rows(guide * guide, radius) - mean_guide**2
        covariance = _box_by_rows(guide * x, radius) - mean_guide * mean_x
        a = covariance / (variance + eps)
        b = mean_x - a * mean_guide
        return _box_by_rows(a, radius) * guide + _box_by_rows(b, radius)


class rotation:
    """Rotate an image around its middle by an angle, sampled bilinearly; what lies outside is black."""

    types = 'x: Tensor[("n", "m"), f64], angle: f64'
    sizes = (32, 400)

    def draw(rng, n):
        waves = np.add.outer(np.sin(np.arange(n) / 7), np.cos(np.arange(n) / 11))
        return {"x": waves * np.outer(np.hanning(n), np.hanning(n)), "angle": 0.35}

    def arrays(x, angle):
        n, m = x.shape
        c, s = np.cos(angle), np.sin(angle)
        rows = np.arange(n)[:, None] - (n - 1) / 2
        columns = np.arange(m) - (m - 1) / 2
        u = c * rows - s * columns + (n - 1) / 2
        v = s * rows + c * columns + (m - 1) / 2
        inside = (u >= 0) & (u < n - 1) & (v >= 0) & (v < m - 1)
        i = np.where(inside, u, 0).astype(np.int64)
        j = np.where(inside, v, 0).astype(np.int64)
        a, b = u - np.floor(u), v - np.floor(v)
        top = (1 - b) * x[i, j] + b * x[i, j + 1]
        bottom = (1 - b) * x[i + 1, j] + b * x[i + 1, j + 1]
        return np.where(inside, (1 - a) * top + a * bottom, 0.0)

    def loops(x, angle):
        n, m = x.shape
        c, s = math.cos(angle), math.sin(angle)
        y = np.zeros_like(x)
        for p in range(n):
            for q in range(m):
                u = c * (p - (n - 1) / 2) - s * (q - (m - 1) / 2) + (n - 1) / 2
                v = s * (p - (n - 1) / 2) + c * (q - (m - 1) / 2) + (m - 1) / 2
                if 0 <= u < n - 1 and 0 <= v < m - 1:
                    i, j = int(u), int(v)
                    a, b = u - i, v - j
                    top = (1 - b) * x[i, j] + b * x[i, j + 1]
                    bottom = (1 - b) * x[i + 1, j] + b * x[i + 1, j + 1]
                    y[p, q] = (1 - a) * top + a * bottom
        return y

    def mixed(x, angle):
        n, m = x.shape
        c, s = np.cos(angle), np.sin(angle)
        y = np.zeros_like(x)
        columns = np.arange(m) - (m - 1) / 2
        for p in range(n):
            row = p - (n - 1) / 2
            u = c * row - s * columns + (n - 1) / 2
            v = s * row + c * columns + (m - 1) / 2
            inside = (u >= 0) & (u < n - 1) & (v >= 0) & (v < m - 1)
            i = np.where(inside, u, 0).astype(np.int64)
            j = np.where(inside, v, 0).astype(np.int64)
            a, b = u - np.floor(u), v - np.floor(v)
            top = (1 - b) * x[i, j] + b * x[i, j + 1]
            bottom = (1 - b) * x[i + 1, j] + b * x[i + 1, j + 1]
            y[p] = np.where(inside, (1 - a) * top + a * bottom, 0.0)
        return y


class box_sums:
    """Return the mean of an image in each of many rectangles, by its integral image."""

    types = 'x: Tensor[("n", "m"), f64], boxes: Tensor[("k", 4), i64]'
    sizes = (50, 800)
    single = False  # areas are i64

    def draw(rng, n):
        corners = rng.integers(0, n // 2, (10 * n, 2))
        extents = rng.integers(1, n // 2, (10 * n, 2))
        return {"x": _picture(rng, n, n), "boxes": np.hstack([corners, corners + extents])}

    def arrays(x, boxes):
        n, m = x.shape
        sums = np.zeros((n + 1, m + 1))
        sums[1:, 1:] = x.cumsum(axis=0).cumsum(axis=1)
        top, left, bottom, right = boxes.T
        total = sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left]
        return total / ((bottom - top) * (right - left))

    def loops(x, boxes):
        n, m = x.shape
        sums = np.zeros((n + 1, m + 1))
        for i in range(n):
            row = 0.0
            for j in range(m):
                row += x[i, j]
                sums[i + 1, j + 1] = sums[i, j + 1] + row
        means = np.empty(boxes.shape[0])
        for k in range(boxes.shape[0]):
            top, left, bottom, right = boxes[k, 0], boxes[k, 1], boxes[k, 2], boxes[k, 3]
            total = sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left]
            means[k] = total / ((bottom - top) * (right - left))
        return means

    def mixed(x, boxes):
        n, m = x.shape
        sums = np.zeros((n + 1, m + 1))
        for i in range(n):
            sums[i + 1, 1:] = sums[i, 1:] + np.cumsum(x[i])
        means = np.empty(len(boxes))
        for k, (top, left, bottom, right) in enumerate(boxes):
            total = sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left]
            means[k] = total / ((bottom - top) * (right - left))
        return means

    def jax(jax, x, boxes):
        sums = jax.numpy.pad(x.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
        top, left, bottom, right = boxes.T
        total = sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left]
        return total / ((bottom - top) * (right - left))


class equalisation:
    """Spread the grey levels of an image such that their cumulative histogram is straight."""

    types = 'x: Tensor[("n", "m"), u8]'
    sizes = (100, 1600)

    def draw(rng, n):
        return {"x": _levels(rng, n, n)}

    def arrays(x):
        counts = np.bincount(x.ravel(), minlength=256)
        below = np.cumsum(counts)
        lowest = below[below > 0].min()
        table = np.round(255 * (below - lowest) / (x.size - lowest)).clip(0, 255)
        return table.astype(np.uint8)[x]

    def loops(x):
        n, m = x.shape
        counts = np.zeros(256, dtype=np.int64)
        for i in range(n):
            for j in range(m):
                counts[x[i, j]] += 1
        lowest = 0
        below = 0
        table = np.zeros(256, dtype=np.uint8)
        for level in range(256):
            below += counts[level]
            if lowest == 0:
                lowest = below
            if below > lowest:
                table[level] = round(255 * (below - lowest) / (n * m - lowest))
        y = np.empty_like(x)
        for i in range(n):
            for j in range(m):
                y[i, j] = table[x[i, j]]
        return y

    def mixed(x):
        counts = np.zeros(256, dtype=np.int64)
        for row in x:
            counts += np.bincount(row, minlength=256)
        below = np.cumsum(counts)
        lowest = below[np.argmax(below > 0)]
        scaled = 255 * (below - lowest) / (x.size - lowest)
        table = np.maximum(np.round(scaled), 0).astype(np.uint8)
        y = np.empty_like(x)
        for i in range(x.shape[0]):
            y[i] = table[x[i]]
        return y


class otsu_threshold:
    """Return the grey level with the largest variance between dark and bright, and the bright share."""

    types = 'x: Tensor[("n", "m"), u8]'
    sizes = (100, 2000)

    def draw(rng, n):
        return {"x": _levels(rng, n, n)}

    def arrays(x):
        share = np.bincount(x.ravel(), minlength=256) / x.size
        dark = np.cumsum(share)
        moment = np.cumsum(share * np.arange(256))
        spread = dark * (1 - dark)
        between = (moment[-1] * dark - moment) ** 2 / np.where(spread > 1e-12, spread, 1.0)
        level = np.argmax(between)
        return level, np.mean(x > level)

    def loops(x):
        n, m = x.shape
        counts = np.zeros(256, dtype=np.int64)
        for i in range(n):
            for j in range(m):
                counts[x[i, j]] += 1
        mean = 0.0
        for level in range(256):
            mean += level * counts[level] / (n * m)
        best, chosen, white = 0.0, 0, 0
        below, moment = 0, 0.0
        for level in range(256):
            below += counts[level]
            moment += level * counts[level] / (n * m)
            if 0 < below < n * m:
                dark = below / (n * m)
                between = (mean * dark - moment) ** 2 / (dark * (1 - dark))
                if between > best:
                    best, chosen, white = between, level, n * m - below
        return chosen, white / (n * m)

    def mixed(x):
        share = np.bincount(x.ravel(), minlength=256) / x.size
        levels = np.arange(256)
        best, chosen = 0.0, 0
        for level in range(255):
            dark = share[: level + 1].sum()
            bright = share[level + 1 :].sum()
            if dark > 1e-12 and bright > 1e-12:
                low = (share[: level + 1] * levels[: level + 1]).sum() / dark
                high = (share[level + 1 :] * levels[level + 1 :]).sum() / bright
                between = dark * bright * (high - low) ** 2
                if between > best:
                    best, chosen = between, level
        return chosen, np.mean(x > chosen)


class window_convolution:
    """Correlate an image with a small kernel, wherever the kernel lies inside the image."""

    types = 'x: Tensor[("n", "m"), f64], kernel: Tensor[("p", "q"), f64]'
    sizes = (32, 300)

    def draw(rng, n):
        return {"x": _picture(rng, n, n), "kernel": rng.standard_normal((5, 5))}

    def arrays(x, kernel):
        n, m = x.shape
        p, q = kernel.shape
        y = np.zeros((n - p + 1, m - q + 1), dtype=x.dtype)
        for k, h in np.ndindex(p, q):
            y += kernel[k, h] * x[k : k + n - p + 1, h : h + m - q + 1]
        return y

    def loops(x, kernel):
        n, m = x.shape
        p, q = kernel.shape
        y = np.zeros((n - p + 1, m - q + 1), dtype=x.dtype)
        for i in range(n - p + 1):
            for j in range(m - q + 1):
                s = 0.0
                for k in range(p):
                    for h in range(q):
                        s += x[i + k, j + h] * kernel[k, h]
                y[i, j] = s
        return y

    def mixed(x, kernel):
        n, m = x.shape
        p, q = kernel.shape
        y = np.zeros((n - p + 1, m - q + 1), dtype=x.dtype)
        for i in range(n - p + 1):
            for j in range(m - q + 1):
                y[i, j] = np.sum(x[i : i + p, j : j + q] * kernel)
        return y

    def jax(jax, x, kernel):
        return jax.lax.conv(x[None, None], kernel[None, None], (1, 1), "VALID")[0, 0]


class opening:
    """Open an image by a square: the smallest values around each place, then the largest of these."""

    types = 'x: Tensor[("n", "m"), f64], radius: i64'
    sizes = (32, 250)

    def draw(rng, n):
        return {"x": _picture(rng, n, n), "radius": 2}

    def arrays(x, radius):
        n, m = x.shape
        padded = np.pad(x, radius, mode="edge")
        low = x.copy()
        for k in range(2 * radius + 1):
            for h in range(2 * radius + 1):
                low = np.minimum(low, padded[k : k + n, h : h + m])
        padded = np.pad(low, radius, mode="edge")
        high = low.copy()
        for k in range(2 * radius + 1):
            for h in range(2 * radius + 1):
                high = np.maximum(high, padded[k : k + n, h : h + m])
        return high

    def loops(x, radius):
        n, m = x.shape
        low = np.empty_like(x)
        for i in range(n):
            for j in range(m):
                v = x[i, j]
                for k in range(max(i - radius, 0), min(i + radius + 1, n)):
                    for h in range(max(j - radius, 0), min(j + radius + 1, m)):
                        v = min(v, x[k, h])
                low[i, j] = v
        high = np.empty_like(x)
        for i in range(n):
            for j in range(m):
                v = low[i, j]
                for k in range(max(i - radius, 0), min(i + radius + 1, n)):
                    for h in range(max(j - radius, 0), min(j + radius + 1, m)):
                        v = max(v, low[k, h])
                high[i, j] = v
        return high

    def mixed(x, radius):
        n, m = x.shape
        low = np.empty_like(x)
        for i in range(n):
            for j in range(m):
                top, left = max(i - radius, 0), max(j - radius, 0)
                low[i, j] = x[top : i + radius + 1, left : j + radius + 1].min()
        high = np.empty_like(x)
        for i in range(n):
            for j in range(m):
                high[i, j] = low[
                    max(i - radius, 0) : i + radius + 1, max(j - radius, 0) : j + radius + 1
                ].max()
        return high


def _root(parent, i):
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


class component_count:
    """Return how many connected parts a mask has, and the size of the largest."""

    types = 'mask: Tensor[("n", "m"), bool_]'
    sizes = (24, 200)

    def draw(rng, n):
        return {"mask": rng.random((n, n)) < 0.4}

    def arrays(mask):
        n, m = mask.shape
        labels = np.where(mask, np.arange(1, n * m + 1).reshape(n, m), 0)
        changed = True
        while changed:
            padded = np.pad(labels, 1)
            around = np.maximum(np.maximum(padded[:-2, 1:-1], padded[2:, 1:-1]), padded[1:-1, :-2])
            spread = np.where(mask, np.maximum(labels, np.maximum(around, padded[1:-1, 2:])), 0)
            changed = np.any(spread != labels)
            labels = spread
        counts = np.bincount(labels.ravel())[1:]
        return np.count_nonzero(counts), counts.max()

    def loops(mask):
        n, m = mask.shape
        seen = np.zeros((n, m), dtype=np.bool_)
        stack = np.empty(n * m, dtype=np.int64)
        parts, largest = 0, 0
        for i in range(n):
            for j in range(m):
                if not mask[i, j] or seen[i, j]:
                    continue
                parts += 1
                size, depth = 0, 1
                stack[0] = i * m + j
                seen[i, j] = True
                while depth > 0:
                    depth -= 1
                    size += 1
                    p, q = stack[depth] // m, stack[depth] % m
                    for k, h in ((p - 1, q), (p + 1, q), (p, q - 1), (p, q + 1)):
                        if 0 <= k < n and 0 <= h < m and mask[k, h] and not seen[k, h]:
                            seen[k, h] = True
                            stack[depth] = k * m + h
                            depth += 1
                largest = max(largest, size)
        return parts, largest

    def mixed(mask):
        n, m = mask.shape
        labels = np.where(mask, np.arange(1, n * m + 1).reshape(n, m), 0)
        changed = True
        while changed:
            before = labels.copy()
            for i in range(1, n):
                labels[i] = np.where(mask[i], np.maximum(labels[i], labels[i - 1]), 0)
            for i in range(n - 2, -1, -1):
                labels[i] = np.where(mask[i], np.maximum(labels[i], labels[i + 1]), 0)
            for j in range(1, m):
                labels[:, j] = np.where(mask[:, j], np.maximum(labels[:, j], labels[:, j - 1]), 0)
            for j in range(m - 2, -1, -1):
                labels[:, j] = np.where(mask[:, j], np.maximum(labels[:, j], labels[:, j + 1]), 0)
            changed = (labels != before).any()
        counts = np.bincount(labels.ravel(), minlength=n * m + 1)[1:]
        return (counts > 0).sum(), counts.max()


class bilateral_filter:
    """Smooth an image by weights of the distance and of the difference in brightness."""

    types = 'x: Tensor[("n", "m"), f64], radius: i64, near: f64, alike: f64'
    sizes = (16, 150)

    def draw(rng, n):
        return {"x": _picture(rng, n, n), "radius": 2, "near": 1.5, "alike": 0.1}

    def arrays(x, radius, near, alike):
        n, m = x.shape
        padded = np.pad(x, radius, mode="reflect")
        total, weights = np.zeros_like(x), np.zeros_like(x)
        for k in range(-radius, radius + 1):
            for h in range(-radius, radius + 1):
                shifted = padded[radius + k : radius + k + n, radius + h : radius + h + m]
                weight = np.exp(-(k**2 + h**2) / (2 * near**2) - (shifted - x) ** 2 / (2 * alike**2))
                total += weight * shifted
                weights += weight
        return total / weights

    def loops(x, radius, near, alike):
        n, m = x.shape
        y = np.empty_like(x)
        for i in range(n):
            for j in range(m):
                total, weights = 0.0, 0.0
                for k in range(-radius, radius + 1):
                    p = abs(i + k)
                    p = min(p, 2 * (n - 1) - p)
                    for h in range(-radius, radius + 1):
                        q = abs(j + h)
                        q = min(q, 2 * (m - 1) - q)
                        d = x[p, q] - x[i, j]
                        weight = math.exp(-(k**2 + h**2) / (2 * near**2) - d**2 / (2 * alike**2))
                        total += weight * x[p, q]
                        weights += weight
                y[i, j] = total / weights
        return y

    def mixed(x, radius, near, alike):
        n, m = x.shape
        distance = np.empty((2 * radius + 1, 2 * radius + 1), dtype=x.dtype)
        for k in range(-radius, radius + 1):
            for h in range(-radius, radius + 1):
                distance[radius + k, radius + h] = np.exp(-(k**2 + h**2) / (2 * near**2))
        padded = np.pad(x, radius, mode="reflect")
        y = np.empty_like(x)
        for i in range(n):
            for j in range(m):
                window = padded[i : i + 2 * radius + 1, j : j + 2 * radius + 1]
                weight = distance * np.exp(-((window - x[i, j]) ** 2) / (2 * alike**2))
                y[i, j] = np.sum(weight * window) / np.sum(weight)
        return y
