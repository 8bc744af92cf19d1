"""Finance: options, backtests and risk."""

from __future__ import annotations

import math

import numpy as np


def _walk(rng, n):
    return 50 * np.exp(np.cumsum(0.01 * rng.standard_normal(n)))


class american_put:
    """Return the price of an American put on a binomial tree, whose arrays lose a node in each step back."""

    types = "spot: f64, strike: f64, rate: f64, sigma: f64, years: f64, n: i64"
    sizes = (40, 1000)
    single = False  # its number of steps is an i64 among floats

    def draw(rng, n):
        return {"spot": 100.0, "strike": 105.0, "rate": 0.04, "sigma": 0.3, "years": 1.0, "n": n}

    def arrays(spot, strike, rate, sigma, years, n):
        dt = years / n
        up = np.exp(sigma * np.sqrt(dt))
        p = (np.exp(rate * dt) - 1 / up) / (up - 1 / up)
        discount = np.exp(-rate * dt)
        prices = spot * up ** (2.0 * np.arange(n + 1) - n)
        v = np.maximum(strike - prices, 0.0)
        for _ in range(n):
            prices = prices[1:] / up
            v = np.maximum(discount * (p * v[1:] + (1 - p) * v[:-1]), strike - prices)
        return v[0]

    def loops(spot, strike, rate, sigma, years, n):
        dt = years / n
        up = math.exp(sigma * math.sqrt(dt))
        p = (math.exp(rate * dt) - 1 / up) / (up - 1 / up)
        discount = math.exp(-rate * dt)
        prices = np.empty(n + 1)
        v = np.empty(n + 1)
        for j in range(n + 1):
            prices[j] = spot * up ** (2.0 * j - n)
            v[j] = max(strike - prices[j], 0.0)
        for k in range(n, 0, -1):
            for j in range(k):
                prices[j] = prices[j + 1] / up
                v[j] = max(discount * (p * v[j + 1] + (1 - p) * v[j]), strike - prices[j])
        return v[0]

    def mixed(spot, strike, rate, sigma, years, n):
        dt = years / n
        up = np.exp(sigma * np.sqrt(dt))
        p = (np.exp(rate * dt) - 1 / up) / (up - 1 / up)
        discount = np.exp(-rate * dt)
        prices = spot * up ** (2.0 * np.arange(n + 1) - n)
        v = np.maximum(strike - prices, 0.0)
        for k in range(n, 0, -1):
            prices[:k] = prices[1 : k + 1] / up
            v[:k] = np.maximum(discount * (p * v[1 : k + 1] + (1 - p) * v[:k]), strike - prices[:k])
        return v[0]


class crossover_backtest:
    """Return the equity of a strategy that holds an asset while its quick average is above its calm one."""

    types = 'price: Tensor[("n",), f64], fast: i64, slow: i64, cost: f64'
    sizes = (500, 200000)
    single = False  # lengths of windows are i64 among floats, and sums of many prices need f64

    def draw(rng, n):
        return {"price": _walk(rng, n), "fast": 10, "slow": 40, "cost": 0.0005}

    def arrays(price, fast, slow, cost):
        total = np.concatenate((np.zeros(1), np.cumsum(price)))
        quick = (total[slow:] - total[slow - fast : -fast]) / fast
        calm = (total[slow:] - total[:-slow]) / slow
        holds = quick > calm
        gains = np.where(holds[:-1], np.diff(np.log(price[slow - 1 :])), 0.0)
        trades = holds[1:] != holds[:-1]
        return np.exp(np.cumsum(gains - cost * trades)), np.sum(trades)

    def loops(price, fast, slow, cost):
        n = len(price)
        equity = np.empty(n - slow)
        quick, calm = 0.0, 0.0
        trades = 0
        wealth = 0.0
        held = False
        for i in range(n):
            quick += price[i]
            calm += price[i]
            if i >= fast:
                quick -= price[i - fast]
            if i >= slow:
                calm -= price[i - slow]
            if i < slow - 1:
                continue
            holds = quick / fast > calm / slow
            if i >= slow:
                if held:
                    wealth += math.log(price[i] / price[i - 1])
                if holds != held:
                    wealth -= cost
                    trades += 1
                equity[i - slow] = math.exp(wealth)
            held = holds
        return equity, trades

    def mixed(price, fast, slow, cost):
        n = len(price)
        wealth = np.zeros(n - slow + 1)
        held = price[slow - fast : slow].mean() > price[:slow].mean()
        trades = 0
        for i in range(slow, n):
            holds = price[i + 1 - fast : i + 1].mean() > price[i + 1 - slow : i + 1].mean()
            k = i - slow
            wealth[k + 1] = wealth[k]
            if held:
                wealth[k + 1] += np.log(price[i] / price[i - 1])
            if holds != held:
                wealth[k + 1] -= cost
                trades += 1
            held = holds
        return np.exp(wealth[1:]), trades


class bollinger_bands:
    """Return the moving average of 20 days and the bands of two deviations around it."""

    types = 'price: Tensor[("n",), f64]'
    sizes = (300, 100000)

    def draw(rng, n):
        return {"price": _walk(rng, n)}

    def arrays(price):
        windows = np.lib.stride_tricks.sliding_window_view(price, 20)
        middle = windows.mean(axis=1)
        width = 2 * windows.std(axis=1)
        return middle, middle - width, middle + width

    def loops(price):
        n = len(price) - 19
        middle = np.empty_like(price[:n])
        lower = np.empty_like(price[:n])
        upper = np.empty_like(price[:n])
        for i in range(n):
            mean = 0.0
            for k in range(20):
                mean += price[i + k]
            mean /= 20
            squares = 0.0
            for k in range(20):
                squares += (price[i + k] - mean) ** 2
            width = 2 * math.sqrt(squares / 20)
            middle[i] = mean
            lower[i] = mean - width
            upper[i] = mean + width
        return middle, lower, upper

    def mixed(price):
        n = len(price) - 19
        middle = np.empty_like(price[:n])
        lower = np.empty_like(price[:n])
        upper = np.empty_like(price[:n])
        for i in range(n):
            window = price[i : i + 20]
            middle[i] = window.mean()
            width = 2 * window.std()
            lower[i] = middle[i] - width
            upper[i] = middle[i] + width
        return middle, lower, upper


class drawdowns:
    """Return the largest loss since a peak of each of several assets, and the most days below a peak."""

    types = 'price: Tensor[("m", "n"), f64]'
    sizes = (100, 30000)

    def draw(rng, n):
        return {"price": np.stack([_walk(rng, n) for _ in range(16)])}

    def arrays(price):
        peak = np.maximum.accumulate(price, axis=1)
        worst = (price / peak - 1).min(axis=1)
        days = np.arange(price.shape[1])
        since = np.maximum.accumulate(np.where(price == peak, days, 0), axis=1)
        return worst, (days - since).max(axis=1)

    def loops(price):
        m, n = price.shape
        worst = np.zeros_like(price[:, 0])
        longest = np.zeros(m, np.int64)
        for i in range(m):
            peak = price[i, 0]
            days = 0
            for t in range(n):
                if price[i, t] >= peak:
                    peak = price[i, t]
                    days = 0
                else:
                    days += 1
                worst[i] = min(worst[i], price[i, t] / peak - 1)
                longest[i] = max(longest[i], days)
        return worst, longest

    def mixed(price):
        m, n = price.shape
        worst = np.empty_like(price[:, 0])
        longest = np.zeros(m, np.int64)
        for i in range(m):
            peak = np.maximum.accumulate(price[i])
            worst[i] = (price[i] / peak - 1).min()
            days = 0
            for t in range(n):
                days = days + 1 if price[i, t] < peak[t] else 0
                longest[i] = max(longest[i], days)
        return worst, longest

    def jax(jax, price):
        peak = jax.lax.cummax(price, axis=1)
        days = jax.numpy.arange(price.shape[1])
        since = jax.lax.cummax(jax.numpy.where(price == peak, days, 0), axis=1)
        return (price / peak - 1).min(axis=1), (days - since).max(axis=1)


class portfolio_risk:
    """Return the volatility of a portfolio for each day, by covariances that forget the past."""

    types = 'returns: Tensor[("n", "m"), f64], weights: Tensor[("m",), f64], decay: f64'
    sizes = (40, 5000)

    def draw(rng, n):
        weights = rng.random(12)
        return {"returns": 0.01 * rng.standard_normal((n, 12)), "weights": weights, "decay": 0.94}

    def arrays(returns, weights, decay):
        covariance = np.outer(returns[0], returns[0])
        path = np.empty_like(returns[:, 0])
        for t in range(len(returns)):
            covariance = decay * covariance + (1 - decay) * np.outer(returns[t], returns[t])
            path[t] = np.sqrt(weights @ covariance @ weights)
        return path

    def loops(returns, weights, decay):
        n, m = returns.shape
        covariance = np.zeros((m, m))
        path = np.zeros_like(returns[:, 0])
        for i in range(m):
            for j in range(m):
                covariance[i, j] = returns[0, i] * returns[0, j]
        for t in range(n):
            variance = 0.0
            for i in range(m):
                for j in range(m):
                    new = returns[t, i] * returns[t, j]
                    covariance[i, j] = decay * covariance[i, j] + (1 - decay) * new
                    variance += weights[i] * covariance[i, j] * weights[j]
            path[t] = math.sqrt(variance)
        return path

    def mixed(returns, weights, decay):
        n, m = returns.shape
        covariance = np.outer(returns[0], returns[0])
        path = np.zeros_like(returns[:, 0])
        for t in range(n):
            row = returns[t]
            for i in range(m):
                covariance[i] = decay * covariance[i] + (1 - decay) * row[i] * row
                path[t] += weights[i] * np.sum(covariance[i] * weights)
        return np.sqrt(path)

    def jax(jax, returns, weights, decay):
        def step(covariance, row):
            covariance = decay * covariance + (1 - decay) * jax.numpy.outer(row, row)
            return covariance, jax.numpy.sqrt(weights @ covariance @ weights)

        return jax.lax.scan(step, jax.numpy.outer(returns[0], returns[0]), returns)[1]


def _tail(x):
    """Return the tail of the normal distribution beyond abs(x), by a polynomial."""
    t = 1 / (1 + 0.2316419 * abs(x))
    poly = 0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429)))
    return 0.3989422804014327 * np.exp(-0.5 * x * x) * t * poly


class black_scholes:
    """Return the prices of European calls and puts."""

    types = (
        'spot: Tensor[("n",), f64], strike: Tensor[("n",), f64], years: Tensor[("n",), f64], '
        "rate: f64, sigma: f64"
    )
    sizes = (1000, 200000)
    helpers = (_tail,)
    tolerance = 1e-6  # jax has the distribution itself

    def draw(rng, n):
        spot, strike, years = rng.uniform(50, 150, n), rng.uniform(50, 150, n), rng.uniform(0.1, 3, n)
        return {"spot": spot, "strike": strike, "years": years, "rate": 0.03, "sigma": 0.25}

    def arrays(spot, strike, years, rate, sigma):
        width = sigma * np.sqrt(years)
        d1 = (np.log(spot / strike) + (rate + sigma**2 / 2) * years) / width
        d2 = d1 - width
        first = np.where(d1 > 0, 1 - _tail(d1), _tail(d1))
        second = np.where(d2 > 0, 1 - _tail(d2), _tail(d2))
        owed = strike * np.exp(-rate * years)
        call = spot * first - owed * second
        return call, call - spot + owed

    def loops(spot, strike, years, rate, sigma):
        call = np.empty_like(spot)
        put = np.empty_like(spot)
        for i in range(len(spot)):
            width = sigma * math.sqrt(years[i])
            d1 = (math.log(spot[i] / strike[i]) + (rate + sigma**2 / 2) * years[i]) / width
            d2 = d1 - width
            first = 1 - _tail(d1) if d1 > 0 else _tail(d1)
            second = 1 - _tail(d2) if d2 > 0 else _tail(d2)
            owed = strike[i] * math.exp(-rate * years[i])
            call[i] = spot[i] * first - owed * second
            put[i] = call[i] - spot[i] + owed
        return call, put

    def mixed(spot, strike, years, rate, sigma):
        width = sigma * np.sqrt(years)
        owed = strike * np.exp(-rate * years)
        d1 = (np.log(spot / strike) + (rate + sigma**2 / 2) * years) / width
        call = np.empty_like(spot)
        for i in range(len(spot)):
            d2 = d1[i] - width[i]
            first = 1 - _tail(d1[i]) if d1[i] > 0 else _tail(d1[i])
            second = 1 - _tail(d2) if d2 > 0 else _tail(d2)
            call[i] = spot[i] * first - owed[i] * second
        return call, call - spot + owed

    def jax(jax, spot, strike, years, rate, sigma):
        width = sigma * jax.numpy.sqrt(years)
        d1 = (jax.numpy.log(spot / strike) + (rate + sigma**2 / 2) * years) / width
        owed = strike * jax.numpy.exp(-rate * years)
        call = spot * jax.scipy.special.ndtr(d1) - owed * jax.scipy.special.ndtr(d1 - width)
        return call, call - spot + owed


class garch_filter:
    """Return the variances of GARCH(1, 1) of several series, and the likelihood of each."""

    types = 'returns: Tensor[("n", "m"), f64], omega: f64, alpha: f64, beta: f64'
    sizes = (150, 20000)

    def draw(rng, n):
        return {"returns": rng.standard_normal((n, 10)), "omega": 0.05, "alpha": 0.1, "beta": 0.85}

    def arrays(returns, omega, alpha, beta):
        variance = np.empty_like(returns)
        variance[0] = np.mean(returns**2, axis=0)
        for t in range(1, len(returns)):
            variance[t] = omega + alpha * returns[t - 1] ** 2 + beta * variance[t - 1]
        terms = np.log(2 * np.pi * variance) + returns**2 / variance
        return variance, -0.5 * terms.sum(axis=0)

    def loops(returns, omega, alpha, beta):
        n, m = returns.shape
        variance = np.empty_like(returns)
        likelihood = np.zeros_like(returns[0])
        for j in range(m):
            squares = 0.0
            for t in range(n):
                squares += returns[t, j] ** 2
            now = squares / n
            total = 0.0
            for t in range(n):
                variance[t, j] = now
                total += math.log(2 * math.pi * now) + returns[t, j] ** 2 / now
                now = omega + alpha * returns[t, j] ** 2 + beta * now
            likelihood[j] = -0.5 * total
        return variance, likelihood

    def mixed(returns, omega, alpha, beta):
        n, m = returns.shape
        variance = np.empty_like(returns)
        likelihood = np.empty_like(returns[0])
        for j in range(m):
            squares = returns[:, j] ** 2
            variance[0, j] = squares.mean()
            for t in range(1, n):
                variance[t, j] = omega + alpha * squares[t - 1] + beta * variance[t - 1, j]
            terms = np.log(2 * np.pi * variance[:, j]) + squares / variance[:, j]
            likelihood[j] = -0.5 * terms.sum()
        return variance, likelihood

    def jax(jax, returns, omega, alpha, beta):
        def step(now, row):
            return omega + alpha * row**2 + beta * now, now

        variance = jax.lax.scan(step, (returns**2).mean(axis=0), returns)[1]
        terms = jax.numpy.log(2 * jax.numpy.pi * variance) + returns**2 / variance
        return variance, -0.5 * terms.sum(axis=0)


def _smooth(x, alpha):
    y = np.empty_like(x)
    y[0] = x[0]
    for t in range(1, len(x)):
        y[t] = alpha * x[t] + (1 - alpha) * y[t - 1]
    return y


class exponential_averages:
    """Return the difference of two exponential averages of several assets, and that to its own average."""

    types = 'price: Tensor[("n", "m"), f64]'
    sizes = (100, 20000)
    helpers = (_smooth,)

    def draw(rng, n):
        return {"price": np.stack([_walk(rng, n) for _ in range(10)], axis=1)}

    def arrays(price):
        trend = _smooth(price, 2 / 13) - _smooth(price, 2 / 27)
        return trend, trend - _smooth(trend, 0.2)

    def loops(price):
        n, m = price.shape
        trend = np.empty_like(price)
        change = np.empty_like(price)
        for j in range(m):
            fast = price[0, j]
            slow = price[0, j]
            average = fast - slow
            for t in range(n):
                fast += 2 / 13 * (price[t, j] - fast)
                slow += 2 / 27 * (price[t, j] - slow)
                trend[t, j] = fast - slow
                average += 0.2 * (trend[t, j] - average)
                change[t, j] = trend[t, j] - average
        return trend, change

    def mixed(price):
        trend = np.empty_like(price)
        change = np.empty_like(price)
        fast = price[0].copy()
        slow = price[0].copy()
        average = np.zeros_like(fast)
        for t, row in enumerate(price):
            fast += 2 / 13 * (row - fast)
            slow += 2 / 27 * (row - slow)
            trend[t] = fast - slow
            average += 0.2 * (trend[t] - average)
            change[t] = trend[t] - average
        return trend, change

    def jax(jax, price):
        def step(state, row):
            fast, slow, average = state
            fast = fast + 2 / 13 * (row - fast)
            slow = slow + 2 / 27 * (row - slow)
            average = average + 0.2 * (fast - slow - average)
            return (fast, slow, average), (fast - slow, fast - slow - average)

        return jax.lax.scan(step, (price[0], price[0], jax.numpy.zeros_like(price[0])), price)[1]


class bond_yields:
    """Return the yields of bonds of ten years with coupons each half-year, by Newton's method."""

    types = 'price: Tensor[("n",), f64], coupon: Tensor[("n",), f64]'
    sizes = (30, 5000)

    def draw(rng, n):
        return {"price": rng.uniform(80, 120, n), "coupon": rng.uniform(0.5, 4, n)}

    def arrays(price, coupon):
        times = np.arange(1, 21)
        flows = np.repeat(coupon[:, None], 20, axis=1)
        flows[:, -1] += 100
        rate = coupon / 100
        for _ in range(6):
            values = flows / (1 + rate[:, None]) ** times
            slope = (times * values).sum(axis=1) / (1 + rate)
            rate = rate + (values.sum(axis=1) - price) / slope
        return 2 * rate

    def loops(price, coupon):
        rate = np.empty_like(price)
        for i in range(len(price)):
            y = coupon[i] / 100
            for _ in range(6):
                discount = 1 / (1 + y)
                value = 100 + coupon[i]
                slope = 20 * value
                for k in range(19, 0, -1):
                    value = coupon[i] + value * discount
                    slope = k * coupon[i] + slope * discount
                value *= discount
                slope *= discount * discount
                y += (value - price[i]) / slope
            rate[i] = 2 * y
        return rate

    def mixed(price, coupon):
        times = np.arange(1, 21)
        rate = coupon / 100
        for i in range(len(price)):
            for _ in range(6):
                discounts = (1 + rate[i]) ** -times
                value = coupon[i] * discounts.sum() + 100 * discounts[-1]
                slope = coupon[i] * (times * discounts).sum() + 2000 * discounts[-1]
                rate[i] += (value - price[i]) * (1 + rate[i]) / slope
        return 2 * rate

    def jax(jax, price, coupon):
        times = jax.numpy.arange(1, 21)
        flows = jax.numpy.repeat(coupon[:, None], 20, axis=1).at[:, -1].add(100)

        def newton(_, rate):
            values = flows / (1 + rate[:, None]) ** times
            slope = (times * values).sum(axis=1) / (1 + rate)
            return rate + (values.sum(axis=1) - price) / slope

        return 2 * jax.lax.fori_loop(0, 6, newton, coupon / 100)
