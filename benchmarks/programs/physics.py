"""Physics: fields on grids, particles, lattices and equations of motion."""

from __future__ import annotations

import math

import numpy as np


class heat_equation:
    """Diffuse heat in a plate whose rim is kept at its temperature, by explicit steps."""

    types = 'u: Tensor[("n", "m"), f64], alpha: f64, steps: i64'
    sizes = (40, 300)

    def draw(rng, n):
        return {"u": rng.random((n, n)), "alpha": 0.2, "steps": 20}

    def arrays(u, alpha, steps):
        u = u.copy()
        for _ in range(steps):
            around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            u[1:-1, 1:-1] += alpha * (around - 4 * u[1:-1, 1:-1])
        return u

    def loops(u, alpha, steps):
        n, m = u.shape
        old = u.copy()
        new = u.copy()
        for _ in range(steps):
            for i in range(1, n - 1):
                for j in range(1, m - 1):
                    around = old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1]
                    new[i, j] = old[i, j] + alpha * (around - 4 * old[i, j])
            old, new = new, old
        return old

    def mixed(u, alpha, steps):
        u = u.copy()
        for _ in range(steps):
            before = u.copy()
            for i in range(1, len(u) - 1):
                row = before[i]
                around = before[i - 1, 1:-1] + before[i + 1, 1:-1] + row[:-2] + row[2:]
                u[i, 1:-1] = row[1:-1] + alpha * (around - 4 * row[1:-1])
        return u

    def jax(jax, u, alpha, steps):
        def step(_, u):
            around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            return u.at[1:-1, 1:-1].add(alpha * (around - 4 * u[1:-1, 1:-1]))

        return jax.lax.fori_loop(0, steps, step, u)


class plucked_string:
    """Return the motion of a string with fixed ends, a row for each time."""

    types = 'shape: Tensor[("n",), f64], courant: f64, steps: i64'
    sizes = (200, 1500)

    def draw(rng, n):
        x = np.linspace(0.0, 1.0, n)
        return {"shape": np.minimum(x / 0.3, (1 - x) / 0.7), "courant": 0.9, "steps": n}

    def arrays(shape, courant, steps):
        c = courant**2
        before = shape.copy()
        now = shape.copy()
        now[1:-1] += 0.5 * c * np.diff(shape, n=2)
        history = [before, now]
        for _ in range(steps):
            after = 2 * now - before
            after[1:-1] += c * np.diff(now, n=2)
            after[0] = 0.0
            after[-1] = 0.0
            history.append(after)
            before, now = now, after
        return np.array(history)

    def loops(shape, courant, steps):
        n = len(shape)
        c = courant**2
        history = np.zeros((steps + 2, n), dtype=shape.dtype)
        for i in range(n):
            history[0, i] = shape[i]
            history[1, i] = shape[i]
        for i in range(1, n - 1):
            history[1, i] += 0.5 * c * (shape[i + 1] - 2 * shape[i] + shape[i - 1])
        for t in range(1, steps + 1):
            for i in range(1, n - 1):
                bend = history[t, i + 1] - 2 * history[t, i] + history[t, i - 1]
                history[t + 1, i] = 2 * history[t, i] - history[t - 1, i] + c * bend
        return history

    def mixed(shape, courant, steps):
        c = courant**2
        history = np.zeros((steps + 2, len(shape)), dtype=shape.dtype)
        history[0] = shape
        history[1] = shape
        history[1, 1:-1] += 0.5 * c * (shape[2:] - 2 * shape[1:-1] + shape[:-2])
        for t in range(1, steps + 1):
            u = history[t]
            bend = u[2:] - 2 * u[1:-1] + u[:-2]
            history[t + 1, 1:-1] = 2 * u[1:-1] - history[t - 1, 1:-1] + c * bend
        return history


class gravity:
    """Return the accelerations of stars and their potential energy, with softened forces."""

    types = 'x: Tensor[("n", 3), f64], mass: Tensor[("n",), f64], softening: f64'
    sizes = (60, 700)

    def draw(rng, n):
        return {"x": rng.standard_normal((n, 3)), "mass": rng.uniform(0.5, 2.0, n), "softening": 0.05}

    def arrays(x, mass, softening):
        d = x[None, :, :] - x[:, None, :]
        r2 = (d**2).sum(axis=-1) + softening**2
        inverse = 1 / np.sqrt(r2)
        acceleration = (d * (mass * inverse**3)[:, :, None]).sum(axis=1)
        pairs = np.outer(mass, mass) * inverse
        return acceleration, -0.5 * (pairs.sum() - np.trace(pairs))

    def loops(x, mass, softening):
        n = len(x)
        acceleration = np.zeros_like(x)
        energy = 0.0
        for i in range(n):
            ax, ay, az = 0.0, 0.0, 0.0
            for j in range(n):
                dx = x[j, 0] - x[i, 0]
                dy = x[j, 1] - x[i, 1]
                dz = x[j, 2] - x[i, 2]
                inverse = 1 / math.sqrt(dx * dx + dy * dy + dz * dz + softening * softening)
                pull = mass[j] * inverse * inverse * inverse
                ax += pull * dx
                ay += pull * dy
                az += pull * dz
                if j < i:
                    energy -= mass[i] * mass[j] * inverse
            acceleration[i, 0] = ax
            acceleration[i, 1] = ay
            acceleration[i, 2] = az
        return acceleration, energy

    def mixed(x, mass, softening):
        acceleration = np.zeros_like(x)
        energy = 0.0
        for i in range(len(x)):
            d = x - x[i]
            inverse = 1 / np.sqrt((d**2).sum(axis=1) + softening**2)
            acceleration[i] = (mass * inverse**3) @ d
            energy -= mass[i] * (mass[:i] @ inverse[:i])
        return acceleration, energy

    def jax(jax, x, mass, softening):
        jnp = jax.numpy
        d = x[None, :, :] - x[:, None, :]
        inverse = 1 / jnp.sqrt((d**2).sum(axis=-1) + softening**2)
        acceleration = (d * (mass * inverse**3)[:, :, None]).sum(axis=1)
        pairs = jnp.outer(mass, mass) * inverse
        return acceleration, -0.5 * (pairs.sum() - jnp.trace(pairs))


class random_walks:
    """Return the mean square distance of walkers over time, and when each one first comes to a barrier."""

    types = 'r: Tensor[("walkers", "t"), f64], barrier: f64'
    sizes = (100, 1000)
    single = False  # its places are f64 beside the barrier

    def draw(rng, n):
        return {"r": rng.random((n, n)), "barrier": 10.0}

    def arrays(r, barrier):
        x = np.cumsum(np.where(r < 0.5, -1.0, 1.0), axis=1)
        arrived = x >= barrier
        first = np.where(arrived.any(axis=1), arrived.argmax(axis=1), r.shape[1])
        return (x**2).mean(axis=0), first

    def loops(r, barrier):
        walkers, t = r.shape
        spread = np.zeros(t)
        first = np.empty(walkers, dtype=np.int64)
        for i in range(walkers):
            x = 0.0
            first[i] = t
            for j in range(t):
                x += -1.0 if r[i, j] < 0.5 else 1.0
                spread[j] += x * x
                if x >= barrier and first[i] == t:
                    first[i] = j
        for j in range(t):
            spread[j] /= walkers
        return spread, first

    def mixed(r, barrier):
        walkers, t = r.shape
        spread = np.zeros(t)
        first = np.full(walkers, t)
        for i in range(walkers):
            x = np.cumsum(np.where(r[i] < 0.5, -1.0, 1.0))
            spread += x**2
            arrived = x >= barrier
            if arrived.any():
                first[i] = np.argmax(arrived)
        return spread / walkers, first

    def jax(jax, r, barrier):
        jnp = jax.numpy
        x = jnp.cumsum(jnp.where(r < 0.5, -1.0, 1.0), axis=1)
        arrived = x >= barrier
        first = jnp.where(arrived.any(axis=1), arrived.argmax(axis=1), r.shape[1])
        return (x**2).mean(axis=0), first


class lattice_gas:
    """Move particles on a square lattice; two that meet head on leave at right angles."""

    types = (
        'east: Tensor[("n", "m"), bool_], north: Tensor[("n", "m"), bool_], '
        'west: Tensor[("n", "m"), bool_], south: Tensor[("n", "m"), bool_], steps: i64'
    )
    sizes = (30, 200)

    def draw(rng, n):
        drawn = {name: rng.random((n, n)) < 0.3 for name in ("east", "north", "west", "south")}
        return drawn | {"steps": 10}

    def arrays(east, north, west, south, steps):
        for _ in range(steps):
            swap = ((east & west) & ~(north | south)) | ((north & south) & ~(east | west))
            east, west = np.roll(east ^ swap, 1, axis=1), np.roll(west ^ swap, -1, axis=1)
            north, south = np.roll(north ^ swap, -1, axis=0), np.roll(south ^ swap, 1, axis=0)
        return east, north, west, south

    def loops(east, north, west, south, steps):
        n, m = east.shape
        e, no, w, s = east.copy(), north.copy(), west.copy(), south.copy()
        e2, n2, w2, s2 = east.copy(), north.copy(), west.copy(), south.copy()
        for _ in range(steps):
            for i in range(n):
                up = i - 1 if i > 0 else n - 1
                down = i + 1 if i < n - 1 else 0
                for j in range(m):
                    left = j - 1 if j > 0 else m - 1
                    right = j + 1 if j < m - 1 else 0
                    swap = e[i, j] == w[i, j] and no[i, j] == s[i, j] and e[i, j] != no[i, j]
                    e2[i, right] = e[i, j] != swap
                    w2[i, left] = w[i, j] != swap
                    n2[up, j] = no[i, j] != swap
                    s2[down, j] = s[i, j] != swap
            e, e2 = e2, e
            no, n2 = n2, no
            w, w2 = w2, w
            s, s2 = s2, s
        return e, no, w, s

    def mixed(east, north, west, south, steps):
        n = len(east)
        for _ in range(steps):
            e, no, w, s = east.copy(), north.copy(), west.copy(), south.copy()
            for i in range(n):
                swap = (east[i] == west[i]) & (north[i] == south[i]) & (east[i] != north[i])
                e[i] = np.roll(east[i] ^ swap, 1)
                w[i] = np.roll(west[i] ^ swap, -1)
                no[(i - 1) % n] = north[i] ^ swap
                s[(i + 1) % n] = south[i] ^ swap
            east, north, west, south = e, no, w, s
        return east, north, west, south

    def jax(jax, east, north, west, south, steps):
        roll = jax.numpy.roll

        def step(_, state):
            east, north, west, south = state
            swap = ((east & west) & ~(north | south)) | ((north & south) & ~(east | west))
            return (
                roll(east ^ swap, 1, axis=1),
                roll(north ^ swap, -1, axis=0),
                roll(west ^ swap, -1, axis=1),
                roll(south ^ swap, 1, axis=0),
            )

        return jax.lax.fori_loop(0, steps, step, (east, north, west, south))


class ising:
    """Sweep over a magnet, first its black and then its white fields; return it and each magnetisation."""

    types = 'spins: Tensor[("n", "n"), i64], r: Tensor[("sweeps", "n", "n"), f64], beta: f64'
    sizes = (24, 160)
    single = False  # its spins are i64 among floats

    def draw(rng, n):
        return {"spins": rng.choice([-1, 1], (n, n)), "r": rng.random((8, n, n)), "beta": 0.44}

    def arrays(spins, r, beta):
        i = np.arange(len(spins))
        black = np.add.outer(i, i) % 2 == 0
        magnetisation = np.zeros(len(r))
        for t in range(len(r)):
            for color in (black, ~black):
                around = np.roll(spins, 1, axis=0) + np.roll(spins, -1, axis=0)
                around += np.roll(spins, 1, axis=1) + np.roll(spins, -1, axis=1)
                flipped = color & (r[t] < np.exp(-2 * beta * spins * around))
                spins = np.where(flipped, -spins, spins)
            magnetisation[t] = spins.mean()
        return spins, magnetisation

    def loops(spins, r, beta):
        n = len(spins)
        s = spins.copy()
        magnetisation = np.zeros(len(r))
        for t in range(len(r)):
            for color in range(2):
                for i in range(n):
                    for j in range((i + color) % 2, n, 2):
                        around = s[(i + 1) % n, j] + s[(i - 1) % n, j] + s[i, (j + 1) % n] + s[i, (j - 1) % n]
                        cost = 2 * s[i, j] * around
                        if cost <= 0 or r[t, i, j] < math.exp(-beta * cost):
                            s[i, j] = -s[i, j]
            total = 0
            for i in range(n):
                for j in range(n):
                    total += s[i, j]
            magnetisation[t] = total / (n * n)
        return s, magnetisation

    def mixed(spins, r, beta):
        n = len(spins)
        s = spins.copy()
        magnetisation = np.zeros(len(r))
        columns = np.arange(n)
        for t in range(len(r)):
            for color in range(2):
                for i in range(n):
                    around = s[(i - 1) % n] + s[(i + 1) % n] + np.roll(s[i], 1) + np.roll(s[i], -1)
                    accepted = r[t, i] < np.exp(-2 * beta * s[i] * around)
                    s[i] = np.where(accepted & ((i + columns) % 2 == color), -s[i], s[i])
            magnetisation[t] = s.sum() / (n * n)
        return s, magnetisation


def _lorenz(p):
    x, y, z = p
    return np.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z])


def _lorenz_of_numbers(x, y, z):
    return 10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z


class runge_kutta:
    """Follow a cloud of points along the flow of Lorenz."""

    types = 'start: Tensor[(3, "n"), f64], h: f64, steps: i64'
    sizes = (30, 2000)
    helpers = (_lorenz, _lorenz_of_numbers)

    def draw(rng, n):
        return {"start": 10 * rng.standard_normal((3, n)), "h": 0.005, "steps": 40}

    def arrays(start, h, steps):
        p = start.copy()
        for _ in range(steps):
            k1 = _lorenz(p)
            k2 = _lorenz(p + 0.5 * h * k1)
            k3 = _lorenz(p + 0.5 * h * k2)
            k4 = _lorenz(p + h * k3)
            p = p + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return p

    def loops(start, h, steps):
        end = np.empty_like(start)
        half = 0.5 * h
        for i in range(start.shape[1]):
            x, y, z = start[0, i], start[1, i], start[2, i]
            for _ in range(steps):
                a1, b1, c1 = _lorenz_of_numbers(x, y, z)
                a2, b2, c2 = _lorenz_of_numbers(x + half * a1, y + half * b1, z + half * c1)
                a3, b3, c3 = _lorenz_of_numbers(x + half * a2, y + half * b2, z + half * c2)
                a4, b4, c4 = _lorenz_of_numbers(x + h * a3, y + h * b3, z + h * c3)
                x += h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
                y += h / 6 * (b1 + 2 * b2 + 2 * b3 + b4)
                z += h / 6 * (c1 + 2 * c2 + 2 * c3 + c4)
            end[0, i] = x
            end[1, i] = y
            end[2, i] = z
        return end

    def mixed(start, h, steps):
        end = np.empty_like(start)
        for i in range(start.shape[1]):
            p = start[:, i]
            for _ in range(steps):
                k1 = _lorenz(p)
                k2 = _lorenz(p + 0.5 * h * k1)
                k3 = _lorenz(p + 0.5 * h * k2)
                k4 = _lorenz(p + h * k3)
                p = p + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            end[:, i] = p
        return end

    def jax(jax, start, h, steps):
        def flow(p):
            x, y, z = p
            return jax.numpy.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z])

        def step(_, p):
            k1 = flow(p)
            k2 = flow(p + 0.5 * h * k1)
            k3 = flow(p + 0.5 * h * k2)
            k4 = flow(p + h * k3)
            return p + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

        return jax.lax.fori_loop(0, steps, step, start)


class mandelbrot:
    """Count the rounds until each point of the plane escapes."""

    types = 'x: Tensor[("m",), f64], y: Tensor[("n",), f64], rounds: i64'
    sizes = (24, 300)
    single = False  # what escapes late depends on the last digits

    def draw(rng, n):
        return {"x": np.linspace(-2.1, 0.7, n), "y": np.linspace(-1.3, 1.2, n), "rounds": 30}

    def arrays(x, y, rounds):
        c = x[None, :] + 1j * y[:, None]
        z = np.zeros_like(c)
        count = np.zeros(c.shape, dtype=np.int64)
        for _ in range(rounds):
            inside = z.real**2 + z.imag**2 < 4
            z = np.where(inside, z * z + c, z)
            count += inside
        return count

    def loops(x, y, rounds):
        count = np.zeros((len(y), len(x)), dtype=np.int64)
        for i in range(len(y)):
            for j in range(len(x)):
                a, b = 0.0, 0.0
                for _ in range(rounds):
                    if a * a + b * b >= 4:
                        break
                    a, b = a * a - b * b + x[j], 2 * a * b + y[i]
                    count[i, j] += 1
        return count

    def mixed(x, y, rounds):
        count = np.zeros((len(y), len(x)), dtype=np.int64)
        for i in range(len(y)):
            a = np.zeros_like(x)
            b = np.zeros_like(x)
            for _ in range(rounds):
                inside = a * a + b * b < 4
                if not inside.any():
                    break
                a, b = np.where(inside, a * a - b * b + x, a), np.where(inside, 2 * a * b + y[i], b)
                count[i] += inside
        return count

    def jax(jax, x, y, rounds):
        jnp = jax.numpy
        c = x[None, :] + 1j * y[:, None]

        def step(_, state):
            z, count = state
            inside = z.real**2 + z.imag**2 < 4
            return jnp.where(inside, z * z + c, z), count + inside

        return jax.lax.fori_loop(0, rounds, step, (jnp.zeros_like(c), jnp.zeros(c.shape, int)))[1]


def _solved_lines(d, r):
    """Solve (1 + 2 r) v[i] - r (v[i - 1] + v[i + 1]) = d[i] for all columns of d."""
    n = len(d)
    c = np.zeros_like(d[:, 0])
    v = d.copy()
    c[0] = -r / (1 + 2 * r)
    v[0] = d[0] / (1 + 2 * r)
    for i in range(1, n):
        pivot = 1 + 2 * r + r * c[i - 1]
        c[i] = -r / pivot
        v[i] = (d[i] + r * v[i - 1]) / pivot
    for i in range(n - 2, -1, -1):
        v[i] = v[i] - c[i] * v[i + 1]
    return v


class alternating_directions:
    """Diffuse heat between walls at 0 by half steps that are implicit along one axis each."""

    types = 'u: Tensor[("n", "m"), f64], r: f64, steps: i64'
    sizes = (30, 250)
    helpers = (_solved_lines,)

    def draw(rng, n):
        return {"u": rng.random((n, n)), "r": 0.7, "steps": 5}

    def arrays(u, r, steps):
        for _ in range(steps):
            wide = np.pad(u, ((0, 0), (1, 1)))
            u = _solved_lines(u + r * (wide[:, 2:] - 2 * u + wide[:, :-2]), r)
            high = np.pad(u, ((1, 1), (0, 0)))
            u = _solved_lines((u + r * (high[2:] - 2 * u + high[:-2])).T, r).T
        return u

    def loops(u, r, steps):
        n, m = u.shape
        v = u.copy()
        w = u.copy()
        c = np.zeros(max(n, m))
        c[0] = -r / (1 + 2 * r)
        for i in range(1, max(n, m)):
            c[i] = -r / (1 + 2 * r + r * c[i - 1])
        for _ in range(steps):
            for i in range(n):
                for j in range(m):
                    left = v[i, j - 1] if j > 0 else 0.0
                    right = v[i, j + 1] if j < m - 1 else 0.0
                    above = w[i - 1, j] if i > 0 else 0.0
                    w[i, j] = (v[i, j] + r * (left - 2 * v[i, j] + right) + r * above) * (-c[i] / r)
            for i in range(n - 2, -1, -1):
                for j in range(m):
                    w[i, j] -= c[i] * w[i + 1, j]
            for i in range(n):
                for j in range(m):
                    above = w[i - 1, j] if i > 0 else 0.0
                    below = w[i + 1, j] if i < n - 1 else 0.0
                    left = v[i, j - 1] if j > 0 else 0.0
                    v[i, j] = (w[i, j] + r * (above - 2 * w[i, j] + below) + r * left) * (-c[j] / r)
                for j in range(m - 2, -1, -1):
                    v[i, j] -= c[j] * v[i, j + 1]
        return v

    def mixed(u, r, steps):
        n, m = u.shape
        u = u.copy()
        c = np.zeros(max(n, m))
        c[0] = -r / (1 + 2 * r)
        for i in range(1, max(n, m)):
            c[i] = -r / (1 + 2 * r + r * c[i - 1])
        for _ in range(steps):
            d = (1 - 2 * r) * u
            d[:, 1:] += r * u[:, :-1]
            d[:, :-1] += r * u[:, 1:]
            u[0] = d[0] * (-c[0] / r)
            for i in range(1, n):
                u[i] = (d[i] + r * u[i - 1]) * (-c[i] / r)
            for i in range(n - 2, -1, -1):
                u[i] -= c[i] * u[i + 1]
            d = (1 - 2 * r) * u
            d[1:] += r * u[:-1]
            d[:-1] += r * u[1:]
            u[:, 0] = d[:, 0] * (-c[0] / r)
            for j in range(1, m):
                u[:, j] = (d[:, j] + r * u[:, j - 1]) * (-c[j] / r)
            for j in range(m - 2, -1, -1):
                u[:, j] -= c[j] * u[:, j + 1]
        return u


class lennard_jones:
    """Return the forces between the atoms of a liquid in a periodic box, the energy and the virial."""

    types = 'x: Tensor[("n", 3), f64], box: f64, cutoff: f64'
    sizes = (64, 512)

    def draw(rng, n):
        side = round(n ** (1 / 3))
        places = np.stack(np.meshgrid(*[np.arange(side)] * 3), axis=-1).reshape(-1, 3)
        return {"x": 1.1 * places + 0.05 * rng.standard_normal((n, 3)), "box": 1.1 * side, "cutoff": 2.5}

    def arrays(x, box, cutoff):
        d = x[:, None, :] - x[None, :, :]
        d = d - box * np.round(d / box)
        r2 = (d**2).sum(axis=-1)
        near = (r2 < cutoff**2) & (r2 > 0)
        s6 = np.where(near, 1 / np.where(near, r2, 1.0) ** 3, 0.0)
        pull = 24 * (2 * s6**2 - s6) / np.where(near, r2, 1.0)
        forces = (pull[:, :, None] * d).sum(axis=1)
        return forces, 2 * (s6**2 - s6).sum(), 0.5 * (pull * r2).sum()

    def loops(x, box, cutoff):
        n = len(x)
        forces = np.zeros_like(x)
        energy, virial = 0.0, 0.0
        for i in range(n):
            for j in range(i + 1, n):
                dx = x[i, 0] - x[j, 0]
                dy = x[i, 1] - x[j, 1]
                dz = x[i, 2] - x[j, 2]
                dx -= box * np.round(dx / box)
                dy -= box * np.round(dy / box)
                dz -= box * np.round(dz / box)
                r2 = dx * dx + dy * dy + dz * dz
                if r2 < cutoff * cutoff:
                    s6 = 1 / (r2 * r2 * r2)
                    pull = 24 * (2 * s6 * s6 - s6) / r2
                    forces[i, 0] += pull * dx
                    forces[i, 1] += pull * dy
                    forces[i, 2] += pull * dz
                    forces[j, 0] -= pull * dx
                    forces[j, 1] -= pull * dy
                    forces[j, 2] -= pull * dz
                    energy += 4 * (s6 * s6 - s6)
                    virial += pull * r2
        return forces, energy, virial

    def mixed(x, box, cutoff):
        forces = np.zeros_like(x)
        energy, virial = 0.0, 0.0
        for i in range(len(x) - 1):
            d = x[i] - x[i + 1 :]
            d = d - box * np.round(d / box)
            r2 = (d**2).sum(axis=1)
            s6 = np.where(r2 < cutoff**2, 1 / r2**3, 0.0)
            pull = 24 * (2 * s6**2 - s6) / r2
            push = pull[:, None] * d
            forces[i] += push.sum(axis=0)
            forces[i + 1 :] -= push
            energy += 4 * (s6**2 - s6).sum()
            virial += (pull * r2).sum()
        return forces, energy, virial

    def jax(jax, x, box, cutoff):
        jnp = jax.numpy
        d = x[:, None, :] - x[None, :, :]
        d = d - box * jnp.round(d / box)
        r2 = (d**2).sum(axis=-1)
        near = (r2 < cutoff**2) & (r2 > 0)
        s6 = jnp.where(near, 1 / jnp.where(near, r2, 1.0) ** 3, 0.0)
        pull = 24 * (2 * s6**2 - s6) / jnp.where(near, r2, 1.0)
        forces = (pull[:, :, None] * d).sum(axis=1)
        return forces, 2 * (s6**2 - s6).sum(), 0.5 * (pull * r2).sum()
