r"""The right-hand sides of the paper's theorems, and the certificate of a run.

Theorems are numbered as they appear in the paper: 1 optimistic OMD, 2 Sword's meta-regret, 3 Sword,
4 Sword++, 5 Sword.optimism at a fixed rate, 6 small loss, 7 worst case, 8 the lower bound,
9 Sword.optimism at the self-confident rate, 10 Sword++ at it.

:func:`certify` looks back on a run: it evaluates the display of the proof in which the run's own
sums (A_T, S_x, S_p, S_mix, the rates that were used) still stand, so it needs convexity and D, but
neither G nor L. The functions below it look ahead: what Theorems 2-4, 6, 7 and 10 guarantee from
G, L, D, P_T, V_T and F_T before a round is played.

Two constants differ from the paper's text, where it slips: Lemma 1 has 1/(2 eta), as its statement
says and the end of its proof does not; the small-loss bound adds sqrt a + sqrt b where the proof
writes sqrt(a + b).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from swordplay._types import Array, ArrayLike
from swordplay.algorithms import OptimisticHedge
from swordplay.domains import Everywhere
from swordplay.ensemble import Ensemble
from swordplay.hints import DecisionDeviation
from swordplay.play import Run
from swordplay.regret import dynamic_regret, path_length
from swordplay.regularisers import Euclidean
from swordplay.streams.stream import Stream


@dataclass(frozen=True)
class Certificate:
    """A theorem, evaluated on a run: regret <= bound, term by term."""

    theorem: str
    regret: float
    bound: float
    terms: dict[str, float]
    """What the bound is the sum of."""
    base_learner: int
    """The base learner that makes the bound least, counted from 0."""
    broken: tuple[str, ...] = ()
    """Assumptions that the run broke."""
    holds: bool = field(init=False)
    """Whether the regret is at most the bound (up to rounding)."""

    def __post_init__(self) -> None:
        slack = 1e-9 * (1.0 + sum(abs(value) for value in self.terms.values()))
        object.__setattr__(self, "holds", bool(self.regret <= self.bound + slack))

    def __str__(self) -> str:
        lines = [self.theorem]
        lines += [f"  {name:<38}{value:>16,.4f}" for name, value in self.terms.items()]
        lines += [
            f"  {'bound':<38}{self.bound:>16,.4f}",
            f"  {'dynamic regret':<38}{self.regret:>16,.4f}",
            f"  {'holds' if self.holds else 'VIOLATED'}",
        ]
        lines += [f"  assumption broken: {what}" for what in self.broken]
        return "\n".join(lines)


def certify(learner: Ensemble, run: Run, stream: Stream, comparators: ArrayLike) -> Certificate:
    r"""Evaluate the theorem that fits ``learner`` on a run from its first round.

    For every base learner i of an ensemble (Eq. (50) and its counterpart in appendix B),

    .. math::
        \text{regret} \le \underbrace{\tfrac{1}{\epsilon_T}\ln\tfrac{1}{p_{1,i}}
        + D^2\textstyle\sum_t \epsilon_{t-1}\|g_t - M_t\|^2}_{\text{meta}}
        + \underbrace{\eta_i A_{T,i} + \tfrac{D^2 + 2DP_T}{2\eta_i}}_{\text{base}}
        + (\lambda - \tfrac{1}{4\eta_i})S_{x,i} - \tfrac{1}{4\bar\epsilon}S_p - \lambda S_{mix}

    and the certificate takes the i that makes it least. A single base learner has no meta terms
    (Lemma 1 before V_T enters; with a regulariser that is not Euclidean, Theorem 1, for which the
    run must have recorded decisions and anchors in every round).

    Args:
        learner: the learner that played.
        run: what ``play`` returned, for a learner that had not played before.
        stream: what it played.
        comparators: (T, d) or (d,), inside the domain.

    >>> import swordplay as sp
    >>> stream = sp.streams.instance_two(4096)
    >>> domain = sp.Ball(dim=1, radius=1.0)
    >>> learner = sp.SwordPP(domain, stream.assumptions(domain), start=[0.0])
    >>> certificate = sp.certify(learner, sp.play(learner, stream), stream, stream.comparators)
    >>> certificate.theorem, certificate.holds
    ('Theorem 9 (SwordPP, self-confident rate)', True)
    """
    u = _comparators(learner, run, stream, comparators)
    if not run.facts["fresh"]:
        raise ValueError(
            "The theorems bound a game from its first round: certify the run of a learner that had "
            "not played before."
        )
    if len(run) != len(stream):
        raise ValueError(f"The run has {len(run)} rounds, the stream {len(stream)}.")
    known = run.facts
    if known["learner"] != type(learner).__name__ or (
        learner.round == known["rounds"] and not np.array_equal(known["steps"], learner.step_sizes)
    ):
        raise ValueError(f"This run was played by another learner, a {known['learner']}.")
    regret = dynamic_regret(run, stream, u)
    broken = _broken(learner, run, u)
    if isinstance(learner, OptimisticHedge):
        return _lemma_2(learner, run, u, regret, broken)
    if not isinstance(learner.regulariser, Euclidean):
        return _theorem_1(learner, run, u, regret, broken)

    diameter, steps = learner.domain.diameter, known["steps"]
    if math.isinf(diameter):
        # Whatever the domain, only distances from the comparators matter: Lemma 1 needs D.
        raise ValueError(
            f"{learner.domain!r} has no diameter, and every bound is made of it; use "
            "Everywhere(dim, diameter=...)."
        )
    if not isinstance(learner._correction, DecisionDeviation):
        raise ValueError("No theorem covers a correction other than DecisionDeviation.")
    strength = learner._correction.strength
    epochs = known["epochs"]
    spread = epochs * diameter**2 + 2 * diameter * path_length(u)
    travel, _, mix_stability = run.stability
    with np.errstate(divide="ignore"):
        base = known["toll"] + spread / (2 * steps)
        # Through growing pools only the largest step is sure to bound 1/eta of every ancestor.
        stillness = travel / (4 * (steps if epochs == 1 else steps.max()))
    stillness = np.where(steps > 0, stillness, 0.0)

    experts = len(steps)
    meta = np.zeros(experts)
    if experts > 1:
        log_prior = -np.log(known["prior"]) + (math.log(2) if epochs > 1 else 0.0)
        meta = log_prior * known["inverse_rates"] + diameter**2 * known["spent"]
    totals = base + meta + strength * travel - stillness
    i = int(np.argmin(totals))
    terms = {"adaptivity of the base learner": float(known["toll"][i])}
    terms["path length"] = float(spread / (2 * steps[i]))
    terms["base stability"] = float(strength * travel[i] - stillness[i])
    if experts > 1:
        terms["choice among base learners"] = float(log_prior[i] * known["inverse_rates"])
        terms["adaptivity of the meta learner"] = diameter**2 * known["spent"]
        terms["meta stability"] = -known["calm"]
        terms["mixed stability"] = -strength * mix_stability
    return Certificate(_theorem(learner), regret, sum(terms.values()), terms, i, broken)


def _theorem(learner: Ensemble) -> str:
    name = type(learner).__name__
    if len(learner.step_sizes) == 1:
        return f"Lemma 1 ({name})"
    rate = "fixed rate" if learner._rate.fixed else "self-confident rate"
    if learner.own:
        return f"Lemmas 1 and 2, as for Theorem 3 ({name}, {rate})"
    return f"Theorem {5 if learner._rate.fixed else 9} ({name}, {rate})"


def _comparators(learner: Ensemble, run: Run, stream: Stream, comparators: ArrayLike) -> Array:
    u = np.asarray(comparators, dtype=np.float64)
    if u.ndim == 1 and learner.domain.dim == 1 and u.shape == (len(stream),):
        u = u[:, None]
    if u.ndim == 1:
        u = np.broadcast_to(u, (len(stream), u.size))
    if not learner.domain.contains(u):
        raise ValueError(
            f"The comparators leave {learner.domain!r}; the theorems speak of comparators inside. "
            "Use domain.project(comparators)."
        )
    return u


def _broken(learner: Ensemble, run: Run, u: Array) -> tuple[str, ...]:
    broken = []
    promised, seen = learner.facts.lipschitz, run.facts["steepest"]
    if seen > promised * (1 + 1e-6):
        broken.append(f"gradients up to {seen:.6g}, lipschitz={promised:.6g} promised")
    horizon = learner.facts.horizon
    if horizon is not None and len(run) > horizon:
        broken.append(f"{len(run)} rounds, horizon={horizon} promised")
    if isinstance(learner.domain, Everywhere):
        # Nothing projects there: D is a promise too, that all stay within D/2 of the centre.
        reached = np.concatenate(
            [u, learner.anchors] + ([] if run.decisions is None else [run.decisions])
        )
        far = 2 * float(np.linalg.norm(reached - learner.domain.center, axis=1).max())
        if far > learner.domain.diameter:
            broken.append(
                f"points {far:.6g} apart, diameter={learner.domain.diameter:.6g} promised"
            )
    return tuple(broken)


def _lemma_2(
    learner: Ensemble, run: Run, u: Array, regret: float, broken: tuple[str, ...]
) -> Certificate:
    """Evaluate Lemma 2 (or its counterpart in appendix B) against a fixed mixture of experts.

    The Euclidean norm stands for the largest entry, which is never more.
    """
    if np.ptp(u, axis=0).any():
        raise ValueError("Lemma 2 bounds the regret to a fixed comparator: give one, (N,).")
    known = run.facts
    terms = {
        "choice among experts": float(-u[0] @ np.log(known["prior"])) * known["inverse_rates"],
        "adaptivity of the meta learner": known["spent"],
        "meta stability": -known["calm"],
    }
    i = int(np.argmax(u[0]))
    return Certificate(
        f"Lemma 2 ({known['learner']})", regret, sum(terms.values()), terms, i, broken
    )


def _theorem_1(
    learner: Ensemble, run: Run, u: Array, regret: float, broken: tuple[str, ...]
) -> Certificate:
    """Evaluate Eq. (7) as it stands, from the trajectories."""
    if len(learner.step_sizes) > 1:
        raise ValueError("No theorem covers an ensemble whose regulariser is not Euclidean.")
    if learner.round != run.facts["rounds"]:
        raise ValueError("The learner has played on since this run: certify before that.")
    if run.decisions is None or run.anchors is None or run.every != 1:
        raise ValueError(
            'Theorem 1 needs the trajectories: play(..., record=("decisions", "anchors")).'
        )
    step, divergence = float(learner.step_sizes[0]), learner.regulariser.divergence
    anchors = np.concatenate([run.anchors[:, 0], learner.anchors])
    decisions, rounds = run.decisions, range(len(run))
    drift = sum(divergence(u[t], anchors[t]) - divergence(u[t], anchors[t + 1]) for t in rounds)
    still = sum(
        divergence(anchors[t + 1], decisions[t]) + divergence(decisions[t], anchors[t])
        for t in rounds
    )
    # The dual norm of entropy is the largest entry: the Euclidean norm is never smaller.
    terms = {
        "adaptivity": step * run.adaptivity,
        "non-stationarity": drift / step,
        "negative term": -still / step,
    }
    return Certificate("Theorem 1 (optimistic OMD)", regret, sum(terms.values()), terms, 0, broken)


# ---------------------------------------------------------------------- looking ahead


def lemma_1(step: float, G: float, V: float, D: float, P: float) -> float:
    r"""Return :math:`\eta(G^2 + 2V_T) + (D^2 + 2DP_T)/(2\eta)`, OEGD, eta <= 1/(4L), Eq. (9)."""
    return step * (G**2 + 2 * V) + (D**2 + 2 * D * P) / (2 * step)


def lemma_2(rate: float, surprise: float, experts: int, meta_stability: float = 0.0) -> float:
    r"""Return :math:`\epsilon\sum\|\ell_t - m_t\|_\infty^2 + \ln N/\epsilon - S_p/(4\epsilon)`.

    Eq. (13), the regret of optimistic Hedge at a fixed rate to any expert; ``surprise`` is the sum.
    """
    return rate * surprise + math.log(experts) / rate - meta_stability / (4 * rate)


def theorem_2(experts: int, G: float, L: float, V: float, D: float) -> float:
    r"""Return :math:`2D\sqrt{2(G^2 + V_T)\ln N} + 8D^2 L\ln N`, Sword's meta-regret."""
    choice = math.log(experts)
    return 2 * D * math.sqrt(2 * (G**2 + V) * choice) + 8 * D**2 * L * choice


def theorem_3(experts: int, G: float, L: float, V: float, D: float, P: float) -> float:
    r"""Return Theorem 2 plus :math:`2\sqrt{(G^2+2V_T)(D^2+2DP_T)} + 8L(D^2+2DP_T)`, Eq. (41)."""
    spread = D**2 + 2 * D * P
    base = 2 * math.sqrt((G**2 + 2 * V) * spread) + 8 * L * spread
    return theorem_2(experts, G, L, V, D) + base


def theorem_4(experts: int, G: float, L: float, V: float, D: float, P: float) -> float:
    r"""Return Eq. (46) without its last three terms, which the constants of Sword++ cancel.

    .. math:: 2\sqrt{\ln N(G^2D^2 + 2D^2V_T)} + 2\sqrt{(D^2 + 2DP_T)(G^2 + 2V_T)}
              + 4\ln N/\bar\epsilon + 4(D^2 + 2DP_T)/\bar\eta
    """
    spread, choice = D**2 + 2 * D * P, math.log(experts)
    varied = G**2 + 2 * V
    return (
        2 * math.sqrt(choice * D**2 * varied)
        + 2 * math.sqrt(spread * varied)
        + 32 * D**2 * L * choice
        + 32 * L * spread
    )


def theorem_6(experts: int, L: float, F: float, D: float, P: float) -> float:
    r"""Return the small-loss bound of Sword++ at a fixed rate.

    From A_T <= 16 L F^X_T: :math:`F^X - F \le \sqrt{aF^X} + b` implies
    :math:`F^X - F \le a + b + \sqrt{aF + ab}` (Lemma 8).
    """
    return _small_loss(2.0, 16 * D**2 * L * math.log(experts), experts, L, F, D, P)


def theorem_10(experts: int, G: float, L: float, V: float, F: float, D: float, P: float) -> float:
    r"""Return the lesser of the variation and the small-loss bound of Sword++, self-confident rate.

    Theorem 9 with A_T <= G^2 + 2V_T + 4L^2 S_mix + 4D^2L^2 S_p, or A_T <= 16 L F^X_T, and
    |g_t - M_t| <= 2G; the stabilities cancel as in Theorem 4.
    """
    spread, choice, cap = D**2 + 2 * D * P, math.log(experts), 1 / (8 * D**2 * L)
    varied = G**2 + 2 * V
    first_rounds = 2 * cap * D**2 * (2 * G) ** 2
    variation = (
        4 * math.sqrt(choice * D**2 * varied)
        + 2 * math.sqrt(spread * varied)
        + 3 * choice / cap
        + first_rounds
        + 32 * L * spread
    )
    small = _small_loss(4.0, choice / cap + first_rounds, experts, L, F, D, P)
    return min(variation, small)


def _small_loss(
    meta: float, rest: float, experts: int, L: float, F: float, D: float, P: float
) -> float:
    spread, choice = D**2 + 2 * D * P, math.log(experts)
    a = (meta * math.sqrt(16 * L * D**2 * choice) + 2 * math.sqrt(16 * L * spread)) ** 2
    b = rest + 16 * L * spread
    return float(a + b + math.sqrt(a * F + a * b))


def theorem_7(A: float, D: float, P: float, V_f: float, T: int) -> float:
    r"""Return the worst-case bound that regret <= sqrt(A (D + P_T)) for all comparators implies.

    .. math:: 3\sqrt{DA} + \min(\sqrt{AP^*_T}, 5D^{1/3}T^{1/3}A^{1/3}(V^f_T)^{1/3})
    """
    return 3 * math.sqrt(D * A) + min(math.sqrt(A * P), 5 * math.cbrt(D * T * A * V_f))
