"""Four learners side by side: the only code of the pool whose time grows with d.

Arrays of four lanes are flat: entry i of lane l lies at 4 i + l. A symmetric matrix is its upper
triangle, row by row, times four lanes. Lanes are written out, not looped over, because that is
what LLVM's SLP vectoriser recognises; no sum is reordered by it. Unsigned indices spare Numba's
"negative index" selects, without which LLVM sees four adjacent loads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from swordplay.kernels.pool_compile import exact

_U0, _U1, _U2, _U3, _U4 = (np.uint64(k) for k in range(5))


@exact
def dot(w, f, size, out):
    """Write out[l] = sum_i w[i, l] f[i]."""
    n = np.uint64(size)
    a0 = 0.0
    a1 = 0.0
    a2 = 0.0
    a3 = 0.0
    for i in range(n):
        q = _U4 * i
        fi = f[i]
        a0 += w[q] * fi
        a1 += w[q + _U1] * fi
        a2 += w[q + _U2] * fi
        a3 += w[q + _U3] * fi
    out[0] = a0
    out[1] = a1
    out[2] = a2
    out[3] = a3


@exact
def add(w, f, size, c):
    """Add c[l] f[i] to w[i, l]."""
    n = np.uint64(size)
    c0 = c[0]
    c1 = c[1]
    c2 = c[2]
    c3 = c[3]
    for i in range(n):
        q = _U4 * i
        fi = f[i]
        a0 = w[q] + c0 * fi
        a1 = w[q + _U1] + c1 * fi
        a2 = w[q + _U2] + c2 * fi
        a3 = w[q + _U3] + c3 * fi
        w[q] = a0
        w[q + _U1] = a1
        w[q + _U2] = a2
        w[q + _U3] = a3


@exact
def quadratic(f, w, P, size, g, yv):
    """Write g = P f, yv[0:4] = w.f and yv[4:8] = f'P f of four learners."""
    n = np.uint64(size)
    y0 = 0.0
    y1 = 0.0
    y2 = 0.0
    y3 = 0.0
    v0 = 0.0
    v1 = 0.0
    v2 = 0.0
    v3 = 0.0
    for z in range(_U4 * n):
        g[z] = 0.0
    k: Any = _U0
    for i in range(n):
        fi = f[i]
        q = _U4 * i
        a0 = P[k] * fi + g[q]
        a1 = P[k + _U1] * fi + g[q + _U1]
        a2 = P[k + _U2] * fi + g[q + _U2]
        a3 = P[k + _U3] * fi + g[q + _U3]
        k += _U4
        for j in range(i + _U1, n):
            p0 = P[k]
            p1 = P[k + _U1]
            p2 = P[k + _U2]
            p3 = P[k + _U3]
            fj = f[j]
            r = _U4 * j
            a0 += p0 * fj
            a1 += p1 * fj
            a2 += p2 * fj
            a3 += p3 * fj
            b0 = g[r] + p0 * fi
            b1 = g[r + _U1] + p1 * fi
            b2 = g[r + _U2] + p2 * fi
            b3 = g[r + _U3] + p3 * fi
            g[r] = b0
            g[r + _U1] = b1
            g[r + _U2] = b2
            g[r + _U3] = b3
            k += _U4
        g[q] = a0
        g[q + _U1] = a1
        g[q + _U2] = a2
        g[q + _U3] = a3
        v0 += a0 * fi
        v1 += a1 * fi
        v2 += a2 * fi
        v3 += a3 * fi
        y0 += w[q] * fi
        y1 += w[q + _U1] * fi
        y2 += w[q + _U2] * fi
        y3 += w[q + _U3] * fi
    yv[0] = y0
    yv[1] = y1
    yv[2] = y2
    yv[3] = y3
    yv[4] = v0
    yv[5] = v1
    yv[6] = v2
    yv[7] = v3


@exact
def rank_one(P, w, size, g, c, h, il, trace):
    """Write w + c g, P = il P - (h g)(h g)' and trace[l] = tr P; the last stays symmetric."""
    n = np.uint64(size)
    c0 = c[0]
    c1 = c[1]
    c2 = c[2]
    c3 = c[3]
    h0 = h[0]
    h1 = h[1]
    h2 = h[2]
    h3 = h[3]
    l0 = il[0]
    l1 = il[1]
    l2 = il[2]
    l3 = il[3]
    for i in range(n):
        q = _U4 * i
        a0 = g[q]
        a1 = g[q + _U1]
        a2 = g[q + _U2]
        a3 = g[q + _U3]
        b0 = w[q] + c0 * a0
        b1 = w[q + _U1] + c1 * a1
        b2 = w[q + _U2] + c2 * a2
        b3 = w[q + _U3] + c3 * a3
        w[q] = b0
        w[q + _U1] = b1
        w[q + _U2] = b2
        w[q + _U3] = b3
        a0 *= h0
        a1 *= h1
        a2 *= h2
        a3 *= h3
        g[q] = a0
        g[q + _U1] = a1
        g[q + _U2] = a2
        g[q + _U3] = a3
    t0 = 0.0
    t1 = 0.0
    t2 = 0.0
    t3 = 0.0
    k: Any = _U0
    for i in range(n):
        q = _U4 * i
        a0 = g[q]
        a1 = g[q + _U1]
        a2 = g[q + _U2]
        a3 = g[q + _U3]
        p0 = P[k] * l0 - a0 * a0
        p1 = P[k + _U1] * l1 - a1 * a1
        p2 = P[k + _U2] * l2 - a2 * a2
        p3 = P[k + _U3] * l3 - a3 * a3
        t0 += p0
        t1 += p1
        t2 += p2
        t3 += p3
        P[k] = p0
        P[k + _U1] = p1
        P[k + _U2] = p2
        P[k + _U3] = p3
        k += _U4
        for j in range(i + _U1, n):
            r = _U4 * j
            p0 = P[k] * l0 - a0 * g[r]
            p1 = P[k + _U1] * l1 - a1 * g[r + _U1]
            p2 = P[k + _U2] * l2 - a2 * g[r + _U2]
            p3 = P[k + _U3] * l3 - a3 * g[r + _U3]
            P[k] = p0
            P[k + _U1] = p1
            P[k + _U2] = p2
            P[k + _U3] = p3
            k += _U4
    trace[0] = t0
    trace[1] = t1
    trace[2] = t2
    trace[3] = t3


@exact
def adagrad(G, D, f, size, s, a):
    """Write G + (s f)^2, D = 1/sqrt(G) and a = sum_i D_i f_i^2."""
    n = np.uint64(size)
    s0 = s[0] * s[0]
    s1 = s[1] * s[1]
    s2 = s[2] * s[2]
    s3 = s[3] * s[3]
    a0 = 0.0
    a1 = 0.0
    a2 = 0.0
    a3 = 0.0
    for i in range(n):
        q = _U4 * i
        ff = f[i] * f[i]
        g0 = G[q] + s0 * ff
        g1 = G[q + _U1] + s1 * ff
        g2 = G[q + _U2] + s2 * ff
        g3 = G[q + _U3] + s3 * ff
        d0 = 1.0 / math.sqrt(g0 + 1e-16)
        d1 = 1.0 / math.sqrt(g1 + 1e-16)
        d2 = 1.0 / math.sqrt(g2 + 1e-16)
        d3 = 1.0 / math.sqrt(g3 + 1e-16)
        a0 += d0 * ff
        a1 += d1 * ff
        a2 += d2 * ff
        a3 += d3 * ff
        G[q] = g0
        G[q + _U1] = g1
        G[q + _U2] = g2
        G[q + _U3] = g3
        D[q] = d0
        D[q + _U1] = d1
        D[q + _U2] = d2
        D[q + _U3] = d3
    a[0] = a0
    a[1] = a1
    a[2] = a2
    a[3] = a3


@exact
def at(n, i, j):
    """Return the offset of entry (i, j) of the packed triangle, lane 0."""
    if i > j:
        i, j = j, i
    return 4 * (i * n - (i * (i - 1)) // 2 + (j - i))


@exact
def reset_lane(P, n, lane):
    """Write P = I, the ridge that every learner starts from."""
    for k in range(lane, 2 * n * (n + 1), 4):
        P[k] = 0.0
    for i in range(n):
        P[at(n, i, i) + lane] = 1.0


@exact
def stretch(w, P, n, j, a):
    """Take in that feature j shrank by a (old = a new): theta_j *= a."""
    for lane in range(4):
        w[4 * j + lane] *= a
        if P.shape[0] > 0:
            for k in range(n):
                P[at(n, j, k) + lane] *= a
            P[at(n, j, j) + lane] *= a


@exact
def shear(w, P, n, source, target, b):
    """Take in that ``source`` held b units of ``target``: theta_target += b theta_source."""
    if b == 0.0:
        return
    for lane in range(4):
        w[4 * target + lane] += b * w[4 * source + lane]
        if P.shape[0] > 0:
            cross = P[at(n, source, target) + lane]
            own = P[at(n, source, source) + lane]
            for k in range(n):
                if k != target:
                    P[at(n, target, k) + lane] += b * P[at(n, source, k) + lane]
            P[at(n, target, target) + lane] += 2.0 * b * cross + b * b * own


@exact
def ceiling(P, n, j, caps, slack):
    """Shrink row and column j where theta_j's variance is above its ceiling."""
    for lane in range(4):
        top = slack * max(1.0, caps[lane])
        p = P[at(n, j, j) + lane]
        if p > top:
            a = math.sqrt(top / p)
            for k in range(n):
                P[at(n, j, k) + lane] *= a
            P[at(n, j, j) + lane] *= a


@exact
def retrace(P, n, trace):
    """Write trace[l] = tr P."""
    for lane in range(4):
        t = 0.0
        for i in range(n):
            t += P[at(n, i, i) + lane]
        trace[lane] = t
