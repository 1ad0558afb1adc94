"""The paper, line by line, in plain NumPy: slow, naive, and the reference for everything compiled.

*Adaptivity and Non-stationarity: Problem-dependent Dynamic Regret for Online Convex Optimization.*
Each line that implements a formula carries the paper's label for it, (eq:...), (thm:...) or
(alg:...); the sums and loops are written out as they stand there. Nothing here is fast, nothing
here is shared with the library, and the projections search for their multiplier by bisection
instead of using the closed forms.

How the file is laid out:

1. projections        `project`, `projector`
2. losses             `loss_value`, `loss_slope`
3. constants          step-size pools, priors, learning rates
4. algorithms         `optimistic_omd`, `optimistic_hedge`, `collaborative_ensemble`, and one
                      function per algorithm; `run(name, ...)` calls them by name
5. bounds             the right-hand side of the theorems, as dictionaries of terms and "bound"

The theorems are numbered as the paper's source numbers them; the names of their functions end in
`_adaptive` where appendix B proves the version with a self-confident rate.

Conventions that hold everywhere: every base learner has x-hat_1 = start; M_1 = 0, m_1 = 0,
c_1 = 0, p_1 = prior; p_{t+1} rescales the whole cumulative loss by the newest rate, in the log
domain; a self-confident rate whose sum is 0 is its cap. Rows of arrays count from 0, so row t - 1
belongs to round t.
"""

import math
from dataclasses import dataclass

import numpy as np

# ------------------------------------------------------------------------------------------------
# 1. Projections: argmin over the set of |z - x|^2
# ------------------------------------------------------------------------------------------------


def _bisect(decreasing, low, high):
    """The root of a decreasing function in [low, high], until no float lies in between."""
    while True:
        middle = low + 0.5 * (high - low)
        if not low < middle < high:
            return high if abs(decreasing(high)) <= abs(decreasing(low)) else low
        if decreasing(middle) > 0.0:
            low = middle
        else:
            high = middle


def project_ball(x, center, radius):
    """Onto {z : |z - center|_2 <= radius}. KKT: z = center + s (x - center), 0 <= s <= 1."""
    x = np.asarray(x, dtype=float)
    offset = x - np.asarray(center, dtype=float)
    if math.hypot(*offset) <= radius:
        return x.copy()
    shrink = _bisect(lambda s: radius - s * math.hypot(*offset), 0.0, 1.0)
    return center + shrink * offset


def project_box(x, low, high):
    """Onto {z : low <= z <= high}: coordinate by coordinate, the middle one of three numbers."""
    x = np.asarray(x, dtype=float)
    low = np.broadcast_to(np.asarray(low, dtype=float), x.shape)
    high = np.broadcast_to(np.asarray(high, dtype=float), x.shape)
    return np.array([sorted([low[j], x[j], high[j]])[1] for j in range(x.size)])


def project_simplex(x, total=1.0):
    """Onto {z >= 0, sum z = total}. KKT: z_j = max(x_j - theta, 0), theta by bisection."""
    x = np.asarray(x, dtype=float)

    def excess(theta):
        return math.fsum(max(value - theta, 0.0) for value in x) - total

    theta = _bisect(excess, float(x.min()) - total, float(x.max()))
    return np.array([max(value - theta, 0.0) for value in x])


def project_l1_ball(x, radius):
    """Onto {z : |z|_1 <= radius}. KKT: z_j = sign(x_j) max(|x_j| - theta, 0), theta >= 0."""
    x = np.asarray(x, dtype=float)
    if math.fsum(abs(value) for value in x) <= radius:
        return x.copy()

    def excess(theta):
        return math.fsum(max(abs(value) - theta, 0.0) for value in x) - radius

    theta = _bisect(excess, 0.0, float(np.abs(x).max()))
    return np.array([math.copysign(max(abs(value) - theta, 0.0), value) for value in x])


def project_everywhere(x):
    """Onto the whole space: nothing to do."""
    return np.array(x, dtype=float)


PROJECTIONS = {
    "ball": project_ball,
    "box": project_box,
    "simplex": project_simplex,
    "l1_ball": project_l1_ball,
    "everywhere": project_everywhere,
}


def project(kind, params, x):
    """The point of the named set nearest to `x`; `params` are the keywords of `project_<kind>`."""
    return PROJECTIONS[kind](x, **params)


def projector(kind, **params):
    """`project` with the set fixed: the callable x -> nearest point that the algorithms take."""
    return lambda x: project(kind, params, x)


# ------------------------------------------------------------------------------------------------
# 2. Losses of a linear model: l(y, prediction) and its derivative in the prediction
#    (scalars only; the subgradient is 0 at a kink)
# ------------------------------------------------------------------------------------------------


def loss_value(kind, y, prediction, **params):
    """The loss: squared, huber(delta), logistic (y = -1/+1), absolute, pinball(q)."""
    r = prediction - y
    if kind == "squared":
        return 0.5 * r * r
    if kind == "huber":  # section "Experiments"
        delta = params["delta"]
        return 0.5 * r * r if abs(r) <= delta else delta * (abs(r) - 0.5 * delta)
    if kind == "logistic":  # ln(1 + e^{-z}), whose exponential must not overflow
        z = y * prediction
        return math.log1p(math.exp(-z)) if z >= 0.0 else -z + math.log1p(math.exp(z))
    if kind == "absolute":
        return abs(r)
    if kind == "pinball":
        q = params["q"]
        return q * max(y - prediction, 0.0) + (1.0 - q) * max(prediction - y, 0.0)
    raise ValueError(f"no loss called {kind!r}")


def loss_slope(kind, y, prediction, **params):
    """The derivative of `loss_value` in the prediction."""
    r = prediction - y
    if kind == "squared":
        return r
    if kind == "huber":
        delta = params["delta"]
        return r if abs(r) <= delta else math.copysign(delta, r)
    if kind == "logistic":  # -y / (1 + e^z)
        z = y * prediction
        return -y * math.exp(-z) / (1.0 + math.exp(-z)) if z >= 0.0 else -y / (1.0 + math.exp(z))
    if kind == "absolute":
        return 0.0 if r == 0.0 else math.copysign(1.0, r)
    if kind == "pinball":
        q = params["q"]
        return 0.0 if r == 0.0 else (1.0 - q if r > 0.0 else -q)
    raise ValueError(f"no loss called {kind!r}")


def linear_gradient(kind, features, target, **params):
    """The gradient x -> grad f_t(x) of f_t(x) = l(y_t, <features_t, x>)."""
    features = np.asarray(features, dtype=float)
    return lambda x: loss_slope(kind, target, float(features @ x), **params) * features


def linear_value(kind, features, target, **params):
    """The function x -> f_t(x) = l(y_t, <features_t, x>)."""
    features = np.asarray(features, dtype=float)
    return lambda x: loss_value(kind, target, float(features @ x), **params)


# ------------------------------------------------------------------------------------------------
# 3. Constants
# ------------------------------------------------------------------------------------------------


def ogd_step(D, G, T):
    """Online gradient descent: D / (G sqrt T)."""
    return D / (G * math.sqrt(T))


def oegd_step(D, G, L, T):
    """OEGD, (lemma:OEGD-variation) asks for eta <= 1/(4L)."""
    return min(1.0 / (4.0 * L), D / (G * math.sqrt(T)))


def _doubling_pool(first, cap, count):
    return np.array([min(cap, 2.0 ** (i - 1) * first) for i in range(1, count + 1)])


def _half_log2_count(ratio):
    """ceil(1/2 log2(ratio)) + 1, and at least 1."""
    return max(1, math.ceil(0.5 * math.log2(ratio)) + 1)


def ader_pool(D, G, T):
    """Ader: eta_i = 2^{i-1} (D/G) sqrt(7/(2T)), i = 1..ceil(1/2 log2(1 + 4T/7)) + 1."""
    count = _half_log2_count(1.0 + 4.0 * T / 7.0)
    return _doubling_pool(D / G * math.sqrt(7.0 / (2.0 * T)), math.inf, count)


def ader_prior(count):
    """Ader: p_i proportional to 1/(i(i+1)), normalised."""
    raw = np.array([1.0 / (i * (i + 1)) for i in range(1, count + 1)])
    return raw / raw.sum()


def ader_rate(D, G, T):
    """Ader: sqrt(2/(T G^2 D^2))."""
    return math.sqrt(2.0 / (T * G**2 * D**2))


def uniform_prior(count):
    """p_{1,i} = 1/N."""
    return np.full(count, 1.0 / count)


def sword_pool(D, G, L, T):
    """(eq:step-size-pool-variation)."""
    count = _half_log2_count(G**2 * T / (2.0 * D**2 * L**2))
    return _doubling_pool(math.sqrt(D**2 / (8.0 * G**2 * T)), 1.0 / (4.0 * L), count)


def sword_small_pool(D, G, L, T):
    """The conference paper's small-loss pool: sqrt(D/(16LGT)) doubling up to 1/(4L)."""
    count = _half_log2_count(G * T / (D * L))
    return _doubling_pool(math.sqrt(D / (16.0 * L * G * T)), 1.0 / (4.0 * L), count)


def sword_best_pools(D, G, L, T):
    """The pool whose bases have hints (Sword's), and the pool whose bases have none."""
    return sword_pool(D, G, L, T), sword_small_pool(D, G, L, T)


def sword_pp_pool(D, G, L, T):
    """(eq:step-size-pool-one-gradient)."""
    count = _half_log2_count(G**2 * T / (8.0 * D**2 * L**2))
    return _doubling_pool(math.sqrt(D**2 / (8.0 * G**2 * T)), 1.0 / (8.0 * L), count)


def sword_optimism_pool(D, G, T, eta_bar):
    """(eq:step-size-pool-one-gradient-general)."""
    count = _half_log2_count(8.0 * G**2 * T * eta_bar**2 / D**2)
    return _doubling_pool(math.sqrt(D**2 / (8.0 * G**2 * T)), eta_bar, count)


def self_confident(cap, numerator, total):
    """min(cap, sqrt(numerator / total)); where the sum is 0 the cap stands."""
    return cap if total == 0.0 else min(cap, math.sqrt(numerator / total))


def sword_rate(D, G, L, count, variation):
    """(thm:variation-meta-regret), with V_T, or with the running V-bar_t in its place."""
    return self_confident(1.0 / (4.0 * D**2 * L), math.log(count), 2.0 * D**2 * (G**2 + variation))


def adaptivity_rate(D, cap, count, adaptivity):
    """(eq:lr-meta-solution2) with A_T, (eq:lr-meta-solution2-adaptve) with the running A_t."""
    return self_confident(cap, math.log(count), D**2 * adaptivity)


# ------------------------------------------------------------------------------------------------
# 4. Algorithms
# ------------------------------------------------------------------------------------------------


class Counted:
    """A list of gradient functions that counts every call, in total and per round."""

    def __init__(self, gradients):
        self.gradients = list(gradients)
        self.per_round = np.zeros(len(self.gradients), dtype=int)

    def __call__(self, t, x):
        """The gradient of f_t at x, t = 1..T."""
        self.per_round[t - 1] += 1
        return np.array(self.gradients[t - 1](np.array(x)), dtype=float)


@dataclass
class Trajectory:
    """Everything that happened in a run of T rounds with N base learners in d dimensions."""

    name: str
    decisions: np.ndarray  # (T, d)      x_t
    base_decisions: np.ndarray  # (T, N, d)   x_{t,i}
    weights: np.ndarray  # (T, N)      p_t
    anchors: np.ndarray  # (T+1, N, d) x-hat_{t,i}
    gradients: np.ndarray  # (T, d)      grad f_t(x_t)
    hints: np.ndarray  # (T, d)      M_t, the meta learner's hint vector
    meta_losses: np.ndarray  # (T, N)      l_{t,i}, correction included
    meta_hints: np.ndarray  # (T, N)      m_{t,i}, correction included
    step_sizes: np.ndarray  # (N,)
    prior: np.ndarray  # (N,)
    first_rate: float  # eps_0, the cap or the fixed rate
    meta_rates: np.ndarray  # (T,)        eps_t, which makes p_{t+1}; 0 without a meta learner
    lam: float  # lambda, the correction coefficient
    adaptivity: float  # A_T = sum_t |grad f_t(x_t) - M_t|^2
    gradient_variation: float  # V-bar_T = sum_{t>=2} |grad f_t(x_t) - grad f_{t-1}(x_{t-1})|^2
    stability: tuple  # (S_x of shape (N,), S_p, S_mix), sums over t = 2..T
    gradient_queries: int
    queries_per_round: np.ndarray  # (T,)
    next_decision: np.ndarray  # (d,)   x_{T+1}
    next_base_decisions: np.ndarray  # (N, d) x_{T+1,i}
    next_weights: np.ndarray  # (N,)   p_{T+1}
    next_hint: np.ndarray  # (d,)   M_{T+1}


def adaptivity(gradients, hints):
    """A_T of (thm:general-online-ensemble)."""
    total = 0.0
    for t in range(len(gradients)):
        total += float(np.sum((gradients[t] - hints[t]) ** 2))
    return total


def observed_gradient_variation(gradients):
    """V-bar_T of (thm:variation-one-gradient)."""
    total = 0.0
    for t in range(1, len(gradients)):
        total += float(np.sum((gradients[t] - gradients[t - 1]) ** 2))
    return total


def stability(base_decisions, weights):
    """(S_{x,i}, S_p, S_mix) of (thm:general-online-ensemble): sums over t = 2..T."""
    rounds, count, _ = base_decisions.shape
    base, meta, mixed = np.zeros(count), 0.0, 0.0
    for t in range(1, rounds):
        meta += float(np.sum(np.abs(weights[t] - weights[t - 1]))) ** 2
        for i in range(count):
            moved = float(np.sum((base_decisions[t, i] - base_decisions[t - 1, i]) ** 2))
            base[i] += moved
            mixed += weights[t, i] * moved
    return base, meta, mixed


def hedge_weights(prior, rate, scores):
    """p_i proportional to prior_i exp(-rate scores_i), (eq:variation-Hedge-meta-adaptive)."""
    with np.errstate(divide="ignore"):
        logs = np.log(np.asarray(prior, dtype=float)) - rate * np.asarray(scores, dtype=float)
    raw = np.exp(logs - logs.max())
    return raw / raw.sum()


# -- optimistic online mirror descent -------------------------------------------------------------


@dataclass
class MirrorDescent:
    """A run of optimistic OMD, (eq:optimistic-OMD-fix)."""

    regularizer: str  # "euclidean" or "entropy"
    decisions: np.ndarray  # (T, d)   x_t
    anchors: np.ndarray  # (T+1, d) x-hat_t
    gradients: np.ndarray  # (T, d)   grad f_t(x_t)
    hints: np.ndarray  # (T, d)   M_t
    steps: np.ndarray  # (T,)     eta_t
    log_decisions: np.ndarray  # the logarithms, kept by "entropy": they survive underflow
    log_anchors: np.ndarray
    queries_per_round: np.ndarray  # (T,)


def optimistic_omd(gradients, start, steps, *, hints=None, regularizer="euclidean", project=None):
    """Optimistic OMD, (eq:optimistic-OMD-fix).

    `steps`: a number or T numbers. `hints`: None (all 0), "last" (the last gradient, 0 first), or
    T vectors. "entropy" lives on the simplex: multiplicative weights.
    """
    query = Counted(gradients)
    rounds = len(query.gradients)
    start = np.asarray(start, dtype=float)
    steps = np.broadcast_to(np.asarray(steps, dtype=float), (rounds,))
    decisions, seen, used = (np.zeros((rounds, start.size)) for _ in range(3))
    anchors = np.zeros((rounds + 1, start.size))
    log_decisions, log_anchors = np.zeros_like(decisions), np.zeros_like(anchors)

    def normalised(logs):  # ln of exp(logs) / sum exp(logs)
        shifted = logs - logs.max()
        return shifted - math.log(float(np.sum(np.exp(shifted))))

    anchors[0] = start
    if regularizer == "entropy":
        with np.errstate(divide="ignore"):
            log_anchors[0] = normalised(np.log(start))
    for t in range(rounds):
        if hints is None or (isinstance(hints, str) and t == 0):
            used[t] = 0.0
        elif isinstance(hints, str):
            used[t] = seen[t - 1]
        else:
            used[t] = hints[t]
        if regularizer == "euclidean":
            decisions[t] = project(anchors[t] - steps[t] * used[t])
            seen[t] = query(t + 1, decisions[t])
            anchors[t + 1] = project(anchors[t] - steps[t] * seen[t])
        elif regularizer == "entropy":
            log_decisions[t] = normalised(log_anchors[t] - steps[t] * used[t])
            decisions[t] = np.exp(log_decisions[t])
            seen[t] = query(t + 1, decisions[t])
            log_anchors[t + 1] = normalised(log_anchors[t] - steps[t] * seen[t])
            anchors[t + 1] = np.exp(log_anchors[t + 1])
        else:
            raise ValueError(f"no regularizer called {regularizer!r}")
    return MirrorDescent(
        regularizer,
        decisions,
        anchors,
        seen,
        used,
        np.array(steps),
        log_decisions,
        log_anchors,
        query.per_round,
    )


# -- optimistic Hedge -----------------------------------------------------------------------------


@dataclass
class Hedge:
    """A run of optimistic Hedge."""

    weights: np.ndarray  # (T, N) p_t
    losses: np.ndarray  # (T, N)
    hints: np.ndarray  # (T, N) m_t
    prior: np.ndarray  # (N,)
    first_rate: float  # eps_0
    rates: np.ndarray  # (T,)   eps_t, the one that makes p_{t+1}
    deviation: float  # D_T = sum_t |l_t - m_t|_inf^2
    next_weights: np.ndarray  # (N,)   p_{T+1}


def optimistic_hedge(losses, hints=None, *, rate=None, cap=None, prior=None):
    """Optimistic Hedge, (eq:OptimisticHedge) and (eq:variation-Hedge-meta-adaptive).

    `rate`: a fixed number; None takes eps_t = min(cap, sqrt(ln N / D_t)), D_t the running sum of
    |l_s - m_s|_inf^2, eps_0 = cap. `hints`: None (all 0), or T or T + 1 vectors.
    """
    losses = np.asarray(losses, dtype=float)
    rounds, count = losses.shape
    given = np.zeros((rounds + 1, count))
    if hints is not None:
        given[: len(hints)] = hints
    prior = uniform_prior(count) if prior is None else np.asarray(prior, dtype=float)
    first_rate = cap if rate is None else float(rate)
    epsilon = first_rate
    cumulative, deviation = np.zeros(count), 0.0
    weights, rates = np.zeros((rounds + 1, count)), np.zeros(rounds)
    weights[0] = hedge_weights(prior, epsilon, given[0])
    for t in range(rounds):
        cumulative = cumulative + losses[t]
        deviation += float(np.max(np.abs(losses[t] - given[t]))) ** 2
        epsilon = self_confident(cap, math.log(count), deviation) if rate is None else rate
        rates[t] = epsilon
        weights[t + 1] = hedge_weights(prior, epsilon, cumulative + given[t + 1])
    return Hedge(weights[:-1], losses, given[:-1], prior, first_rate, rates, deviation, weights[-1])


# -- the collaborative online ensemble ------------------------------------------------------------


def collaborative_ensemble(
    name,
    gradients,
    project,
    start,
    *,
    step_sizes,
    prior,
    base_loss,
    base_hints,
    meta_hint,
    lam,
    first_rate,
    rate,
    hints=None,
):
    """The template of section "A General Framework" (section 4), one row of its table at a time.

    base_loss     "own": f_t at x_{t,i}; "shared": <grad f_t(x_t), .>
    base_hints    for each base learner "none", "own": grad f_{t-1}(x_{t-1,i}), "last":
                  grad f_{t-1}(x_{t-1}), or "given": M_t
    meta_hint     M_t: "none", "last": grad f_{t-1}(x_{t-1}), "given": M_t, "bar":
                  grad f_{t-1}(xbar_t), or "mixed": beta_t grad f_{t-1}(xbar_t)
    lam           lambda; the correction is c_{t,i} = |x_{t,i} - x_{t-1,i}|^2
    first_rate    eps_0; p_1 does not depend on it because m_1 = 0
    rate          (A_t, V-bar_t) -> eps_t, the rate that makes p_{t+1}
    hints         the given M_1..M_T, and M_{T+1} if known (else 0)
    """
    query = Counted(gradients)
    T = len(query.gradients)
    start = np.asarray(start, dtype=float)
    eta = np.asarray(step_sizes, dtype=float)
    prior = np.asarray(prior, dtype=float)
    N, d = eta.size, start.size

    given = np.zeros((T + 1, d))
    if hints is not None:
        given[: len(hints)] = hints
        if np.any(given[0] != 0.0):
            raise ValueError("M_1 = 0 by convention: nothing is known before the first round")

    x = np.zeros((T + 1, d))  # x_t, with x_{T+1} in the last row
    xi = np.zeros((T + 1, N, d))  # x_{t,i}
    xhat = np.zeros((T + 1, N, d))  # x-hat_{t,i}
    p = np.zeros((T + 1, N))  # p_t
    M = np.zeros((T + 1, d))  # the meta hint vector
    m = np.zeros((T + 1, N))  # m_{t,i}
    ell = np.zeros((T, N))  # l_{t,i}
    c = np.zeros((T + 1, N))  # c_{t,i}
    g = np.zeros((T, d))  # grad f_t(x_t)
    eps = np.zeros(T)  # eps_t
    cumulative = np.zeros(N)  # sum_{s<=t} l_{s,i}
    A = V = 0.0  # A_t and V-bar_t
    varied = small = 0.0  # the two exponents of beta_t
    previous_at_xbar = np.zeros(d)  # grad f_{t-1}(xbar_t), grad f_0 = 0

    # Round 1: M_1 = 0, m_1 = 0, c_1 = 0, p_1 = prior.
    for i in range(N):
        xhat[0, i] = start
        xi[0, i] = project(xhat[0, i])
    p[0] = prior

    for t in range(T):  # row t is round t + 1 of the paper
        # Play x_t = sum_i p_{t,i} x_{t,i}.
        for i in range(N):
            x[t] += p[t, i] * xi[t, i]

        # Observe.
        g[t] = query(t + 1, x[t])
        own = np.zeros((N, d))
        if base_loss == "own":
            for i in range(N):
                own[i] = query(t + 1, xi[t, i])

        # Base update, second half of (eq:general-framework-base).
        for i in range(N):
            base_gradient = own[i] if base_loss == "own" else g[t]
            xhat[t + 1, i] = project(xhat[t, i] - eta[i] * base_gradient)

        # Base prediction for the next round, first half of (eq:general-framework-base).
        for i in range(N):
            hint = {
                "none": np.zeros(d),
                "own": own[i],
                "last": g[t],
                "given": given[t + 1],
            }[base_hints[i]]
            xi[t + 1, i] = project(xhat[t + 1, i] - eta[i] * hint)
            c[t + 1, i] = float(np.sum((xi[t + 1, i] - xi[t, i]) ** 2))

        # Meta loss, (eq:general-framework-meta-loss-optimism).
        for i in range(N):
            ell[t, i] = float(g[t] @ xi[t, i]) + lam * c[t, i]

        # The running sums and the rate eps_t.
        A += float(np.sum((g[t] - M[t]) ** 2))
        if t > 0:
            V += float(np.sum((g[t] - g[t - 1]) ** 2))
        eps[t] = rate(A, V)

        # Meta hint for the next round.
        if meta_hint == "none":
            M[t + 1] = 0.0
        elif meta_hint == "last":
            M[t + 1] = g[t]  # (eq:meta-optimism)
        elif meta_hint == "given":
            M[t + 1] = given[t + 1]
        else:
            xbar = np.zeros(d)
            for i in range(N):
                xbar += p[t, i] * xi[t + 1, i]  # (eq:Sword-optimism)
            at_xbar = query(t + 1, xbar)
            if meta_hint == "bar":
                M[t + 1] = at_xbar  # (eq:Sword-optimism)
            elif meta_hint == "mixed":  # the conference paper's Sword_best
                varied += float(np.sum((g[t] - previous_at_xbar) ** 2))
                small += float(np.sum(g[t] ** 2))
                # beta_{t+1} : 1 - beta_{t+1} = exp(-2 varied) : exp(-2 small)
                beta = float(hedge_weights(np.ones(2), 2.0, np.array([varied, small]))[0])
                M[t + 1] = beta * at_xbar
            else:
                raise ValueError(f"no meta hint called {meta_hint!r}")
            previous_at_xbar = at_xbar
        for i in range(N):
            m[t + 1, i] = float(M[t + 1] @ xi[t + 1, i]) + lam * c[t + 1, i]

        # Meta update, (eq:variation-Hedge-meta-adaptive): the whole sum, the newest rate.
        scores = np.zeros(N)
        for i in range(N):
            cumulative[i] += ell[t, i]
            scores[i] = cumulative[i] + m[t + 1, i]
        p[t + 1] = hedge_weights(prior, eps[t], scores)

    for i in range(N):
        x[T] += p[T, i] * xi[T, i]
    return Trajectory(
        name=name,
        decisions=x[:T],
        base_decisions=xi[:T],
        weights=p[:T],
        anchors=xhat,
        gradients=g,
        hints=M[:T],
        meta_losses=ell,
        meta_hints=m[:T],
        step_sizes=eta,
        prior=prior,
        first_rate=float(first_rate),
        meta_rates=eps,
        lam=float(lam),
        adaptivity=adaptivity(g, M[:T]),
        gradient_variation=observed_gradient_variation(g),
        stability=stability(xi[:T], p[:T]),
        gradient_queries=int(query.per_round.sum()),
        queries_per_round=query.per_round,
        next_decision=x[T],
        next_base_decisions=xi[T],
        next_weights=p[T],
        next_hint=M[T],
    )


# -- one function per algorithm -------------------------------------------------------------------


def _single(name, gradients, project, start, eta, hints):
    """One optimistic OGD learner and no meta learner, recorded like an ensemble of one."""
    run = optimistic_omd(gradients, start, eta, hints=hints, project=project)
    T, d = run.decisions.shape
    following = np.zeros(d) if hints is None else run.gradients[-1]
    after = project(run.anchors[-1] - eta * following)
    ones = np.ones((T, 1))
    base = run.decisions[:, None, :]
    return Trajectory(
        name=name,
        decisions=run.decisions,
        base_decisions=base,
        weights=ones,
        anchors=run.anchors[:, None, :],
        gradients=run.gradients,
        hints=run.hints,
        meta_losses=np.sum(run.gradients * run.decisions, axis=1)[:, None],
        meta_hints=np.sum(run.hints * run.decisions, axis=1)[:, None],
        step_sizes=np.array([eta]),
        prior=np.ones(1),
        first_rate=0.0,
        meta_rates=np.zeros(T),
        lam=0.0,
        adaptivity=adaptivity(run.gradients, run.hints),
        gradient_variation=observed_gradient_variation(run.gradients),
        stability=stability(base, ones),
        gradient_queries=int(run.queries_per_round.sum()),
        queries_per_round=run.queries_per_round,
        next_decision=after,
        next_base_decisions=after[None, :],
        next_weights=np.ones(1),
        next_hint=following,
    )


def _only(step_sizes, default):
    """The single step of a learner without a pool."""
    if step_sizes is None:
        return float(default)
    (eta,) = np.atleast_1d(step_sizes)
    return float(eta)


def ogd(gradients, project, start, *, D, G, L=None, T=None, step_sizes=None):
    """Online gradient descent: x_{t+1} = Pi[x_t - eta grad f_t(x_t)]."""
    T = len(gradients) if T is None else T
    eta = _only(step_sizes, ogd_step(D, G, T))
    return _single("ogd", gradients, project, start, eta, None)


def oegd(gradients, project, start, *, D, G, L, T=None, step_sizes=None):
    """Online extra-gradient descent, (alg:OEGD)."""
    T = len(gradients) if T is None else T
    eta = _only(step_sizes, oegd_step(D, G, L, T))
    return _single("oegd", gradients, project, start, eta, "last")


def ader(
    gradients,
    project,
    start,
    *,
    D,
    G,
    L=None,
    T=None,
    surrogate=True,
    step_sizes=None,
    meta_rate=None,
):
    """Ader++ (surrogate=True: one gradient a round) and Ader (N + 1 gradients a round).

    The meta learner's losses are linear, <grad f_t(x_t), x_{t,i}>; Ader++'s further term
    -<grad f_t(x_t), x_t> is the same for every i and leaves the weights alone.
    """
    T = len(gradients) if T is None else T
    eta = ader_pool(D, G, T) if step_sizes is None else np.asarray(step_sizes, dtype=float)
    epsilon = ader_rate(D, G, T) if meta_rate is None else float(meta_rate)
    return collaborative_ensemble(
        "ader++" if surrogate else "ader",
        gradients,
        project,
        start,
        step_sizes=eta,
        prior=ader_prior(len(eta)),
        base_loss="shared" if surrogate else "own",
        base_hints=["none"] * len(eta),
        meta_hint="none",
        lam=0.0,
        first_rate=epsilon,
        rate=lambda A, V: epsilon,
    )


def sword(gradients, project, start, *, D, G, L, T=None, step_sizes=None, meta_rate=None):
    """Sword, (alg:Sword-meta) and (alg:Sword-base): N + 2 gradients a round."""
    T = len(gradients) if T is None else T
    eta = sword_pool(D, G, L, T) if step_sizes is None else np.asarray(step_sizes, dtype=float)
    count = len(eta)
    return collaborative_ensemble(
        "sword",
        gradients,
        project,
        start,
        step_sizes=eta,
        prior=uniform_prior(count),
        base_loss="own",
        base_hints=["own"] * count,  # (eq:OEGD-actual-loss)
        meta_hint="bar",  # (eq:VariationHedge)
        lam=0.0,
        first_rate=1.0 / (4.0 * D**2 * L) if meta_rate is None else meta_rate,
        rate=lambda A, V: sword_rate(D, G, L, count, V) if meta_rate is None else meta_rate,
    )


def sword_small(gradients, project, start, *, D, G, L, T=None, step_sizes=None, meta_rate=None):
    """The conference paper's Sword_small: OGD bases, no hints, N + 1 gradients a round."""
    T = len(gradients) if T is None else T
    if step_sizes is None:
        step_sizes = sword_small_pool(D, G, L, T)
    count, cap = len(step_sizes), 1.0 / (8.0 * D**2 * L)
    return collaborative_ensemble(
        "sword_small",
        gradients,
        project,
        start,
        step_sizes=step_sizes,
        prior=uniform_prior(count),
        base_loss="own",
        base_hints=["none"] * count,
        meta_hint="none",
        lam=0.0,
        first_rate=cap if meta_rate is None else meta_rate,
        rate=lambda A, V: adaptivity_rate(D, cap, count, A) if meta_rate is None else meta_rate,
    )


def sword_best(gradients, project, start, *, D, G, L, T=None, step_sizes=None, meta_rate=None):
    """The conference paper's Sword_best: both pools, N + 2 gradients a round.

    `step_sizes` is a pair here: the pool whose bases have hints, the pool whose bases have none.
    """
    T = len(gradients) if T is None else T
    with_hints, without = sword_best_pools(D, G, L, T) if step_sizes is None else step_sizes
    eta = np.concatenate([np.atleast_1d(with_hints), np.atleast_1d(without)])
    count, cap = len(eta), 1.0 / (8.0 * D**2 * L)
    return collaborative_ensemble(
        "sword_best",
        gradients,
        project,
        start,
        step_sizes=eta,
        prior=uniform_prior(count),
        base_loss="own",
        base_hints=["own"] * np.size(with_hints) + ["none"] * np.size(without),
        meta_hint="mixed",
        lam=0.0,
        first_rate=cap if meta_rate is None else meta_rate,
        rate=lambda A, V: adaptivity_rate(D, cap, count, A) if meta_rate is None else meta_rate,
    )


def sword_pp(gradients, project, start, *, D, G, L, T=None, step_sizes=None, meta_rate=None):
    """Sword++, (alg:Swordpp-meta) and (alg:Swordpp-base): one gradient a round."""
    T = len(gradients) if T is None else T
    eta = sword_pp_pool(D, G, L, T) if step_sizes is None else np.asarray(step_sizes, dtype=float)
    count, cap = len(eta), 1.0 / (8.0 * D**2 * L)
    return collaborative_ensemble(
        "sword_pp",
        gradients,
        project,
        start,
        step_sizes=eta,
        prior=uniform_prior(count),
        base_loss="shared",
        base_hints=["last"] * count,  # (eq:variation-OGD-base)
        meta_hint="last",  # (eq:meta-optimism)
        lam=2.0 * L,  # (thm:variation-one-gradient)
        first_rate=cap if meta_rate is None else meta_rate,
        rate=lambda A, V: adaptivity_rate(D, cap, count, A) if meta_rate is None else meta_rate,
    )


def sword_optimism(
    gradients,
    project,
    start,
    *,
    hints,
    eta_bar,
    eps_bar,
    lam,
    D,
    G,
    L=None,
    T=None,
    step_sizes=None,
    meta_rate=None,
):
    """Sword.optimism, (eq:general-base) and (eq:general-meta): one gradient a round.

    `hints`: M_1..M_T with M_1 = 0, or M_1..M_{T+1} (the last one only matters to what follows).
    """
    T = len(gradients) if T is None else T
    if step_sizes is None:
        step_sizes = sword_optimism_pool(D, G, T, eta_bar)
    count = len(step_sizes)
    return collaborative_ensemble(
        "sword_optimism",
        gradients,
        project,
        start,
        step_sizes=step_sizes,
        prior=uniform_prior(count),
        base_loss="shared",
        base_hints=["given"] * count,
        meta_hint="given",
        lam=lam,
        first_rate=eps_bar if meta_rate is None else meta_rate,
        rate=lambda A, V: adaptivity_rate(D, eps_bar, count, A) if meta_rate is None else meta_rate,
        hints=hints,
    )


ALGORITHMS = {
    "ogd": ogd,
    "oegd": oegd,
    "ader": ader,
    "sword": sword,
    "sword_small": sword_small,
    "sword_best": sword_best,
    "sword_pp": sword_pp,
    "sword_optimism": sword_optimism,
}


def run(name, gradients, project, start, **settings):
    """Run the named algorithm: `settings` are the keywords of the function of that name."""
    return ALGORITHMS[name](gradients, project, start, **settings)


# ------------------------------------------------------------------------------------------------
# 5. Right-hand sides of the theorems
#    Every function returns its terms by name, and their sum as "bound".
# ------------------------------------------------------------------------------------------------


def _with_sum(**terms):
    return {**terms, "bound": math.fsum(terms.values())}


def path_length(comparators):
    """P_T, (eq:path-length)."""
    total = 0.0
    for t in range(1, len(comparators)):
        total += float(np.linalg.norm(np.subtract(comparators[t], comparators[t - 1])))
    return total


def dynamic_regret(values, decisions, comparators):
    """sum_t f_t(x_t) - f_t(u_t), (eq:universal-dynamic-regret); `values` are the functions f_t."""
    return math.fsum(
        values[t](decisions[t]) - values[t](np.asarray(comparators[t])) for t in range(len(values))
    )


def linearised_meta_regret(run, i):
    """sum_t <grad f_t(x_t), x_t - x_{t,i}>, the meta-regret of the proofs (i counts from 0)."""
    return math.fsum(
        float(run.gradients[t] @ (run.decisions[t] - run.base_decisions[t, i]))
        for t in range(len(run.decisions))
    )


def _spread(D, comparators):
    """D^2 + 2 D P_T, which every base-regret bound contains."""
    return D**2 + 2.0 * D * path_length(comparators)


# -- theorem 1 ------------------------------------------------------------------------------------


def euclidean_divergence(a, b):
    """D_psi for psi = 1/2 |.|_2^2."""
    return 0.5 * float(np.sum((np.asarray(a) - np.asarray(b)) ** 2))


def entropy_divergence(a, log_a, log_b):
    """D_psi for psi(p) = sum p ln p on the simplex, 0 ln 0 = 0."""
    return math.fsum(a[j] * (log_a[j] - log_b[j]) for j in range(len(a)) if a[j] > 0.0)


def theorem_1(run, comparators):
    """(eq:dynamic-regret-OMD-generic), for a `MirrorDescent` and both of its regularizers."""
    gap = nonstationarity = negative = 0.0
    for t in range(len(run.decisions)):
        eta = run.steps[t]
        error = run.gradients[t] - run.hints[t]
        u = np.asarray(comparators[t], dtype=float)
        if run.regularizer == "euclidean":
            dual = float(np.linalg.norm(error))
            before = euclidean_divergence(u, run.anchors[t])
            after = euclidean_divergence(u, run.anchors[t + 1])
            back = euclidean_divergence(run.anchors[t + 1], run.decisions[t])
            forth = euclidean_divergence(run.decisions[t], run.anchors[t])
        else:  # 1-strongly convex in |.|_1, whose dual is |.|_inf
            dual = float(np.max(np.abs(error)))
            with np.errstate(divide="ignore"):
                log_u = np.log(u)
            here, there, log_x = run.log_anchors[t], run.log_anchors[t + 1], run.log_decisions[t]
            before = entropy_divergence(u, log_u, here)
            after = entropy_divergence(u, log_u, there)
            back = entropy_divergence(run.anchors[t + 1], there, log_x)
            forth = entropy_divergence(run.decisions[t], log_x, here)
        gap += eta * dual**2
        nonstationarity += (before - after) / eta
        negative -= (back + forth) / eta
    return _with_sum(adaptivity=gap, nonstationarity=nonstationarity, negative=negative)


# -- lemma 1 --------------------------------------------------------------------------------------


def lemma_1(comparators, *, eta, D, G, V):
    """(eq:variation-regret-smooth); needs eta <= 1/(4L). V is the gradient variation V_T."""
    return _with_sum(
        adaptivity=eta * (G**2 + 2.0 * V), nonstationarity=_spread(D, comparators) / (2.0 * eta)
    )


def lemma_1_any_hint(decisions, gradients, hints, comparators, *, eta, D):
    """The display in the proof of (lemma:OEGD-variation) that holds for any hints.

    Its middle term is 1/(2 eta): the proof's last line before the hints are chosen has 1/eta.
    """
    moved = 0.0
    for t in range(1, len(decisions)):
        moved += float(np.sum((decisions[t] - decisions[t - 1]) ** 2))
    return _with_sum(
        adaptivity=eta * adaptivity(gradients, hints),
        nonstationarity=_spread(D, comparators) / (2.0 * eta),
        negative=-moved / (4.0 * eta),
    )


# -- lemma 2 and its adaptive twin ----------------------------------------------------------------


def _weight_moves(weights):
    """|p_t - p_{t-1}|_1^2 for t = 2..T."""
    return [float(np.sum(np.abs(weights[t] - weights[t - 1]))) ** 2 for t in range(1, len(weights))]


def _loss_deviations(losses, hints):
    """|l_t - m_t|_inf^2 for t = 1..T."""
    return [float(np.max(np.abs(losses[t] - hints[t]))) ** 2 for t in range(len(losses))]


def lemma_2(weights, losses, hints, *, epsilon, prior=None, i=None):
    """(eq:regret-optimistic-Hedge) for a fixed rate; ln N is ln(1/prior_i) under a prior."""
    penalty = math.log(weights.shape[1]) if prior is None else -math.log(prior[i])
    return _with_sum(
        adaptivity=epsilon * math.fsum(_loss_deviations(losses, hints)),
        penalty=penalty / epsilon if penalty > 0.0 else 0.0,
        negative=-math.fsum(_weight_moves(weights)) / (4.0 * epsilon),
    )


def lemma_2_adaptive(weights, losses, hints, *, first_rate, rates):
    """The proof of (thm:general-online-ensemble-adaptive) after Hoelder; rates never increase.

    The move from p_{t-1} to p_t is paid with 1/(4 eps_{t-2}): (lemma:OptHedge-adatLR) has
    eps_{t-1} beside |p_t - p_{t+1}|, and shifting the sum by one round shifts the rate too. (The
    paper's display keeps eps_{t-1}, which is a larger negative term than the lemma gives.)
    """
    if weights.shape[1] == 1:
        return _with_sum(adaptivity=0.0, penalty=0.0, negative=0.0)
    eps = [first_rate, *rates]  # eps_0, ..., eps_T
    deviations, moves = _loss_deviations(losses, hints), _weight_moves(weights)
    return _with_sum(
        adaptivity=math.fsum(eps[t] * deviations[t] for t in range(len(deviations))),
        penalty=math.log(weights.shape[1]) / eps[-1],
        negative=-math.fsum(moves[t] / (4.0 * eps[t]) for t in range(len(moves))),
    )


# -- theorems 2 and 3: Sword ----------------------------------------------------------------------


def theorem_2(count, *, D, G, L, V):
    """(thm:variation-meta-regret): Sword's meta-regret, with the rate `sword_rate(..., V)`."""
    return _with_sum(
        adaptivity=2.0 * D * math.sqrt(2.0 * (G**2 + V) * math.log(count)),
        penalty=8.0 * D**2 * L * math.log(count),
    )


def theorem_2_any_rate(count, meta_stability, *, epsilon, D, G, L, V):
    """The display in its proof before the rate is chosen; `meta_stability` is S_p."""
    return _with_sum(
        adaptivity=2.0 * epsilon * D**2 * (G**2 + V),
        penalty=math.log(count) / epsilon if count > 1 else 0.0,
        meta_stability=(2.0 * D**4 * L**2 * epsilon - 1.0 / (4.0 * epsilon)) * meta_stability,
    )


def theorem_3(count, comparators, *, D, G, L, V):
    """(thm:dynamic-var): theorem 2 plus (eq:upper-step-2-variation).

    (eq:Sword-meta-regret-final) quotes theorem 2 with 4 G^2 in place of G^2; theorem 2 stands.
    """
    meta, spread = theorem_2(count, D=D, G=G, L=L, V=V), _spread(D, comparators)
    return _with_sum(
        meta_adaptivity=meta["adaptivity"],
        meta_penalty=meta["penalty"],
        base_adaptivity=2.0 * math.sqrt((G**2 + 2.0 * V) * spread),
        base_penalty=8.0 * L * spread,
    )


# -- theorem 5 and its adaptive twin: the general ensemble ----------------------------------------


def ensemble_any_rate(run, comparators, i, *, D):
    """Proof of (thm:general-online-ensemble), before any tuning, for base i and a fixed rate.

    eps D^2 A_T + ln N/eps - S_p/(4 eps) for the meta learner, lambda (S_{x,i} - S_mix) for the
    correction, eta_i A_T + (D^2 + 2 D P_T)/(2 eta_i) - S_{x,i}/(4 eta_i) for the base learner.
    """
    epsilon, eta, count = run.first_rate, run.step_sizes[i], len(run.step_sizes)
    base, meta, mixed = run.stability
    return _with_sum(
        meta_adaptivity=epsilon * D**2 * run.adaptivity,
        meta_penalty=math.log(count) / epsilon if count > 1 else 0.0,
        base_adaptivity=eta * run.adaptivity,
        base_penalty=_spread(D, comparators) / (2.0 * eta),
        base_stability=(run.lam - 1.0 / (4.0 * eta)) * base[i],
        meta_stability=-meta / (4.0 * epsilon) if count > 1 else 0.0,
        mixed_stability=-run.lam * mixed,
    )


def ensemble_any_adaptive_rate(run, comparators, i, *, D):
    """Proof of (thm:general-online-ensemble-adaptive), before any tuning, for base i.

    The meta terms are those of `lemma_2_adaptive` with |l_t - m_t|_inf <= D |grad f_t(x_t) - M_t|.
    Like every bound here that takes a run, it is about one-gradient ensembles with a uniform prior.
    """
    eps = [run.first_rate, *run.meta_rates]  # eps_0, ..., eps_T
    eta, count = run.step_sizes[i], len(run.step_sizes)
    base, _, mixed = run.stability
    moves = _weight_moves(run.weights)
    meta_adaptivity = D**2 * math.fsum(
        eps[t] * float(np.sum((run.gradients[t] - run.hints[t]) ** 2))
        for t in range(len(run.decisions))
    )
    meta_stability = (
        -math.fsum(moves[t] / (4.0 * eps[t]) for t in range(len(moves))) if count > 1 else 0.0
    )
    return _with_sum(
        meta_adaptivity=meta_adaptivity,
        meta_penalty=math.log(count) / eps[-1] if count > 1 else 0.0,
        base_adaptivity=eta * run.adaptivity,
        base_penalty=_spread(D, comparators) / (2.0 * eta),
        base_stability=(run.lam - 1.0 / (4.0 * eta)) * base[i],
        meta_stability=meta_stability,
        mixed_stability=-run.lam * mixed,
    )


def best_base(run, comparators, *, D, eta_bar):
    """i* in the proof of (thm:general-online-ensemble), counted from 0.

    eta* = sqrt((D^2 + 2 D P_T)/A_T); the last base learner where eta* >= eta-bar, otherwise the
    one with eta_i <= eta* <= 2 eta_i. There is none when eta* < eta_1, which takes hints so wrong
    that A_T > 8 G^2 T.
    """
    wanted = math.inf
    if run.adaptivity > 0.0:
        wanted = math.sqrt(_spread(D, comparators) / run.adaptivity)
    if wanted >= eta_bar:
        return len(run.step_sizes) - 1
    below = [i for i in range(len(run.step_sizes)) if run.step_sizes[i] <= wanted]
    if not below:
        raise ValueError("eta* is below the pool: the theorem needs A_T <= 8 G^2 T")
    return below[-1]


def theorem_5(run, comparators, *, D, eta_bar, eps_bar):
    """(eq:general-dynamic-M_T), for the rate (eq:lr-meta-solution2), with i = i*."""
    A, spread, count = run.adaptivity, _spread(D, comparators), len(run.step_sizes)
    base, meta, mixed = run.stability
    i = best_base(run, comparators, D=D, eta_bar=eta_bar)
    return _with_sum(
        meta_adaptivity=2.0 * math.sqrt(D**2 * math.log(count) * A),
        base_adaptivity=2.0 * math.sqrt(spread * A),
        meta_penalty=2.0 * math.log(count) / eps_bar,
        base_penalty=2.0 * spread / eta_bar,
        base_stability=(run.lam - 1.0 / (4.0 * eta_bar)) * base[i],
        meta_stability=-meta / (4.0 * eps_bar),
        mixed_stability=-run.lam * mixed,
    )


def theorem_5_each_base(run, comparators, i, *, D, eta_bar, eps_bar):
    """(eq:proof-thmfix-overall-A): theorem 5 before the best base learner is chosen."""
    A, count, eta = run.adaptivity, len(run.step_sizes), run.step_sizes[i]
    base, meta, mixed = run.stability
    return _with_sum(
        meta_adaptivity=2.0 * math.sqrt(D**2 * math.log(count) * A),
        base_adaptivity=eta * A,
        meta_penalty=2.0 * math.log(count) / eps_bar,
        base_penalty=_spread(D, comparators) / (2.0 * eta),
        base_stability=(run.lam - 1.0 / (4.0 * eta_bar)) * base[i],
        meta_stability=-meta / (4.0 * eps_bar),
        mixed_stability=-run.lam * mixed,
    )


def theorem_5_adaptive(run, comparators, *, D, eta_bar, eps_bar):
    """(eq:result-adaptiev-collaboration), for the rates (eq:lr-meta-solution2-adaptve), i = i*.

    The statement's G-tilde = max_t |grad f_t(x_t) - M_t| is what the proof needs where its
    displays write G.
    """
    A, spread, count = run.adaptivity, _spread(D, comparators), len(run.step_sizes)
    base, meta, mixed = run.stability
    i = best_base(run, comparators, D=D, eta_bar=eta_bar)
    worst = max(float(np.sum((g - M) ** 2)) for g, M in zip(run.gradients, run.hints, strict=True))
    return _with_sum(
        meta_adaptivity=4.0 * math.sqrt(D**2 * math.log(count) * A),
        base_adaptivity=2.0 * math.sqrt(spread * A),
        meta_penalty=math.log(count) / eps_bar,
        first_errors=2.0 * eps_bar * D**2 * worst,
        base_penalty=2.0 * spread / eta_bar,
        base_stability=(run.lam - 1.0 / (4.0 * eta_bar)) * base[i],
        meta_stability=-meta / (4.0 * eps_bar),
        mixed_stability=-run.lam * mixed,
    )


# -- theorem 4 and the small-loss theorem: Sword++ ------------------------------------------------


def theorem_4(run, comparators, *, D, G, L, V):
    """(eq:exhibit-collaboration), for the rate of (thm:variation-one-gradient), with i = i*."""
    eta_bar, eps_bar, lam = 1.0 / (8.0 * L), 1.0 / (8.0 * D**2 * L), run.lam
    spread, log_count = _spread(D, comparators), math.log(len(run.step_sizes))
    base, meta, mixed = run.stability
    i = best_base(run, comparators, D=D, eta_bar=eta_bar)
    of_meta = 8.0 * eta_bar * D**2 * L**2 + 8.0 * eps_bar * D**4 * L**2 - 1.0 / (4.0 * eps_bar)
    of_mixed = 8.0 * eta_bar * L**2 + 8.0 * eps_bar * D**2 * L**2 - lam
    return _with_sum(
        meta_adaptivity=2.0 * math.sqrt(log_count * (G**2 * D**2 + 2.0 * D**2 * V)),
        base_adaptivity=2.0 * math.sqrt(spread * (G**2 + 2.0 * V)),
        meta_penalty=4.0 * log_count / eps_bar,
        base_penalty=4.0 * spread / eta_bar,
        base_stability=(lam - 1.0 / (4.0 * eta_bar)) * base[i],
        meta_stability=of_meta * meta,
        mixed_stability=of_mixed * mixed,
    )


def small_loss_own(count, cumulative_loss, comparators, *, D, L):
    """Proof of (thm:small-loss-one-gradient), its first bound: in F^X_T = sum_t f_t(x_t)."""
    spread, log_count = _spread(D, comparators), math.log(count)
    return _with_sum(
        meta_adaptivity=2.0 * math.sqrt(16.0 * L * D**2 * log_count * cumulative_loss),
        base_adaptivity=2.0 * math.sqrt(16.0 * L * spread * cumulative_loss),
        meta_penalty=16.0 * D**2 * L * log_count,
        base_penalty=16.0 * L * spread,
    )


def small_loss(count, comparators_loss, comparators, *, D, L):
    """(thm:small-loss-one-gradient) with its constants: in F_T = sum_t f_t(u_t).

    (lemma:inquality-shai-cor) with a = 128 L C, b = 16 L C, C = D^2 ln N + D^2 + 2 D P_T. The
    paper's a is 64 L C, which adds the two square roots of the first bound as if
    sqrt(p) + sqrt(q) <= sqrt(p + q); the factor 2 inside the root is missing there.
    """
    C = D**2 * math.log(count) + _spread(D, comparators)
    a, b = 128.0 * L * C, 16.0 * L * C
    return _with_sum(linear=a + b, root=math.sqrt(a * comparators_loss + a * b))
