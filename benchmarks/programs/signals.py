"""Signals: filters, spectra, wavelets and resampling."""

from __future__ import annotations

import math

import numpy as np


def _tone(rng, n):
    return np.sin(np.arange(n) / 9) + 0.3 * rng.standard_normal(n)


class fir_filter:
    """Filter a signal by a finite impulse response; before its beginning it is zero."""

    types = 'x: Tensor[("n",), f64], taps: Tensor[("k",), f64]'
    sizes = (500, 50000)

    def draw(rng, n):
        taps = np.sinc(0.3 * (np.arange(41) - 20)) * np.hamming(41)
        return {"x": _tone(rng, n), "taps": taps / taps.sum()}

    def arrays(x, taps):
        return np.convolve(x, taps)[: x.shape[0]]

    def loops(x, taps):
        y = np.zeros_like(x)
        for i in range(x.shape[0]):
            s = 0.0
            for k in range(min(i + 1, taps.shape[0])):
                s += taps[k] * x[i - k]
            y[i] = s
        return y

    def mixed(x, taps):
        n = x.shape[0]
        y = np.zeros_like(x)
        for k in range(taps.shape[0]):
            y[k:] += taps[k] * x[: n - k]
        return y

    def jax(jax, x, taps):
        return jax.numpy.convolve(x, taps)[: x.shape[0]]


class adaptive_filter:
    """Cancel an echo by normalised least mean squares with so many taps; return the error and the taps."""

    types = 'x: Tensor[("n",), f64], heard: Tensor[("n",), f64], taps: i64, rate: f64'
    sizes = (300, 10000)

    def draw(rng, n):
        x = rng.standard_normal(n)
        echo = np.convolve(x, 0.7 ** np.arange(12))[:n]
        return {"x": x, "heard": echo + 0.01 * rng.standard_normal(n), "taps": 24, "rate": 0.5}

    def arrays(x, heard, taps, rate):
        n = x.shape[0]
        windows = x[np.arange(taps - 1, n)[:, None] - np.arange(taps)]
        powers = np.sum(windows * windows, axis=1) + 0.001
        w = np.zeros_like(windows[0])
        error = np.zeros_like(x)
        for i, window in enumerate(windows):
            error[i + taps - 1] = heard[i + taps - 1] - w @ window
            w += rate * error[i + taps - 1] / powers[i] * window
        return error, w

    def loops(x, heard, taps, rate):
        n = x.shape[0]
        w = np.zeros(taps, dtype=x.dtype)
        error = np.zeros_like(x)
        for i in range(taps - 1, n):
            estimate, power = 0.0, 0.001
            for k in range(taps):
                estimate += w[k] * x[i - k]
                power += x[i - k] ** 2
            error[i] = heard[i] - estimate
            for k in range(taps):
                w[k] += rate * error[i] / power * x[i - k]
        return error, w

    def mixed(x, heard, taps, rate):
        n = x.shape[0]
        w = np.zeros(taps, dtype=x.dtype)
        error = np.zeros_like(x)
        for i in range(taps - 1, n):
            window = x[i - taps + 1 : i + 1][::-1]
            error[i] = heard[i] - np.dot(w, window)
            w += rate * error[i] / (np.dot(window, window) + 0.001) * window
        return error, w


def _fft(z):
    n = z.shape[0]
    j = 0
    for i in range(1, n):
        bit = n >> 1
        while j & bit:
            j ^= bit
            bit >>= 1
        j ^= bit
        if i < j:
            z[i], z[j] = z[j], z[i]
    half = 1
    while half < n:
        turn = np.exp(-1j * np.pi / half)
        for start in range(0, n, 2 * half):
            w = 1.0 + 0.0j
            for k in range(start, start + half):
                odd = w * z[k + half]
                z[k + half] = z[k] - odd
                z[k] += odd
                w *= turn
        half *= 2


class spectrogram:
    """Return the power at each frequency in overlapping frames of a signal, each a power of two long."""

    types = 'x: Tensor[("n",), f64], window: Tensor[("w",), f64], hop: i64'
    sizes = (512, 50000)
    helpers = (_fft,)

    def draw(rng, n):
        return {"x": np.sin(np.arange(n) ** 1.3 / 20), "window": np.hanning(128), "hop": 64}

    def arrays(x, window, hop):
        w = window.shape[0]
        frames = (x.shape[0] - w) // hop + 1
        places = hop * np.arange(frames)[:, None] + np.arange(w)
        return np.abs(np.fft.rfft(x[places] * window, axis=1)) ** 2

    def loops(x, window, hop):
        w = window.shape[0]
        frames = (x.shape[0] - w) // hop + 1
        power = np.zeros((frames, w // 2 + 1), dtype=x.dtype)
        z = np.zeros(w, dtype=np.complex128)
        for i in range(frames):
            for k in range(w):
                z[k] = x[i * hop + k] * window[k]
            _fft(z)
            for k in range(w // 2 + 1):
                power[i, k] = z[k].real ** 2 + z[k].imag ** 2
        return power

    def mixed(x, window, hop):
        w = window.shape[0]
        frames = (x.shape[0] - w) // hop + 1
        power = np.zeros((frames, w // 2 + 1), dtype=x.dtype)
        for i in range(frames):
            spectrum = np.fft.rfft(x[i * hop : i * hop + w] * window)
            power[i] = spectrum.real**2 + spectrum.imag**2
        return power


class haar_wavelet:
    """Split a signal into levels of Haar's wavelet: the smooth rest, then the details from coarse to fine."""

    types = 'x: Tensor[("n",), f64], levels: i64'
    sizes = (1024, 262144)

    def draw(rng, n):
        return {"x": _tone(rng, n), "levels": 8}

    def arrays(x, levels):
        y = np.empty_like(x)
        smooth = x
        for _ in range(levels):
            even, odd = smooth[::2], smooth[1::2]
            half = even.shape[0]
            y[half : 2 * half] = (even - odd) * np.sqrt(0.5)
            smooth = (even + odd) * np.sqrt(0.5)
        y[: smooth.shape[0]] = smooth
        return y

    def loops(x, levels):
        scale = math.sqrt(0.5)
        y = x.copy()
        smooth = x.copy()
        half = x.shape[0]
        for _ in range(levels):
            half //= 2
            for i in range(half):
                even, odd = smooth[2 * i], smooth[2 * i + 1]
                y[half + i] = (even - odd) * scale
                smooth[i] = (even + odd) * scale
        for i in range(half):
            y[i] = smooth[i]
        return y

    def mixed(x, levels):
        y = x.copy()
        n = x.shape[0]
        for _ in range(levels):
            even, odd = y[:n:2].copy(), y[1:n:2].copy()
            n //= 2
            y[:n] = (even + odd) * math.sqrt(0.5)
            y[n : 2 * n] = (even - odd) * math.sqrt(0.5)
        return y


class biquad_cascade:
    """Filter channels by second-order sections in cascade; each has its six coefficients in a row."""

    types = 'x: Tensor[("n", "c"), f64], sections: Tensor[("k", 6), f64]'
    sizes = (40, 4000)

    def draw(rng, n):
        angles = np.array([0.3, 0.5, 0.9])
        ones, radius = np.ones(3), 0.9
        columns = [0.1 * ones, 0.2 * ones, 0.1 * ones, ones, -2 * radius * np.cos(angles), radius**2 * ones]
        return {"x": rng.standard_normal((n, 32)), "sections": np.stack(columns, axis=1)}

    def arrays(x, sections):
        y = x.copy()
        for b0, b1, b2, _, a1, a2 in sections:
            first, second = np.zeros_like(x[0]), np.zeros_like(x[0])
            for t in range(x.shape[0]):
                value = y[t].copy()
                y[t] = b0 * value + first
                first = b1 * value - a1 * y[t] + second
                second = b2 * value - a2 * y[t]
        return y

    def loops(x, sections):
        n, channels = x.shape
        y = np.empty_like(x)
        state = np.zeros((sections.shape[0], 2, channels), dtype=x.dtype)
        for t in range(n):
            for c in range(channels):
                v = x[t, c]
                for k in range(sections.shape[0]):
                    w = sections[k, 0] * v + state[k, 0, c]
                    state[k, 0, c] = sections[k, 1] * v - sections[k, 4] * w + state[k, 1, c]
                    state[k, 1, c] = sections[k, 2] * v - sections[k, 5] * w
                    v = w
                y[t, c] = v
        return y

    def mixed(x, sections):
        y = np.empty_like(x)
        first = np.zeros((sections.shape[0], x.shape[1]), dtype=x.dtype)
        second = np.zeros_like(first)
        for t in range(x.shape[0]):
            row = x[t]
            for k, (b0, b1, b2, _, a1, a2) in enumerate(sections):
                filtered = b0 * row + first[k]
                first[k] = b1 * row - a1 * filtered + second[k]
                second[k] = b2 * row - a2 * filtered
                row = filtered
            y[t] = row
        return y


class autocorrelation:
    """Return the autocorrelation of a signal for the lags below a number."""

    types = 'x: Tensor[("n",), f64], lags: i64'
    sizes = (500, 20000)

    def draw(rng, n):
        return {"x": _tone(rng, n), "lags": n // 100}

    def arrays(x, lags):
        d = x - x.mean()
        r = np.correlate(np.pad(d, (0, lags - 1)), d, mode="valid")
        return r / r[0]

    def loops(x, lags):
        n = x.shape[0]
        mean = 0.0
        for i in range(n):
            mean += x[i]
        mean /= n
        d = np.empty_like(x)
        for i in range(n):
            d[i] = x[i] - mean
        r = np.zeros(lags, dtype=x.dtype)
        for lag in range(lags):
            s = 0.0
            for i in range(n - lag):
                s += d[i] * d[i + lag]
            r[lag] = s / r[0] if lag else s
        r[0] = 1.0
        return r

    def mixed(x, lags):
        n = x.shape[0]
        d = x - np.mean(x)
        r = np.empty(lags, dtype=x.dtype)
        for lag in range(lags):
            r[lag] = d[: n - lag] @ d[lag:]
        return r / (d @ d)


class downsampling:
    """Return the mean, the smallest and the largest value of each block of a signal; the rest is dropped."""

    types = 'x: Tensor[("n",), f64], block: i64'
    sizes = (5000, 1000003)
    single = False  # the size of a block is an i64

    def draw(rng, n):
        return {"x": _tone(rng, n), "block": 50}

    def arrays(x, block):
        blocks = x.shape[0] // block
        y = x[: blocks * block].reshape(blocks, block)
        return y.mean(axis=1), y.min(axis=1), y.max(axis=1)

    def loops(x, block):
        blocks = x.shape[0] // block
        mean = np.empty(blocks, dtype=x.dtype)
        low = np.empty(blocks, dtype=x.dtype)
        high = np.empty(blocks, dtype=x.dtype)
        for i in range(blocks):
            total = 0.0
            low[i] = high[i] = x[i * block]
            for k in range(i * block, (i + 1) * block):
                total += x[k]
                low[i] = min(low[i], x[k])
                high[i] = max(high[i], x[k])
            mean[i] = total / block
        return mean, low, high

    def mixed(x, block):
        blocks = x.shape[0] // block
        mean, low, high = (np.empty(blocks, dtype=x.dtype) for _ in range(3))
        for i in range(blocks):
            part = x[i * block : (i + 1) * block]
            mean[i], low[i], high[i] = part.mean(), part.min(), part.max()
        return mean, low, high


class signal_runs:
    """Return the values of the runs of equal numbers, and their lengths."""

    types = 'x: Tensor[("n",), i64]'
    sizes = (5000, 1000000)

    def draw(rng, n):
        return {"x": rng.integers(0, 3, n)}

    def arrays(x):
        starts = np.concatenate([np.zeros(1, dtype=np.int64), np.flatnonzero(x[1:] != x[:-1]) + 1])
        return x[starts], np.diff(starts, append=x.shape[0])

    def loops(x):
        n = x.shape[0]
        values, lengths = np.empty_like(x), np.empty_like(x)
        runs = 0
        for i in range(n):
            if i > 0 and x[i] == x[i - 1]:
                lengths[runs - 1] += 1
            else:
                values[runs] = x[i]
                lengths[runs] = 1
                runs += 1
        return values[:runs], lengths[:runs]

    def mixed(x):
        ends = np.append(np.nonzero(np.diff(x))[0] + 1, len(x))
        values, lengths = np.empty_like(ends), np.empty_like(ends)
        start = 0
        for k, end in enumerate(ends):
            values[k] = x[start]
            lengths[k] = end - start
            start = end
        return values, lengths


class median_filter:
    """Replace each value by the median of an odd number of values around it, as far as these exist."""

    types = 'x: Tensor[("n",), f64], width: i64'
    sizes = (200, 10000)

    def draw(rng, n):
        return {"x": _tone(rng, n), "width": 9}

    def arrays(x, width):
        places = np.arange(x.shape[0] - width + 1)[:, None] + np.arange(width)
        return np.median(x[places], axis=1)

    def loops(x, width):
        n = x.shape[0]
        y = np.empty(n - width + 1, dtype=x.dtype)
        window = np.sort(x[:width])
        y[0] = window[width // 2]
        for i in range(1, n - width + 1):
            old, new = x[i - 1], x[i + width - 1]
            k = 0
            while window[k] != old:
                k += 1
            while k > 0 and window[k - 1] > new:
                window[k] = window[k - 1]
                k -= 1
            while k < width - 1 and window[k + 1] < new:
                window[k] = window[k + 1]
                k += 1
            window[k] = new
            y[i] = window[width // 2]
        return y

    def mixed(x, width):
        n = x.shape[0]
        y = np.empty(n - width + 1, dtype=x.dtype)
        for i in range(n - width + 1):
            y[i] = np.sort(x[i : i + width])[width // 2]
        return y


class tone_detector:
    """Return the power of a signal at some frequencies, in radians per sample, by Goertzel's recurrence."""

    types = 'x: Tensor[("n",), f64], frequencies: Tensor[("k",), f64]'
    sizes = (200, 4000)

    def draw(rng, n):
        return {"x": _tone(rng, n), "frequencies": np.linspace(0.5, 1.5, 40)}

    def arrays(x, frequencies):
        n = x.shape[0]
        waves = np.exp(1j * np.outer(frequencies, np.arange(n)))
        return np.abs(waves @ x) ** 2 / n

    def loops(x, frequencies):
        n = x.shape[0]
        power = np.empty_like(frequencies)
        for k in range(frequencies.shape[0]):
            c = 2 * math.cos(frequencies[k])
            s1, s2 = 0.0, 0.0
            for i in range(n):
                s1, s2 = x[i] + c * s1 - s2, s1
            power[k] = (s1 * s1 + s2 * s2 - c * s1 * s2) / n
        return power

    def mixed(x, frequencies):
        c = 2 * np.cos(frequencies)
        s1, s2 = np.zeros_like(c), np.zeros_like(c)
        for value in x:
            s1, s2 = value + c * s1 - s2, s1
        return (s1**2 + s2**2 - c * s1 * s2) / len(x)

    def jax(jax, x, frequencies):
        waves = jax.numpy.exp(1j * jax.numpy.outer(frequencies, jax.numpy.arange(x.shape[0])))
        return jax.numpy.abs(waves @ x) ** 2 / x.shape[0]
