"""The default pool, slowly: one NumPy object, full matrices, one expert at a time.

The twin of ``swordplay.kernels.pool``, written beside it. Re-expression is done here by multiplying
with the whole matrix T (the kernels: shears and stretches of packed triangles).
"""

from __future__ import annotations

import numpy as np

from swordplay.kernels import pool_losses as K
from swordplay.kernels import pool_plan as P
from swordplay.kernels.pool_layout import CHANGE, HUBER, LINEAR, LOGISTIC, SQUARE, SQUARED


def sigmoid(m):
    return 1.0 / (1.0 + np.exp(-m))


class Learner:
    """One second-order learner: weights w, covariance P."""

    def __init__(self, view, n, forgetting, cap, surprise):
        self.view, self.n, self.forgetting, self.cap, self.surprise = (
            view,
            n,
            forgetting,
            cap,
            surprise,
        )
        self.w, self.P, self.s2, self.count = np.zeros(n), np.eye(n), 0.0, 0.0


class NaivePool:
    def __init__(self, d, config):
        self.c, self.d, self.logistic = config, d, config.loss == LOGISTIC
        lg = self.logistic
        second = P.LABELS if lg else P.VALUES
        width = {LINEAR: d + 1, CHANGE: 2 * d + 3 if lg else d + 2, SQUARE: 2 * d + 1}
        self.second = [
            Learner(s.view, width[s.view], forgetting, cap, s.surprise)
            for s in second
            if config.second_order and width[s.view] <= config.widest
            for forgetting, cap in zip(s.forgetting, s.cap, strict=True)
        ]
        self.diagonal = np.array(() if self.second else P.ADAGRAD)
        self.steps = np.array(P.STEPS)
        self.twins = not lg
        self.W = np.zeros((len(self.steps), d + 1))
        self.D, self.G = (
            np.zeros((len(self.diagonal), d + 1)),
            np.zeros((len(self.diagonal), d + 1)),
        )
        self.txy, self.txx, self.tr = np.zeros((3, len(self.steps)))
        self.basic = 0 if lg else 1 + config.last_value
        N = self.N = (
            self.basic + len(self.steps) * (1 + self.twins) + len(self.diagonal) + len(self.second)
        )
        self.hedge, self.mix, self.top = (
            np.full((N, 4), 1 / N),
            np.full((N, 4), 1 / N if lg else 0.0),
            np.full(8, 1 / 8),
        )
        self.shares = np.array((1e-4, 1e-2, 1e-3, 1e-3) if lg else (1e-3, 1e-3, 1e-3, 1e-4))
        self.rates = 2.0 ** -np.array((1, 3, 5, 7) if lg else (4, 6, 8, 10))
        D = d + 1
        (
            self.mean,
            self.var,
            self.n,
            self.bmean,
            self.bsq,
            self.centre,
            self.scale,
            self.prev,
            self.moves,
        ) = np.zeros((9, D))
        self.bound = np.full(D, config.clip)
        self.rounds, self.last, self.last2, self.low, self.high = 0, 0.0, 0.0, 0.0, 0.0
        self.mse = self.loss = self.count = self.norm = self.mixnorm = self.spread = 0.0
        self.param = config.param

    # ---- predict
    def views(self, x):
        d = self.d
        inv = np.where(self.scale[:d] > 0, 1 / np.where(self.scale[:d] > 0, self.scale[:d], 1), 0)
        clip = self.bound[:d] + 50 / (self.n[:d] + 1e-3)
        x = np.where(np.isnan(x), self.mean[:d], np.clip(x, -1e100, 1e100))
        z = np.clip((x - self.centre[:d]) * inv, -clip, clip)
        dz = z - np.clip((self.prev[:d] - self.centre[:d]) * inv, -clip, clip)
        q = np.clip(z, -3, 3)
        dy = np.clip(self.last - self.last2, -self.c.clip, self.c.clip)
        lags = [self.last, self.last2]
        return {
            LINEAR: np.r_[1, z],
            SQUARE: np.r_[1, q, q * q - 1],
            CHANGE: np.r_[1, z, dz, lags] if self.logistic else np.r_[1, dz, dy],
        }

    def predict(self, x):
        d, lg = self.d, self.logistic
        self.V = V = self.views(np.asarray(x, float))
        self.f = V[LINEAR]
        p = []
        if not lg:
            s = self.scale[d] or 1.0
            p = [self.last] * self.c.last_value + [(self.mean[d] - self.centre[d]) / s]
        self.raw = self.W @ self.f
        p += list(self.raw)
        if self.twins:
            p += list(self.raw + np.clip(self.txy / (self.txx + 1e-300), -1, 1) * self.tr)
        self.rawd = self.D @ self.f
        p += list(self.rawd)
        for k in self.second:
            f = V[k.view]
            k.g, k.m = k.P @ f, k.w @ f
            k.v = f @ k.g
            k.l = min(1.0, max(k.forgetting, np.trace(k.P) / (k.cap * k.n)))
            if lg:
                p.append(k.m / np.sqrt(1 + np.pi / 8 * max(k.v / k.l, 0)))
            else:
                p.append(k.m + (self.last if k.view == CHANGE else 0))
        p = np.array(p)
        if lg:
            self.p = np.clip(p, -16, 16)
            self.e = sigmoid(self.p)
            out = np.r_[self.e @ self.hedge, sigmoid(np.clip(self.p @ self.mix, -16, 16))]
            self.out = np.clip(out, 1e-6, 1 - 1e-6)
        else:
            self.p = np.clip(p, self.low, self.high)
            h = self.p @ self.hedge
            self.e = self.p - h[0]
            self.out = np.clip(np.r_[h, h[0] + self.e @ self.mix], self.low, self.high)
        self.answer = self.top @ self.out
        return self.answer if lg else self.centre[d] + (self.scale[d] or 1.0) * self.answer

    # ---- losses
    def value(self, y, p):
        return np.vectorize(lambda q: K.value(self.c.loss, self.param, y, q))(p)

    def implicit(self, y, m, a):
        if self.logistic:
            return K.implicit_logistic(y, m, float(sigmoid(np.clip(m, -30, 30))), a + 1e-12)
        return K.implicit(self.c.loss, self.param, y, m, a)

    # ---- learn
    def learn(self, x, target):
        d, lg, c = self.d, self.logistic, self.c
        self.predict(x)
        x = np.asarray(x, float)
        y = seen = float(target)
        scale = 1.0
        if not lg:
            y = seen = float(np.clip(y, -1e100, 1e100))
            if self.rounds == 0:
                self.centre[d] = y
            if self.scale[d] == 0 and y != self.centre[d]:
                self.scale[d] = abs(y - self.centre[d])
            scale = self.scale[d] or 1.0
            y = (y - self.centre[d]) / scale
            self.param = c.param / scale if c.loss == HUBER else c.param
            if self.rounds >= 10:
                width = 50 * np.sqrt(max(self.mse, self.var[d] / scale**2))
                if width > 0 and abs(y - self.answer) > width:
                    y = self.answer + np.copysign(width, y - self.answer)
                    seen = self.centre[d] + scale * y
        self.count_rows = min(self.rounds, 1000) + 1
        self.learn_mixing(y)
        self.norm += (self.f @ self.f - self.norm) / self.count_rows
        norm2 = self.f @ self.f
        for i, step in enumerate(self.steps):
            eta = (4 if lg else 1) * step / self.norm
            m = self.p[i] if lg else self.raw[i]
            s, _ = (
                K.implicit_logistic(y, m, float(sigmoid(m)), eta * norm2)
                if lg
                else self.implicit(y, m, eta * norm2)
            )
            self.W[i] -= eta * s * self.f
            if self.twins:
                now, before = y - self.raw[i], self.tr[i]
                self.txy[i] = 0.99 * self.txy[i] + before * now
                self.txx[i] = 0.99 * self.txx[i] + before * before
                self.tr[i] = now
        for i, step in enumerate(self.diagonal):
            m = self.rawd[i]
            s0 = (
                sigmoid(np.clip(m, -30, 30)) - y
                if lg
                else K.implicit(c.loss, self.param, y, m, 0.0)[0]
            )
            self.G[i] += (s0 * self.f) ** 2
            D = 1 / np.sqrt(self.G[i] + 1e-16)
            s, _ = self.implicit(y, m, step * (D @ self.f**2))
            self.D[i] -= step * s * D * self.f
        for k in self.second:
            goal = y - self.last if k.view == CHANGE and not lg else y
            if not (0 <= k.v < 1e15 and abs(k.m) < 1e150):
                k.P = np.eye(k.n)
                if not abs(k.m) < 1e150:
                    k.w[:] = 0
                continue
            fade = k.l
            if not lg and k.surprise > 0:
                u = (goal - k.m) ** 2 / (1 + k.v)
                if k.count > k.n and u > k.surprise * k.s2:
                    fade = min(1.0, max(0.01, np.trace(k.P) / (k.cap * k.n)))
                    u = k.surprise * k.s2
                k.count = 0.99 * k.count + 1
                k.s2 += (u - k.s2) / k.count
            if lg:
                q = float(sigmoid(np.clip(k.m, -30, 30)))
                s, h = K.tame_logistic(goal, k.m, q, k.v / fade + 1e-12)
            else:
                s, h = self.implicit(goal, k.m, k.v / fade)
            k.w = k.w - s / fade * k.g
            k.P = k.P / fade - h / ((fade + h * k.v) * fade) * np.outer(k.g, k.g)
        self.last2 = self.last
        self.last = 2 * y - 1 if lg else y
        if not lg:
            if self.rounds == 0:
                self.low = self.high = self.last2 = y
            self.low, self.high = min(self.low, y), max(self.high, y)
        for j in ([d] if not lg else []) + list(range(d)):
            v = x[j] if j < d else seen
            if not np.isnan(v):
                self.observe(j, float(np.clip(v, -1e100, 1e100)))
        self.rounds += 1

    def learn_mixing(self, y):
        lg, N, c = self.logistic, self.N, self.c
        norm2 = None
        if lg:
            q = self.top * (self.out if y > 0.5 else 1 - self.out)
            self.top = (1 - c.top_share) * q / q.sum() + c.top_share / 8
            w = np.maximum(self.e if y > 0.5 else 1 - self.e, 1e-6)
            h = self.hedge * np.c_[w, w, np.sqrt(w), w**2]
            norm2 = self.p @ self.p
            self.mixnorm += (norm2 - self.mixnorm) / self.count_rows
            for k in range(4):
                eta = 4 * self.rates[k] / (self.mixnorm + 1e-12)
                o = self.out[4 + k]
                s, _ = K.implicit_logistic(y, float(np.log(o / (1 - o))), o, eta * norm2 + 1e-12)
                self.mix[:, k] -= s * eta * self.p
        else:
            if self.rounds == 0:
                return
            low, high = min(self.low, y), max(self.high, y)
            self.count = c.decay * self.count + 1
            self.mse += ((y - self.answer) ** 2 - self.mse) / self.count
            self.loss += (float(self.value(y, self.answer)) - self.loss) / self.count
            if not (high > low and self.loss > 0):
                return
            loss = self.value(y, self.out)
            if c.loss == SQUARED:
                safe = 0.5 / (high - low) ** 2
            else:
                self.spread += max(self.top @ loss**2 - (self.top @ loss) ** 2, 0)
                safe = min(1 / (high - low), np.sqrt(np.log(8) / (self.spread + 1e-300)))
            q = self.top * np.exp(-safe * (loss - loss.min()))
            self.top = (1 - c.top_share) * q / q.sum() + c.top_share / 8
            norm2 = self.e @ self.e
            self.mixnorm += (norm2 - self.mixnorm) / self.count_rows
            if self.mixnorm > 1e-12 * self.mse:
                start = self.p[0] - self.e[0] + self.e @ self.mix
                for k in range(4):
                    eta = self.rates[k] / self.mixnorm
                    s, _ = self.implicit(y, start[k], eta * norm2)
                    self.mix[:, k] -= s * eta * self.e
            loss = self.value(y, self.p)
            loss = loss - loss.min()
            fast = 0.125 / self.loss
            rates = np.array([fast, 4 * fast, 16 * fast, safe])
            h = self.hedge * np.exp(-np.outer(loss, rates))
        self.hedge = (1 - self.shares) * h / h.sum(0) + self.shares / N

    # ---- frames
    def observe(self, j, x):
        c, d = self.c, self.d
        moved = float(x != self.prev[j])
        self.prev[j] = x
        if self.n[j] == 0:
            self.mean[j] = self.centre[j] = self.bmean[j] = x
            self.n[j] = 1
            return
        place = self.rounds % 32
        if place == 0:
            self.bmean[j], self.bsq[j], self.moves[j] = x, 0.0, moved
        else:
            self.moves[j] += moved
            delta = x - self.bmean[j]
            self.bmean[j] += delta / (place + 1)
            self.bsq[j] += delta * (x - self.bmean[j])
        mean, var, n, bound = self.mean[j], self.var[j], self.n[j], self.bound[j]
        delta = x - mean
        if var == 0 and delta == 0:
            return
        if n >= 5 and delta**2 > bound**2 * var:
            delta = np.copysign(bound * np.sqrt(var), delta)
        n = min(n + 1, c.memory)
        mean += delta / n
        var = (1 - 1 / n) * (var + delta**2 / n)
        outlived = False
        if place == 31:
            self.bound[j] += 0.25 * (c.clip * np.sqrt(32 / max(self.moves[j], 0.25)) - bound)
            bvar = self.bsq[j] / 31
            if 0 < bvar < (1e-14 if j == d else 1e-4) * var and self.moves[j] >= 16:
                mean, var, n, outlived = self.bmean[j], bvar, 32.0, j == d
        self.n[j], self.mean[j], self.var[j] = n, mean, var
        s, o = self.scale[j], self.centre[j]
        left = (mean - o) ** 2 > 0.25 * s * s or var > 2.25 * s * s or var * 2.25 < s * s
        if left and var > 1e-280 and (s > 0 or n >= (8 if self.logistic else 2)):
            if outlived:
                raise NotImplementedError("the target's restart is not written twice")
            self.reframe(j, mean, np.sqrt(var))

    def reframe(self, j, centre, scale):
        """theta -> T theta, P -> T P T' for every learner that looks at column j."""
        o, s = self.centre[j], self.scale[j]
        self.centre[j], self.scale[j] = centre, scale
        d, lg = self.d, self.logistic
        if s == 0:
            if j < d:
                return
            s = 1.0
        a, b = scale / s, (centre - o) / s
        if j < d:
            T = np.eye(d + 1)
            T[0, 1 + j], T[1 + j, 1 + j] = b, a
            self.W, self.D = self.W @ T.T, self.D @ T.T
            self.G[:, 1 + j] /= a * a
        for k in self.second:
            T, touched = np.eye(k.n), []
            if j < d:
                touched = [1 + j]
                T[1 + j, 1 + j] = a
                if k.view != CHANGE or lg:
                    T[0, 1 + j] = b
                if k.view == SQUARE:
                    T[0, 1 + d + j], T[1 + j, 1 + d + j], T[1 + d + j, 1 + d + j] = (
                        a * a + b * b - 1,
                        2 * a * b,
                        a * a,
                    )
                    touched.append(1 + d + j)
                if k.view == CHANGE and lg:
                    T[1 + d + j, 1 + d + j] = a
                    touched.append(1 + d + j)
            elif k.view == CHANGE:
                T[1 + d, 1 + d], touched = a, [1 + d]
            k.w, k.P = T @ k.w, T @ k.P @ T.T
            k.P = (
                k.P + k.P.T
            ) / 2  # an antisymmetric rounding error would grow like 1 / forgetting^t
            for i in touched:
                top = (1.0 if lg else 4.0) * max(1.0, k.cap)
                if k.P[i, i] > top:
                    shrink = np.sqrt(top / k.P[i, i])
                    k.P[i, :] *= shrink
                    k.P[:, i] *= shrink
            if j == d:
                k.w /= a
                k.s2 /= a * a
                if k.view != CHANGE:
                    k.w[0] -= b / a
        if j == d:
            self.W, self.D = self.W / a, self.D / a
            self.W[:, 0] -= b / a
            self.D[:, 0] -= b / a
            if self.c.loss in (SQUARED, HUBER):
                self.G /= a * a
            self.txy, self.txx, self.tr = self.txy / a**2, self.txx / a**2, self.tr / a
            self.last, self.last2, self.low, self.high = (
                (v - b) / a for v in (self.last, self.last2, self.low, self.high)
            )
            self.mse, self.mixnorm = self.mse / a**2, self.mixnorm / a**2
            power = a if self.c.loss not in (SQUARED, HUBER) else a * a
            self.loss /= power
            self.spread /= power**2
