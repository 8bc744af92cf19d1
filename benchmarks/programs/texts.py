"""Texts and tables of integers: distances, hashes, codes, searches and dynamic programs."""

from __future__ import annotations

import numpy as np


def _letters(rng, *shape):
    """Return small letters, of which some are frequent, as bytes."""
    return (97 + np.minimum(rng.geometric(0.2, shape) - 1, 25)).astype(np.uint8)


class edit_distance:
    """Return how many letters must be inserted, deleted or changed to make one text of another."""

    types = 'a: Tensor[("n",), u8], b: Tensor[("m",), u8]'
    sizes = (60, 1000)

    def draw(rng, n):
        return {"a": _letters(rng, n), "b": _letters(rng, n + 5)}

    def arrays(a, b):
        steps = np.arange(len(b) + 1)
        row = steps
        for i in range(len(a)):
            changed = row[:-1] + (b != a[i])
            best = np.concatenate((row[:1] + 1, np.minimum(row[1:] + 1, changed)))
            row = np.minimum.accumulate(best - steps) + steps
        return row[-1]

    def loops(a, b):
        m = len(b)
        row = np.zeros(m + 1, np.int64)
        for j in range(m + 1):
            row[j] = j
        for i in range(len(a)):
            diagonal = row[0]
            row[0] = i + 1
            for j in range(m):
                changed = diagonal + (0 if a[i] == b[j] else 1)
                diagonal = row[j + 1]
                row[j + 1] = min(changed, min(row[j], diagonal) + 1)
        return row[m]

    def mixed(a, b):
        row = np.arange(len(b) + 1)
        for i in range(len(a)):
            best = np.minimum(row[1:] + 1, row[:-1] + (b != a[i]))
            row[0] = i + 1
            for j in range(len(b)):
                row[j + 1] = min(best[j], row[j] + 1)
        return row[-1]


class longest_common_subsequence:
    """Return the length of the longest common subsequence of two texts, and those of starts of the first."""

    types = 'a: Tensor[("n",), u8], b: Tensor[("m",), u8]'
    sizes = (60, 1200)

    def draw(rng, n):
        return {"a": _letters(rng, n), "b": _letters(rng, n + 7)}

    def arrays(a, b):
        length = np.zeros((len(a) + 1, len(b) + 1), np.int64)
        for i in range(len(a)):
            best = np.where(b == a[i], length[i, :-1] + 1, length[i, 1:])
            length[i + 1, 1:] = np.maximum.accumulate(best)
        return length[-1, -1], length[:, -1]

    def loops(a, b):
        n, m = len(a), len(b)
        length = np.zeros((n + 1, m + 1), np.int64)
        for i in range(n):
            for j in range(m):
                if a[i] == b[j]:
                    length[i + 1, j + 1] = length[i, j] + 1
                else:
                    length[i + 1, j + 1] = max(length[i, j + 1], length[i + 1, j])
        return length[n, m], length[:, m].copy()

    def mixed(a, b):
        length = np.zeros((len(a) + 1, len(b) + 1), np.int64)
        for i in range(len(a)):
            best = np.where(b == a[i], length[i, :-1] + 1, length[i, 1:])
            longest = 0
            for j in range(len(b)):
                longest = max(longest, best[j])
                length[i + 1, j + 1] = longest
        return length[-1, -1], length[:, -1].copy()


class crc32:
    """Return the CRC-32 of each message of a batch, by a table."""

    types = 'messages: Tensor[("m", "n"), u8]'
    sizes = (50, 10000)

    def draw(rng, n):
        return {"messages": rng.integers(0, 256, (64, n)).astype(np.uint8)}

    def arrays(messages):
        table = np.arange(256)
        for _ in range(8):
            table = np.where(table & 1 == 1, (table >> 1) ^ 0xEDB88320, table >> 1)
        crc = np.full(len(messages), 0xFFFFFFFF, np.int64)
        for k in range(messages.shape[1]):
            crc = table[(crc ^ messages[:, k]) & 255] ^ (crc >> 8)
        return crc ^ 0xFFFFFFFF

    def loops(messages):
        table = np.zeros(256, np.int64)
        for k in range(256):
            c = k
            for _ in range(8):
                c = (c >> 1) ^ 0xEDB88320 if c & 1 else c >> 1
            table[k] = c
        m, n = messages.shape
        result = np.zeros(m, np.int64)
        for i in range(m):
            crc = 0xFFFFFFFF
            for k in range(n):
                crc = table[(crc ^ np.int64(messages[i, k])) & 255] ^ (crc >> 8)
            result[i] = crc ^ 0xFFFFFFFF
        return result

    def mixed(messages):
        table = np.arange(256)
        for _ in range(8):
            table = np.where(table & 1 == 1, (table >> 1) ^ 0xEDB88320, table >> 1)
        result = np.full(len(messages), 0xFFFFFFFF)
        for i, message in enumerate(messages):
            crc = 0xFFFFFFFF
            for byte in message.astype(np.int64):
                crc = table[(crc ^ byte) & 255] ^ (crc >> 8)
            result[i] ^= crc
        return result


class hash_buckets:
    """Return the FNV-1a hash of each word of a list, and how many words fall into each of 64 buckets."""

    types = 'words: Tensor[("m", "n"), u8]'
    sizes = (500, 200000)

    def draw(rng, n):
        return {"words": _letters(rng, n, 12)}

    def arrays(words):
        code = np.full(len(words), 2166136261, np.int64)
        for k in range(words.shape[1]):
            code = ((code ^ words[:, k]) * 16777619) & 0xFFFFFFFF
        return code, np.bincount(code % 64, minlength=64)

    def loops(words):
        m, n = words.shape
        codes = np.zeros(m, np.int64)
        counts = np.zeros(64, np.int64)
        for i in range(m):
            code = 2166136261
            for k in range(n):
                code = ((code ^ np.int64(words[i, k])) * 16777619) & 0xFFFFFFFF
            codes[i] = code
            counts[code % 64] += 1
        return codes, counts

    def mixed(words):
        codes = np.zeros(len(words), np.int64)
        for i, word in enumerate(words):
            code = 2166136261
            for letter in word.astype(np.int64):
                code = ((code ^ letter) * 16777619) & 0xFFFFFFFF
            codes[i] = code
        return codes, np.bincount(codes % 64, minlength=64)


class run_lengths:
    """Return the runs of equal bytes: the byte of each and its length."""

    types = 'data: Tensor[("n",), u8]'
    sizes = (5000, 1000000)

    def draw(rng, n):
        return {"data": np.repeat(rng.integers(0, 256, n), rng.geometric(0.1, n))[:n].astype(np.uint8)}

    def arrays(data):
        last = np.flatnonzero(data[1:] != data[:-1])
        ends = np.append(last, len(data) - 1)
        return data[ends], np.diff(ends, prepend=-1)

    def loops(data):
        n = len(data)
        values = np.empty_like(data)
        lengths = np.zeros(n, np.int64)
        count = 0
        values[0] = data[0]
        lengths[0] = 1
        for i in range(1, n):
            if data[i] != data[i - 1]:
                count += 1
                values[count] = data[i]
            lengths[count] += 1
        return values[: count + 1], lengths[: count + 1]

    def mixed(data):
        ends = data[1:] != data[:-1]
        lengths = np.zeros(np.sum(ends) + 1, np.int64)
        values = np.zeros(np.sum(ends) + 1, np.uint8)
        count = 0
        begin = 0
        for i in np.flatnonzero(ends):
            values[count] = data[i]
            lengths[count] = i + 1 - begin
            begin = i + 1
            count += 1
        values[count] = data[-1]
        lengths[count] = len(data) - begin
        return values, lengths


class vigenere:
    """Return a text whose small letters are moved by those of a key, and nothing else."""

    types = 'text: Tensor[("n",), u8], key: Tensor[("k",), u8]'
    sizes = (2000, 200000)

    def draw(rng, n):
        return {
            "text": np.where(rng.random(n) < 0.2, 32, _letters(rng, n)).astype(np.uint8),
            "key": _letters(rng, 9),
        }

    def arrays(text, key):
        shift = key[np.arange(len(text)) % len(key)] - 97
        small = (text >= 97) & (text <= 122)
        return np.where(small, (text - 97 + shift) % 26 + 97, text)

    def loops(text, key):
        coded = np.empty_like(text)
        for i in range(len(text)):
            letter = text[i]
            if 97 <= letter <= 122:
                shift = key[i % len(key)] - 97
                coded[i] = (letter - 97 + shift) % 26 + 97
            else:
                coded[i] = letter
        return coded

    def mixed(text, key):
        n, k = len(text), len(key)
        coded = text.copy()
        for begin in range(0, n, k):
            block = text[begin : begin + k]
            moved = (block - 97 + key[: len(block)] - 97) % 26 + 97
            coded[begin : begin + k] = np.where((block >= 97) & (block <= 122), moved, block)
        return coded

    def jax(jax, text, key):
        shift = key[jax.numpy.arange(len(text)) % len(key)] - 97
        small = (text >= 97) & (text <= 122)
        return jax.numpy.where(small, (text - 97 + shift) % 26 + 97, text)


class chained_cipher:
    """Return bytes that are coded in blocks of 16, each of which depends on the one before."""

    types = 'data: Tensor[("n", 16), u8], key: Tensor[(16,), u8], table: Tensor[(256,), u8]'
    sizes = (200, 20000)

    def draw(rng, n):
        data, key = rng.integers(0, 256, (n, 16)), rng.integers(0, 256, 16)
        table = rng.permutation(256)
        return {
            name: value.astype(np.uint8) for name, value in {"data": data, "key": key, "table": table}.items()
        }

    def arrays(data, key, table):
        coded = np.empty_like(data)
        state = key
        for i in range(len(data)):
            state = np.roll(table[data[i] ^ state ^ key], 5)
            coded[i] = state
        return coded

    def loops(data, key, table):
        coded = np.empty_like(data)
        state = key.copy()
        for i in range(len(data)):
            for j in range(16):
                coded[i, (j + 5) % 16] = table[data[i, j] ^ state[j] ^ key[j]]
            for j in range(16):
                state[j] = coded[i, j]
        return coded

    def mixed(data, key, table):
        coded = np.empty_like(data)
        state = key
        for i in range(len(data)):
            block = data[i] ^ state ^ key
            for j in range(16):
                coded[i, (j + 5) % 16] = table[block[j]]
            state = coded[i].copy()
        return coded


class bigrams:
    """Return how often each letter follows each other one, and the most frequent follower of each."""

    types = 'text: Tensor[("m", "n"), u8]'
    sizes = (100, 50000)

    def draw(rng, n):
        return {"text": _letters(rng, 20, n)}

    def arrays(text):
        letters = text.astype(np.int64) - 97
        pairs = 26 * letters[:, :-1] + letters[:, 1:]
        counts = np.bincount(pairs.ravel(), minlength=676).reshape(26, 26)
        return counts, counts.argmax(axis=1)

    def loops(text):
        m, n = text.shape
        counts = np.zeros((26, 26), np.int64)
        for i in range(m):
            for j in range(n - 1):
                counts[text[i, j] - 97, text[i, j + 1] - 97] += 1
        follower = np.zeros(26, np.int64)
        for a in range(26):
            for b in range(26):
                if counts[a, b] > counts[a, follower[a]]:
                    follower[a] = b
        return counts, follower

    def mixed(text):
        counts = np.zeros((26, 26), np.int64)
        for line in text:
            letters = line.astype(np.int64) - 97
            pairs = 26 * letters[:-1] + letters[1:]
            counts += np.bincount(pairs, minlength=676).reshape(26, 26)
        return counts, counts.argmax(axis=1)


class substring_search:
    """Return the places where a pattern occurs in a text."""

    types = 'text: Tensor[("n",), u8], pattern: Tensor[("m",), u8]'
    sizes = (5000, 1000000)

    def draw(rng, n):
        text = _letters(rng, n)
        return {"text": text, "pattern": text[n // 3 : n // 3 + 4].copy()}

    def arrays(text, pattern):
        places = len(text) - len(pattern) + 1
        hit = np.ones(places, np.bool_)
        for k in range(len(pattern)):
            hit &= text[k : k + places] == pattern[k]
        return np.flatnonzero(hit)

    def loops(text, pattern):
        found = np.zeros(len(text), np.int64)
        count = 0
        for i in range(len(text) - len(pattern) + 1):
            k = 0
            while k < len(pattern) and text[i + k] == pattern[k]:
                k += 1
            if k == len(pattern):
                found[count] = i
                count += 1
        return found[:count]

    def mixed(text, pattern):
        m = len(pattern)
        found = np.zeros(len(text), np.int64)
        count = 0
        for i in np.flatnonzero(text[: len(text) - m + 1] == pattern[0]):
            if (text[i : i + m] == pattern).all():
                found[count] = i
                count += 1
        return found[:count]


class base64:
    """Return four letters for each three bytes."""

    types = 'data: Tensor[("n",), u8], alphabet: Tensor[(64,), u8]'
    sizes = (6000, 1500000)

    def draw(rng, n):
        letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        return {
            "data": rng.integers(0, 256, n).astype(np.uint8),
            "alphabet": np.frombuffer(letters, np.uint8),
        }

    def arrays(data, alphabet):
        a, b, c = data.reshape(-1, 3).T
        codes = np.stack((a >> 2, (a & 3) << 4 | b >> 4, (b & 15) << 2 | c >> 6, c & 63), axis=1)
        return alphabet[codes.ravel()]

    def loops(data, alphabet):
        coded = np.zeros(len(data) // 3 * 4, np.uint8)
        for i in range(len(data) // 3):
            word = np.int64(data[3 * i]) << 16 | np.int64(data[3 * i + 1]) << 8 | np.int64(data[3 * i + 2])
            for k in range(4):
                coded[4 * i + k] = alphabet[word >> (18 - 6 * k) & 63]
        return coded

    def mixed(data, alphabet):
        wide = data.astype(np.int64)
        words = wide[::3] << 16 | wide[1::3] << 8 | wide[2::3]
        coded = np.zeros((len(words), 4), np.uint8)
        for k in range(4):
            coded[:, k] = alphabet[words >> (18 - 6 * k) & 63]
        return coded.ravel()


class knapsack:
    """Return the largest value that fits into a knapsack, and which things it holds."""

    types = 'weight: Tensor[("n",), i64], value: Tensor[("n",), i64], capacity: i64'
    sizes = (30, 200)

    def draw(rng, n):
        return {"weight": rng.integers(1, 60, n), "value": rng.integers(1, 1000, n), "capacity": 10 * n}

    def arrays(weight, value, capacity):
        n = len(weight)
        best = np.zeros((n + 1, capacity + 1), np.int64)
        for i in range(n):
            w = weight[i]
            best[i + 1] = best[i]
            best[i + 1, w:] = np.maximum(best[i, w:], best[i, :-w] + value[i])
        chosen = np.zeros(n, np.bool_)
        room = capacity
        for i in range(n - 1, -1, -1):
            if best[i + 1, room] != best[i, room]:
                chosen[i] = True
                room -= weight[i]
        return best[n, capacity], chosen

    def loops(weight, value, capacity):
        n = len(weight)
        best = np.zeros((n + 1, capacity + 1), np.int64)
        for i in range(n):
            for room in range(capacity + 1):
                best[i + 1, room] = best[i, room]
                if room >= weight[i]:
                    taken = best[i, room - weight[i]] + value[i]
                    best[i + 1, room] = max(taken, best[i, room])
        chosen = np.zeros(n, np.bool_)
        room = capacity
        for i in range(n - 1, -1, -1):
            if best[i + 1, room] != best[i, room]:
                chosen[i] = True
                room -= weight[i]
        return best[n, capacity], chosen

    def mixed(weight, value, capacity):
        n = len(weight)
        best = np.zeros(capacity + 1, np.int64)
        better = np.zeros((n, capacity + 1), np.bool_)
        for i in range(n):
            w = weight[i]
            before = best.copy()
            for room in range(w, capacity + 1):
                best[room] = max(before[room], before[room - w] + value[i])
            better[i] = best != before
        chosen = np.zeros(n, np.bool_)
        room = capacity
        for i in range(n - 1, -1, -1):
            if better[i, room]:
                chosen[i] = True
                room -= weight[i]
        return best[capacity], chosen


class coin_change:
    """Return in how many ways coins give each amount, and the fewest coins for it."""

    types = 'coins: Tensor[("k",), i64], amount: i64'
    sizes = (500, 20000)

    def draw(_, n):
        return {"coins": np.array([1, 2, 5, 10, 20, 50]), "amount": n}

    def arrays(coins, amount):
        ways = np.zeros(amount + 1, np.int64)
        ways[0] = 1
        fewest = np.arange(amount + 1)
        for coin in coins:
            for rest in range(coin):
                ways[rest::coin] = np.cumsum(ways[rest::coin])
                spent = np.arange(len(fewest[rest::coin]))
                fewest[rest::coin] = np.minimum.accumulate(fewest[rest::coin] - spent) + spent
        return ways, fewest

    def loops(coins, amount):
        ways = np.zeros(amount + 1, np.int64)
        fewest = np.zeros(amount + 1, np.int64)
        ways[0] = 1
        for total in range(amount + 1):
            fewest[total] = total
        for k in range(len(coins)):
            coin = coins[k]
            for total in range(coin, amount + 1):
                ways[total] += ways[total - coin]
                fewest[total] = min(fewest[total], fewest[total - coin] + 1)
        return ways, fewest

    def mixed(coins, amount):
        ways = np.zeros(amount + 1, np.int64)
        ways[0] = 1
        fewest = np.arange(amount + 1)
        for coin in coins:
            for low in range(coin, amount + 1, coin):
                high = min(low + coin, amount + 1)
                ways[low:high] += ways[low - coin : high - coin]
                fewest[low:high] = np.minimum(fewest[low:high], fewest[low - coin : high - coin] + 1)
        return ways, fewest


class queens:
    """Return in how many ways n queens stand on a board, none of which threatens another."""

    types = "n: i64"
    sizes = (7, 11)

    def draw(_, n):
        return {"n": n}

    def arrays(n):
        columns = np.zeros(1, np.int64)
        left = np.zeros(1, np.int64)
        right = np.zeros(1, np.int64)
        for _ in range(n):
            taken = columns | left | right
            place, column = np.nonzero((taken[:, None] >> np.arange(n)) & 1 == 0)
            queen = 1 << column
            columns = columns[place] | queen
            left = (left[place] | queen) << 1
            right = (right[place] | queen) >> 1
        return len(columns)

    def loops(n):
        full = (1 << n) - 1
        columns = np.zeros(n + 1, np.int64)
        left = np.zeros(n + 1, np.int64)
        right = np.zeros(n + 1, np.int64)
        free = np.zeros(n + 1, np.int64)
        free[0] = full
        row = 0
        count = 0
        while row >= 0:
            if free[row] == 0:
                row -= 1
                continue
            queen = free[row] & -free[row]
            free[row] ^= queen
            if row == n - 1:
                count += 1
                continue
            columns[row + 1] = columns[row] | queen
            left[row + 1] = (left[row] | queen) << 1
            right[row + 1] = (right[row] | queen) >> 1
            row += 1
            free[row] = full & ~(columns[row] | left[row] | right[row])
        return count

    def mixed(n):
        stack = np.zeros((n * n + 1, 3), np.int64)
        rows = np.zeros(n * n + 1, np.int64)
        top = 1
        count = 0
        while top > 0:
            top -= 1
            state = stack[top].copy()
            row = rows[top]
            if row == n:
                count += 1
                continue
            taken = state[0] | state[1] | state[2]
            for k in range(n):
                if (taken >> k) & 1 == 0:
                    new = state | (1 << k)
                    stack[top] = new[0], new[1] << 1, new[2] >> 1
                    rows[top] = row + 1
                    top += 1
        return count
