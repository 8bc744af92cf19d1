"""Graphs: searches, shortest paths, components and ranks."""

from __future__ import annotations

import numpy as np


def _connected(rng, n, edges):
    """Return the edges of a ring of all vertices and more edges at random."""
    ring = rng.permutation(n)
    source = np.concatenate((ring, rng.integers(0, n, edges - n)))
    target = np.concatenate((np.roll(ring, 1), rng.integers(0, n, edges - n)))
    return source, target


class breadth_first_search:
    """Return how many edges each vertex of a graph is away from the first one, -1 if out of reach."""

    types = 'adjacent: Tensor[("n", "n"), bool_], start: i64'
    sizes = (100, 3000)

    def draw(rng, n):
        adjacent = rng.random((n, n)) < 2.0 / n
        return {"adjacent": adjacent | adjacent.T, "start": n // 2}

    def arrays(adjacent, start):
        level = np.full(len(adjacent), -1)
        level[start] = 0
        depth = 0
        frontier = level == 0
        while frontier.any():
            depth += 1
            frontier = adjacent[frontier].any(axis=0) & (level < 0)
            level[frontier] = depth
        return level

    def loops(adjacent, start):
        n = len(adjacent)
        level = np.full(n, -1)
        queue = np.zeros(n, np.int64)
        level[start] = 0
        queue[0] = start
        head, tail = 0, 1
        while head < tail:
            v = queue[head]
            head += 1
            for u in range(n):
                if adjacent[v, u] and level[u] < 0:
                    level[u] = level[v] + 1
                    queue[tail] = u
                    tail += 1
        return level

    def mixed(adjacent, start):
        n = len(adjacent)
        level = np.full(n, -1)
        queue = np.zeros(n, np.int64)
        level[start] = 0
        queue[0] = start
        head, tail = 0, 1
        while head < tail:
            v = queue[head]
            head += 1
            found = np.flatnonzero(adjacent[v] & (level < 0))
            level[found] = level[v] + 1
            queue[tail : tail + len(found)] = found
            tail += len(found)
        return level


class all_shortest_paths:
    """Return the distances between all vertices of a graph, by Floyd and Warshall."""

    types = 'length: Tensor[("n", "n"), f64]'
    sizes = (25, 200)

    def draw(rng, n):
        return {"length": rng.exponential(size=(n, n)) * (1 - np.eye(n))}

    def arrays(length):
        distance = length.copy()
        for k in range(len(length)):
            distance = np.minimum(distance, distance[:, k, None] + distance[k])
        return distance

    def loops(length):
        n = len(length)
        distance = length.copy()
        for k in range(n):
            for i in range(n):
                for j in range(n):
                    through = distance[i, k] + distance[k, j]
                    if through < distance[i, j]:
                        distance[i, j] = through
        return distance

    def mixed(length):
        n = len(length)
        distance = length.copy()
        for k in range(n):
            for i in range(n):
                distance[i] = np.minimum(distance[i], distance[i, k] + distance[k])
        return distance

    def jax(jax, length):
        def through(k, distance):
            return jax.numpy.minimum(distance, distance[:, k, None] + distance[k])

        return jax.lax.fori_loop(0, len(length), through, length)


class components:
    """Return the smallest vertex of the component of each vertex, and how many components there are."""

    types = 'source: Tensor[("m",), i64], target: Tensor[("m",), i64], n: i64'
    sizes = (1000, 100000)

    def draw(rng, n):
        return {"source": rng.integers(0, n, n * 3 // 4), "target": rng.integers(0, n, n * 3 // 4), "n": n}

    def arrays(source, target, n):
        label = np.arange(n)
        changed = True
        while changed:
            before = label.copy()
            smaller = np.minimum(label[source], label[target])
            np.minimum.at(label, source, smaller)
            np.minimum.at(label, target, smaller)
            label = label[label]
            changed = (label != before).any()
        return label, np.sum(label == np.arange(n))

    def loops(source, target, n):
        parent = np.arange(n)
        count = n
        for e in range(len(source)):
            a = source[e]
            b = target[e]
            while parent[a] != a:
                parent[a] = parent[parent[a]]
                a = parent[a]
            while parent[b] != b:
                parent[b] = parent[parent[b]]
                b = parent[b]
            if a != b:
                parent[max(a, b)] = min(a, b)
                count -= 1
        for v in range(n):
            parent[v] = parent[parent[v]]
        return parent, count

    def mixed(source, target, n):
        parent = np.arange(n)
        for e in range(len(source)):
            a, b = source[e], target[e]
            while parent[a] != a:
                parent[a] = parent[parent[a]]
                a = parent[a]
            while parent[b] != b:
                parent[b] = parent[parent[b]]
                b = parent[b]
            parent[max(a, b)] = min(a, b)
        while (parent != parent[parent]).any():
            parent = parent[parent]
        return parent, np.sum(parent == np.arange(n))


class page_rank:
    """Return the ranks of pages whose links are pairs of a source and a target."""

    types = 'source: Tensor[("m",), i64], target: Tensor[("m",), i64], n: i64, damping: f64'
    sizes = (100, 20000)
    single = False  # numbers of links are i64 among floats

    def draw(rng, n):
        source, target = _connected(rng, n, 5 * n)
        return {"source": source, "target": target, "n": n, "damping": 0.85}

    def arrays(source, target, n, damping):
        share = 1 / np.bincount(source, minlength=n)
        rank = np.full(n, 1 / n)
        for _ in range(20):
            flow = (rank * share)[source]
            rank = (1 - damping) / n + damping * np.bincount(target, weights=flow, minlength=n)
        return rank

    def loops(source, target, n, damping):
        links = np.zeros(n)
        rank = np.empty(n)
        for e in range(len(source)):
            links[source[e]] += 1
        for v in range(n):
            rank[v] = 1 / n
        for _ in range(20):
            new = np.empty(n)
            for v in range(n):
                new[v] = (1 - damping) / n
            for e in range(len(source)):
                new[target[e]] += damping * rank[source[e]] / links[source[e]]
            rank = new
        return rank

    def mixed(source, target, n, damping):
        share = 1 / np.bincount(source, minlength=n)
        rank = np.full(n, 1 / n)
        for _ in range(20):
            flow = rank * share
            received = np.zeros(n)
            for e, v in enumerate(target):
                received[v] += flow[source[e]]
            rank = (1 - damping) / n + damping * received
        return rank


class bellman_ford:
    """Return the distances of all vertices from the first one, over lists of edges."""

    types = 'source: Tensor[("m",), i64], target: Tensor[("m",), i64], length: Tensor[("m",), f64], n: i64'
    sizes = (100, 10000)

    def draw(rng, n):
        source, target = _connected(rng, n, 6 * n)
        return {"source": source, "target": target, "length": rng.exponential(size=6 * n), "n": n}

    def arrays(source, target, length, n):
        distance = np.full(n, np.inf, length.dtype)
        distance[0] = 0
        for _ in range(n - 1):
            before = distance.copy()
            np.minimum.at(distance, target, before[source] + length)
            if np.array_equal(distance, before):
                break
        return distance

    def loops(source, target, length, n):
        distance = np.full(n, np.inf, length.dtype)
        distance[0] = 0
        for _ in range(n - 1):
            changed = False
            for e in range(len(source)):
                through = distance[source[e]] + length[e]
                if through < distance[target[e]]:
                    distance[target[e]] = through
                    changed = True
            if not changed:
                break
        return distance

    def mixed(source, target, length, n):
        distance = np.full(n, np.inf, length.dtype)
        distance[0] = 0
        for _ in range(n - 1):
            through = distance[source] + length
            better = np.flatnonzero(through < distance[target])
            if len(better) == 0:
                break
            for e in better:
                distance[target[e]] = min(distance[target[e]], through[e])
        return distance


class spanning_tree:
    """Return the length of the smallest tree that spans a graph, and the parent of each vertex, by Prim."""

    types = 'length: Tensor[("n", "n"), f64]'
    sizes = (50, 1200)

    def draw(rng, n):
        length = rng.random((n, n))
        return {"length": length + length.T}

    def arrays(length):
        n = len(length)
        parent = np.zeros(n, np.int64)
        key = length[0].copy()
        key[0] = np.inf
        outside = np.arange(n) > 0
        total = 0.0
        for _ in range(n - 1):
            v = np.argmin(key)
            total += length[v, parent[v]]
            outside[v] = False
            key[v] = np.inf
            closer = outside & (length[v] < key)
            key = np.where(closer, length[v], key)
            parent = np.where(closer, v, parent)
        return total, parent

    def loops(length):
        n = len(length)
        parent = np.zeros(n, np.int64)
        key = length[0].copy()
        done = np.zeros(n, np.bool_)
        done[0] = True
        total = 0.0
        for _ in range(n - 1):
            v = -1
            least = np.inf
            for u in range(n):
                if not done[u] and key[u] < least:
                    least = key[u]
                    v = u
            total += least
            done[v] = True
            for u in range(n):
                if not done[u] and length[v, u] < key[u]:
                    key[u] = length[v, u]
                    parent[u] = v
        return total, parent

    def mixed(length):
        n = len(length)
        parent = np.zeros(n, np.int64)
        key = length[0].copy()
        done = np.zeros(n, np.bool_)
        done[0] = True
        total = 0.0
        for _ in range(n - 1):
            v = np.argmin(np.where(done, np.inf, key))
            total += key[v]
            done[v] = True
            for u in range(n):
                if not done[u] and length[v, u] < key[u]:
                    key[u] = length[v, u]
                    parent[u] = v
        return total, parent


class topological_levels:
    """Return the longest path to each vertex of a graph without cycles, whose edges are sorted by sources."""

    types = 'source: Tensor[("m",), i64], target: Tensor[("m",), i64], n: i64'
    sizes = (300, 30000)

    def draw(rng, n):
        order = rng.permutation(n)
        low, high = np.unique(np.sort(rng.integers(0, n, (3 * n, 2)), axis=1), axis=0).T
        source, target = order[low[low < high]], order[high[low < high]]
        sort = np.argsort(source, kind="stable")
        return {"source": source[sort], "target": target[sort], "n": n}

    def arrays(source, target, n):
        level = np.zeros(n, np.int64)
        while (level[target] <= level[source]).any():
            np.maximum.at(level, target, level[source] + 1)
        return level

    def loops(source, target, n):
        start = np.zeros(n + 1, np.int64)
        missing = np.zeros(n, np.int64)
        for e in range(len(source)):
            start[source[e] + 1] += 1
            missing[target[e]] += 1
        for v in range(n):
            start[v + 1] += start[v]
        level = np.zeros(n, np.int64)
        queue = np.zeros(n, np.int64)
        tail = 0
        for v in range(n):
            if missing[v] == 0:
                queue[tail] = v
                tail += 1
        head = 0
        while head < tail:
            v = queue[head]
            head += 1
            for e in range(start[v], start[v + 1]):
                u = target[e]
                level[u] = max(level[u], level[v] + 1)
                missing[u] -= 1
                if missing[u] == 0:
                    queue[tail] = u
                    tail += 1
        return level

    def mixed(source, target, n):
        start = np.searchsorted(source, np.arange(n + 1))
        missing = np.bincount(target, minlength=n)
        level = np.zeros(n, np.int64)
        queue = np.zeros(n, np.int64)
        ready = np.flatnonzero(missing == 0)
        tail = len(ready)
        queue[:tail] = ready
        head = 0
        while head < tail:
            v = queue[head]
            head += 1
            for u in target[start[v] : start[v + 1]]:
                level[u] = max(level[u], level[v] + 1)
                missing[u] -= 1
                if missing[u] == 0:
                    queue[tail] = u
                    tail += 1
        return level


class triangles:
    """Return in how many triangles each vertex of a graph is."""

    types = 'adjacent: Tensor[("n", "n"), i64]'
    sizes = (40, 300)

    def draw(rng, n):
        upper = np.triu(rng.random((n, n)) < 0.3, 1)
        return {"adjacent": (upper | upper.T).astype(np.int64)}

    def arrays(adjacent):
        return ((adjacent @ adjacent) * adjacent).sum(axis=1) // 2

    def loops(adjacent):
        n = len(adjacent)
        count = np.zeros(n, np.int64)
        for i in range(n):
            for j in range(i):
                if adjacent[i, j]:
                    for k in range(j):
                        if adjacent[i, k] and adjacent[j, k]:
                            count[i] += 1
                            count[j] += 1
                            count[k] += 1
        return count

    def mixed(adjacent):
        n = len(adjacent)
        count = np.zeros(n, np.int64)
        for i in range(n):
            for j in range(i):
                if adjacent[i, j] > 0:
                    common = np.sum(adjacent[i] * adjacent[j])
                    count[i] += common
                    count[j] += common
        return count // 2

    def jax(jax, adjacent):
        del jax
        return ((adjacent @ adjacent) * adjacent).sum(axis=1) // 2


class greedy_coloring:
    """Return a color for each vertex of a graph: the first one that no neighbour before it has."""

    types = 'adjacent: Tensor[("n", "n"), bool_]'
    sizes = (50, 1000)

    def draw(rng, n):
        upper = np.triu(rng.random((n, n)) < 0.2, 1)
        return {"adjacent": upper | upper.T}

    def arrays(adjacent):
        n = len(adjacent)
        color = np.zeros(n, np.int64)
        for v in range(n):
            taken = np.zeros(n, np.bool_)
            taken[color[:v][adjacent[v, :v]]] = True
            color[v] = np.argmin(taken)
        return color

    def loops(adjacent):
        n = len(adjacent)
        color = np.zeros(n, np.int64)
        taken = np.full(n, -1)
        for v in range(n):
            for u in range(v):
                if adjacent[v, u]:
                    taken[color[u]] = v
            while taken[color[v]] == v:
                color[v] += 1
        return color

    def mixed(adjacent):
        n = len(adjacent)
        color = np.zeros(n, np.int64)
        for v in range(n):
            taken = np.zeros(n, np.bool_)
            for u in np.flatnonzero(adjacent[v, :v]):
                taken[color[u]] = True
            color[v] = np.argmin(taken)
        return color
