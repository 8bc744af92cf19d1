"""Programs with calls, objects, generators and queues mean what Python means when they are written anew.

`tinynn/syntax/inlined_calls`, `evaluation_order`, `generator_functions`, `lifted_functions`, `plain_objects`
and `plain_dictionaries` write them; each program here once had another meaning, or was near one that had. A
program may be refused, but for the first three, and those of `RUN`.
"""

import re
import textwrap
import warnings
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from functools import reduce
from itertools import accumulate, chain, combinations, islice, permutations, product

import numpy as np
import pytest

import nnmagic

#: A cell, and a call of its function.
PROGRAMS = {
    "an object of a function that another one calls": (
        """
        class Tally:
            def __init__(self, start):
                self.value = start
            def add(self, v):
                self.value += v
        def doubled(x):
            tally = Tally(x)
            tally.add(x)
            return tally.value
        def unused(x):
            return x
        def f(x):
            tally = Tally(1)
            return doubled(x) + tally.value
        """,
        "f(3)",
    ),
    "a list that a function with a default of -1 is given": (
        """
        def changed(rows, by=-1):
            rows.append(by)
            return len(rows)
        def f(x):
            rows = [x]
            count = changed(rows)
            return count, rows
        """,
        "f(3)",
    ),
    "a call whose default is computed": (
        """
        def first(items, default=(0 - 1)):
            return items[0]
        def f(x):
            rows = [x]
            rows.append(2)
            return first(rows)
        """,
        "f(3)",
    ),
    "the items of a list that grew from the last to the first": (
        """
        def f(x):
            rows = [v for v in range(x) if v % 2]
            return list(reversed(rows)), list(reversed(range(x)))
        """,
        "f(6)",
    ),
    "nothing is sorted by two keys": (
        """
        def f(x):
            return sorted([v for v in range(x)], key=lambda v: (v % 3, v))
        """,
        "f(0)",
    ),
    "a count that is read before a call changes it": (
        """
        def f(x):
            count = 0
            def following():
                nonlocal count
                count += 1
                return count
            return count + following() * 10 + count * 100
        """,
        "f(1)",
    ),
    "the last item, and the one that is taken": (
        """
        def take(s):
            return s.pop()
        def f(x):
            s = [x, x + 1, x + 2]
            return s[-1] * 100 + take(s) * 10 + s[-1]
        """,
        "f(1)",
    ),
    "a length that is read before a call appends": (
        """
        def f(n):
            s, t = [1], 0
            def push(z, v):
                z.append(v)
                return len(z)
            while t < n:
                s.append(t)
                t = len(s) + push(s, t)
            return t
        """,
        "f(100)",
    ),
    "maxlen extend": (
        """
        def f(n):
            q = deque(maxlen=2)
            q.append(n)
            q.extend([1, 2, 3])
            return len(q), q[0]
        """,
        "f(3)",
    ),
    "rebinding of bounded": (
        """
        def f(n):
            q = deque(maxlen=2)
            q.append(n)
            r = q[0]
            q = []
            for i in range(5):
                q.append(i)
            return len(q), r
        """,
        "f(3)",
    ),
    "zip over growing": (
        """
        def f(x):
            rows = [0.0]
            for a, b in zip(rows, x):
                rows.append(a + b)
            return sum(rows), len(rows)
        """,
        "f(np.arange(1.0, 6.0))",
    ),
    "enumerate": (
        """
        def f(n):
            rows = [0]
            for i, v in enumerate(rows):
                if i < n:
                    rows.append(v + 1)
            return len(rows)
        """,
        "f(4)",
    ),
    "zip reversed order": (
        """
        def f(x):
            rows = [0.0]
            for b, a in zip(x, rows):
                rows.append(a + b)
            return sum(rows), len(rows)
        """,
        "f(np.arange(1.0, 6.0))",
    ),
    "plain row alias": (
        """
        def f(n):
            grid = [[0] * 2 for _ in range(2)]
            for i in range(n):
                grid[i][0] = i + 3
            grid[1] = grid[0]
            grid[0][0] = 50
            return grid[1][0]
        """,
        "f(2)",
    ),
    "nested function discards maxlen list": (
        """
        def f(n):
            q = deque([9], maxlen=2)
            q.extendleft([1, 2])
            return len(q)
        """,
        "f(4)",
    ),
    "insert": (
        """
        def f(n):
            q = deque([9], maxlen=2)
            q += [4, 5]
            return len(q)
        """,
        "f(4)",
    ),
    "chain of one list of lists": (
        """
        from itertools import chain
        def f(n):
            return len(list(chain([[n, 2], [3, 4, 5]])))
        """,
        "f(1)",
    ),
    "product of one": (
        """
        from itertools import product
        def f(n):
            return len(list(product([[n, 2], [3, 4, 5]])))
        """,
        "f(1)",
    ),
    "alias read before change": (
        """
        def change(a):
            a[0] = 5
            return 1.0
        def f(x):
            a = x.copy()
            b = a
            return b[0] + change(a)
        """,
        "f(np.arange(3.0))",
    ),
    "other order: reads by later": (
        """
        def change(a):
            a[0] = 5
            return 1.0
        def look(a):
            return a[0]
        def f(x):
            a = x.copy()
            b = a[:2]
            t = (b[0], change(a), look(b))
            return t
        """,
        "f(np.arange(3.0))",
    ),
    "tuple whole name in call": (
        """
        def change(a):
            a[0] = 5
            return 1.0
        def f(x):
            a = x.copy()
            t = (a, change(a))
            return t[0][0] + t[1]
        """,
        "f(np.arange(3.0))",
    ),
    "target": (
        """
        def change(a):
            a[0] = 2
            return 7.0
        def f(x):
            a = x.copy()
            y = np.zeros(5)
            b = np.array([0, 1])
            y[b[0]] = change(b)
            return y[0], y[2]
        """,
        "f(np.arange(3.0))",
    ),
    "pop before changing call": (
        """
        def change(a):
            a[0] = 5
            return 1.0
        def f(x):
            a = x.copy()
            s = [a[0], 2.0]
            k = 0
            t = (k := 3) + change(a) + a[0]
            return t + k
        """,
        "f(np.arange(3.0))",
    ),
    "and": (
        """
        def change(a):
            a[0] = a[0] + 5
            return a[0] > 3
        def f(x):
            a = x.copy()
            if a[0] > 1 and change(a):
                return a[0]
            return a[0] - 100
        """,
        "f(np.arange(3.0))",
    ),
    "comprehension": (
        """
        def change(a):
            a[0] = a[0] + 5
            return a[0]
        def f(x):
            a = x.copy()
            t = [change(a) for _ in range(3)]
            return t[0], t[2], a[0]
        """,
        "f(np.arange(3.0))",
    ),
    "match capture clobbers": (
        """
        def f(x):
            total = [0]
            def add(p):
                match p:
                    case (a, b):
                        total.append(a + b)
            a = 100
            add((1, x))
            return a + x
        """,
        "f(1)",
    ),
    "global name shadowed in owner of nested caller": (
        """
        N = 10
        def push(s):
            s.append(N)
        def f(x):
            N = 5
            s = [x]
            def g():
                push(s)
            g()
            return s[1] + N
        """,
        "f(1)",
    ),
    "walrus argument": (
        """
        def f(n):
            s = [0]
            def add(a, b):
                s.append(a * 10 + b)
            add(n, (n := 5))
            return s[1]
        """,
        "f(1)",
    ),
    "closure returned": (
        """
        def f(n):
            seen = [0]
            def make(k):
                seen.append(k)
                return lambda x: x + k
            g = make(n)
            n = n + 100
            return g(1)
        """,
        "f(1)",
    ),
    "dict order": (
        """
        def f(m):
            n = m
            def tick():
                nonlocal n
                n += 1
                return n
            d = {tick(): tick(), tick(): tick()}
            return d[m + 1]
        """,
        "f(0)",
    ),
    "comprehension hoisted over name": (
        """
        def f(m):
            n = m
            def tick():
                nonlocal n
                n += 1
                return n
            return n + sum([tick() for _ in range(3)])
        """,
        "f(0)",
    ),
    "call then comprehension": (
        """
        def f(m):
            n = m
            def tick():
                nonlocal n
                n += 1
                return n
            return tick() * 100 + sum([tick() for _ in range(2)])
        """,
        "f(0)",
    ),
    "any short circuit": (
        """
        def f(m):
            n = m
            def tick():
                nonlocal n
                n += 1
                return n
            found = any(tick() > 2 for _ in range(10))
            return n
        """,
        "f(0)",
    ),
    "shared targets swap": (
        """
        def f(m):
            n = m
            def tick():
                nonlocal n
                n += 1
                return n
            def put(a, b, c):
                a[0] = tick() if c else 7
                b[0] = n * 10
            a = np.zeros(2)
            b = np.zeros(2)
            put(b, a, m < 5)
            return a[0], b[0]
        """,
        "f(0)",
    ),
    "loop return in else, statements after": (
        """
        def g(s):
            s.append(0)
            if s[0] > 5:
                return 1
            else:
                for v in s:
                    if v > 3:
                        return v
            return -1
        def f(n):
            s = [n, 4]
            return g(s)
        """,
        "f(1)",
    ),
    "gives own rebound": (
        """
        def f(m):
            n = m
            p = 1
            def bump(p):
                nonlocal n
                n += 1
                p = p + 10
                return p
            p = bump(p)
            return p * 100 + n
        """,
        "f(0)",
    ),
    "list param rebound": (
        """
        def grown(p):
            p.append(1)
            p = p + [2]
            return p
        def f(m):
            p = [m]
            p = grown(p)
            return len(p)
        """,
        "f(0)",
    ),
    "parameter shadows": (
        """
        def push(s):
            s.append(1)
        def f(n):
            def use(push):
                s = [n]
                push(s)
                return len(s)
            return use(lambda s: s)
        """,
        "f(0)",
    ),
    "defined twice": (
        """
        def f(n):
            s = [0]
            if n > 0:
                def g():
                    s.append(1)
            else:
                def g():
                    s.append(2)
            g()
            return s[1]
        """,
        "f(5)",
    ),
    "redefinition": (
        """
        def f(n):
            s = [0]
            def g():
                s.append(n)
            g()
            def g():
                s.append(n + 1)
            g()
            return s[1], s[2]
        """,
        "f(5)",
    ),
    "made": (
        """
        def f(m):
            made = [m]
            n = m
            def tick():
                nonlocal n
                n += 1
                return n
            total = sum([tick() for _ in range(3)])
            return len(made), total
        """,
        "f(0)",
    ),
    "holds": (
        """
        def f(m):
            holds = 7
            n = m
            def tick():
                nonlocal n
                n += 1
                return n
            if m > -1 and tick() > 0:
                n += 1
            return holds, n
        """,
        "f(0)",
    ),
    "alias read before": (
        """
        def f(m):
            a = np.zeros(3)
            b = a
            def change():
                a[0] += 5
                return 1
            return b[0] + change()
        """,
        "f(0)",
    ),
    "view": (
        """
        def f(m):
            a = np.zeros((3, 2))
            b = a[0]
            def change():
                a[0, 0] += 5
                return 1
            return b[0] + change()
        """,
        "f(0)",
    ),
    "pop then note": (
        """
        def f(m):
            s = [1, 2, m]
            seen = [0]
            def note():
                seen.append(len(s))
                return 0
            x = s.pop() + note()
            return seen[1], x
        """,
        "f(0)",
    ),
    "array changing call then note": (
        """
        def g(a):
            a[0] = 5
            return 1
        def f(m):
            a = np.zeros(3)
            seen = [0.0]
            def note():
                seen.append(a[0])
                return 0
            x = g(a) + note()
            return seen[1]
        """,
        "f(0)",
    ),
    "walrus then note": (
        """
        def f(m):
            n = m
            seen = [0]
            def note():
                seen.append(n)
                return 0
            x = (n := 5) + note()
            return seen[1]
        """,
        "f(0)",
    ),
    "lambda capture": (
        """
        def f(x):
            seen = [0]
            def use(a):
                seen.append(a)
                g = lambda x: a + x
                return g(10)
            return use(x)
        """,
        "f(1)",
    ),
    "inner def capture": (
        """
        def f(x):
            seen = [0]
            def use(a):
                seen.append(a)
                def g(x):
                    return a + x
                return g(10)
            return use(x)
        """,
        "f(1)",
    ),
    "generator appends to outer": (
        """
        def f(n):
            seen = [0]
            def gen():
                for i in range(n):
                    seen.append(i)
                    yield i
            total = 0
            for v in gen():
                total += len(seen)
            return total
        """,
        "f(3)",
    ),
    "rebinding": (
        """
        def f(n):
            k = 0
            def gen():
                for i in range(n):
                    yield k
            total = 0
            for v in gen():
                total += v
                k = k + 1
            return total
        """,
        "f(3)",
    ),
    "augmented": (
        """
        def f(n):
            k = 0
            def gen():
                for i in range(n):
                    yield k
            total = 0
            for v in gen():
                total += v
                k += 1
            return total
        """,
        "f(3)",
    ),
    "consumer appends": (
        """
        def f(n):
            s = [n]
            def gen():
                for i in range(3):
                    yield len(s)
            total = 0
            for v in gen():
                total += v
                s.append(v)
            return total
        """,
        "f(3)",
    ),
    "array made and passed": (
        """
        def gen(y):
            for i in range(3):
                yield y[i]
        def f(n):
            y = np.zeros(3)
            total = 0.0
            for v in gen(y):
                y[1] = 5.0
                y[2] = 7.0 + n
                total += v
            return total
        """,
        "f(0)",
    ),
    "break and later error": (
        """
        def gen(x):
            for i in range(10):
                yield x[i]
        def f(x):
            total = 0.0
            for v in gen(x):
                if v > 2:
                    break
                total += v
            return total
        """,
        "f(np.array([1.0, 2.0, 3.0]))",
    ),
    "method generator": (
        """
        class Bag:
            def __init__(self):
                self.items = [1]
            def add(self, v):
                self.items.append(v)
            def each(self):
                for i in range(4):
                    yield len(self.items)
        def f(n):
            b = Bag()
            total = 0
            for v in b.each():
                b.add(n)
                total += v
            return total
        """,
        "f(1)",
    ),
    "yields same list": (
        """
        def gen(n):
            cur = []
            for i in range(n):
                cur.append(i)
                yield cur
        def f(n):
            total = 0
            for c in gen(n):
                total += len(c)
            return total
        """,
        "f(3)",
    ),
    "aug array": (
        """
        def gen(n):
            cur = np.zeros(2)
            for i in range(n):
                cur += 1
                yield cur
        def f(n):
            total = 0.0
            for c in gen(n):
                total += c[0]
            return total
        """,
        "f(3)",
    ),
    "list of same array": (
        """
        def gen(n):
            cur = np.zeros(2)
            for i in range(n):
                cur += 1
                yield cur
        def f(n):
            return sum([c[0] for c in list(gen(n))])
        """,
        "f(3)",
    ),
    "generator calls changing helper": (
        """
        def f(n):
            k = 0
            def tick():
                nonlocal k
                k += 1
                return k
            def gen():
                for i in range(n):
                    yield tick()
            total = 0
            for v in gen():
                total += v * 10 + k
            return total
        """,
        "f(3)",
    ),
    "recursive default": (
        """
        def f(n):
            def fact(k, acc=1):
                return acc if k < 2 else fact(k - 1, acc * k)
            return fact(n)
        """,
        "f(4)",
    ),
    "recursive default captured": (
        """
        def f(n):
            m = n + 1
            def fact(k, acc=1):
                return acc + m if k < 2 else fact(k - 1, acc * k)
            return fact(n)
        """,
        "f(4)",
    ),
    "rows concatenated": (
        """
        def f(n):
            grid = [[0] * 2 for _ in range(2)]
            def fill(i):
                if i < 2:
                    grid[i][0] = i + n
                    fill(i + 1)
            fill(0)
            return len(grid[0] + grid[1])
        """,
        "f(3)",
    ),
    "slices concatenated": (
        """
        def f(n):
            memo = [0] * 4
            def fill(i):
                if i < 4:
                    memo[i] = i + n
                    fill(i + 1)
            fill(0)
            return sum(memo[1:] + memo[1:]), len(memo[2:] * 3)
        """,
        "f(3)",
    ),
    "slice alias": (
        """
        def f(n):
            memo = [0] * 4
            def fill(i):
                if i < 4:
                    memo[i] = i + n
                    fill(i + 1)
            fill(0)
            old = memo[:]
            memo[0] = 100
            return old[0]
        """,
        "f(3)",
    ),
    "row alias": (
        """
        def f(n):
            grid = [[0] * 2 for _ in range(2)]
            def fill(i):
                if i < 2:
                    grid[i][0] = i + n
                    fill(i + 1)
            fill(0)
            grid[1] = grid[0]
            grid[0][0] = 50
            return grid[1][0]
        """,
        "f(3)",
    ),
    "comparison": (
        """
        def f(n):
            grid = [[0] * 2 for _ in range(2)]
            def fill(i):
                if i < 2:
                    grid[i][0] = n
                    fill(i + 1)
            fill(0)
            return 1 if grid[0] == grid[1] else 0
        """,
        "f(3)",
    ),
    "comprehension shadow": (
        """
        def f(n):
            x = 10
            def dfs(k):
                return x if k == 0 else dfs(k - 1)
            return sum([dfs(x) for x in range(n)])
        """,
        "f(3)",
    ),
    "lambda shadow": (
        """
        def f(n):
            x = 10
            def dfs(k):
                return x if k == 0 else dfs(k - 1)
            g = lambda x: dfs(x)
            return g(n)
        """,
        "f(3)",
    ),
    "unbound captured later": (
        """
        def f(n):
            x = 1
            def dfs(k):
                return x if k == 0 else dfs(k - 1)
            x = n + 5
            return dfs(2)
        """,
        "f(3)",
    ),
    "bool list gets ints": (
        """
        def f(n):
            memo = [False] * 4
            def fill(i):
                if i < 4:
                    memo[i] = i + n
                    fill(i + 1)
            fill(0)
            return memo[3]
        """,
        "f(3)",
    ),
    "int list gets floats": (
        """
        def f(n):
            memo = [0] * 4
            def fill(i):
                if i < 4:
                    memo[i] = i + 0.5
                    fill(i + 1)
            fill(0)
            return memo[3] + n
        """,
        "f(3)",
    ),
    "product single repeat": (
        """
        from itertools import product
        def f(n):
            t = 0
            for a, b in product([0, n], repeat=2):
                t = t * 2 + a + b
            return t
        """,
        "f(4)",
    ),
    "chain single literal": (
        """
        from itertools import chain
        def f(n):
            return sum(chain([n, 2]))
        """,
        "f(4)",
    ),
    "product single name": (
        """
        from itertools import product
        def f(x):
            t = 0
            for a, b in product(x, repeat=2):
                t = t * 2 + a - b
            return t
        """,
        "f([1, 5])",
    ),
    "product of a tuple literal": (
        """
        from itertools import product
        def f(n):
            t = 0
            for (a,) in product([3, n]):
                t = t * 2 + a
            return t
        """,
        "f(4)",
    ),
    "an inner list that grows, and a name of it": (
        "def f(x):\n    a = [[1], [x]]\n    r = a[0]\n    a[0] += [5]\n    return r, a",
        "f(1)",
    ),
    "an inner list of a dictionary that grows, and a name of it": (
        "def f(x):\n    r = [x]\n    a = {'u': r, 'v': [2]}\n    a['u'] += [5]\n    return r, a['u']",
        "f(1)",
    ),
    "an inner list that is appended to, and a name of it": (
        "def f(x):\n    a = [[1], [x]]\n    r = a[0]\n    a[0].append(5)\n    return r, a",
        "f(1)",
    ),
    "one list at two places grows": (
        "def f(x):\n    a = [[]] * 3\n    a[0] += [x]\n    return a",
        "f(3)",
    ),
    "a list that a loop goes over grows": (
        "def f(x):\n    a = {'u': [1], 'v': [2]}\n    out = []\n    for r in a.values():\n"
        "        a['u'] += [x]\n"
        "        out += r\n    return out",
        "f(1)",
    ),
    "a history of lists": (
        "def f(x):\n    h = {'t': [0.0], 'n': []}\n    while x > 0:\n        h['t'].append(x * 0.5)\n"
        "        h['n'].append(x)\n        x -= 1\n    return h['t'], h['n']",
        "f(3)",
    ),
    "texts in groups": (
        "def f(w):\n    g = defaultdict(list)\n    for t in w:\n        g[''.join(sorted(t))].append(t)\n"
        "    return [len(r) for r in g.values()]",
        "f(['eat', 'tea', 'tan', 'ate', 'nat', 'bat'])",
    ),
    "a row of an array is no list": (
        "def f(x):\n    y = x.copy()\n    y[0].append(3.0)\n    return y",
        "f(np.ones((2, 2)))",
    ),
    "lists of the caller that grow": (
        "def f(x):\n    x = list(x)\n    x[0].append(3.0)\n    return x",
        "f(a := [[1.0], [2.0, 3.0]]), a",
    ),
    "lists of the caller that grow in a dictionary": (
        "def f(x):\n    y = {'a': x}\n    y['a'] += [3.0]\n    return y['a']",
        "f(a := [1.0, 2.0]), a",
    ),
    "rows of the caller's table": (
        "def f(x):\n    x = list(x)\n    x[0][0] = 3.0\n    return x",
        "f(a := [[1.0, 2.0], [2.0, 3.0]]), a",
    ),
    "copies of lists of the caller grow": (
        "def f(x):\n    x = [list(r) for r in x]\n    x[0].append(3.0)\n    return x",
        "f(a := [[1.0], [2.0, 3.0]]), a",
    ),
    "brackets": (
        "def f(s):\n    pairs, stack = {')': '(', ']': '['}, []\n    for c in s:\n        if c in '([':\n"
        "            stack.append(c)\n        elif not stack or stack.pop() != pairs[c]:\n"
        "            return False\n"
        "    return not stack",
        "[f('([])()'), f('([)]'), f('((')]",
    ),
    "a long text": (
        "def f(s, k):\n    out = ''\n    for c in s:\n"
        "        out += chr((ord(c) - 97 + k) % 26 + 97) if c.isalpha() else c\n"
        "    return out",
        "f('the quick brown fox ' * 12, 5)",
    ),
    "groups of neighbours": (
        "from itertools import groupby\ndef f(s):\n"
        "    return ''.join(str(len(list(g))) + k for k, g in groupby(s))",
        "f('aaabccd')",
    ),
    "a cache that forgets": (
        "from collections import OrderedDict\ndef f(r, n):\n    c, hits = OrderedDict(), 0\n"
        "    for k in r:\n        if k in c:\n"
        "            hits += 1\n            c.move_to_end(k)\n        else:\n            if len(c) >= n:\n"
        "                c.popitem(last=False)\n            c[k] = True\n    return hits, list(c)",
        "f(np.array([1, 2, 3, 1, 4, 2, 5, 1]), 3)",
    ),
    "columns of a path": (
        "def f(n):\n    path = [(0, 0.5)]\n    for i in range(n):\n"
        "        path.append((i, path[-1][1] * 2))\n"
        "    xs, ys = zip(*path)\n    return max(xs), ys[-1], len(xs)",
        "f(5)",
    ),
    "a list that a function gives back is appended to": (
        "def f(a, n):\n    if n == 0:\n        return a\n    return f(a, n - 1)\ndef g(x):\n"
        "    a = [x, x + 1]\n"
        "    b = f(a, 2)\n    b.append(5)\n    return a, b",
        "g(3)",
    ),
    "a list that a function gave back changes": (
        "def f(a, n):\n    if n == 0:\n        return a\n    return f(a, n - 1)\ndef g(x):\n"
        "    a = [x, x + 1]\n"
        "    b = f(a, 2)\n    a[0] = 7\n    return a, b",
        "g(3)",
    ),
    "a list that a function gives itself back is appended to": (
        "def f(a, n):\n    if n == 0:\n        return a\n    b = f(a, n - 1)\n    b.append(n)\n    return a",
        "f(list(range(20)), 3)",
    ),
    "a list that is one function's, and another's": (
        "def f(a, n):\n    if n == 0:\n        return a\n    return f(a, n - 1)\ndef g(x):\n"
        "    a = [x, x + 1]\n"
        "    b = f(a, 2)\n    return a + b, b + [x], len(b)",
        "g(3)",
    ),
    "characters of lines": (
        "def f(g, r, c):\n    n = 0\n    for i in range(r):\n        for j in range(c):\n"
        "            n += (g[i][j] == '#') * (i + 2 * j) + (g[-1][j] in 'E.')\n"
        "    return n, ord(g[r - 1][c - 1])",
        "f(['S.#.', '..#.', '#..E'], np.int64(3), np.int64(4))",
    ),
}

#: Those that are not to be refused, beside the first three.
RUN = (
    *("a history of lists", "texts in groups", "brackets", "a long text", "groups of neighbours"),
    *("a cache that forgets", "columns of a path", "characters of lines"),
    *("copies of lists of the caller grow", "a list that is one function's, and another's"),
)

NAMES = {
    each.__name__: each
    for each in (
        *(Counter, defaultdict, deque, dataclass, field, reduce),
        *(accumulate, chain, combinations, islice, permutations, product),
    )
}


def plain(value):
    """The numbers of a result, in lists."""
    if isinstance(value, tuple | list | deque):
        return [plain(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


@pytest.mark.full("name", "a cache that forgets")
@pytest.mark.parametrize("name", PROGRAMS)
def test_python_means_the_same(name):
    source, call = PROGRAMS[name]
    source = textwrap.dedent(source)
    names = {"np": np, **NAMES}
    exec(re.sub(r"(: Tensor\[.*?\])(?=[,)=])|-> Tensor\[.*?\](?=:)", "", source), names)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            f = nnmagic.compile(source, engine="numpy", namespace={"np": np, **NAMES}, cache=False)
            got = eval(call, {"np": np, call.strip("[").partition("(")[0]: f})
    except nnmagic.TinyNNError:
        assert name not in (*list(PROGRAMS)[:3], *RUN)
        return
    wanted = eval(call, names)
    assert plain(got) == plain(wanted)
