"""One round of the collaborative online ensemble, on a state row (see ``swordplay.state``).

``pay`` takes the gradient in, ``move`` moves the base learners, ``weigh`` makes the next weights
and the next decision. Numbers in the recipe say which algorithm of the family it is; the same steps
in NumPy, with the paper's equations beside them, are in ``swordplay.ensemble``.
"""

from __future__ import annotations

import math

import numpy as np

from swordplay.kernels.codes import LAST_GRADIENT, NO_HINT, TRUSTED_MIXTURE_HINT
from swordplay.kernels.compiled import compiled, inlined, part
from swordplay.kernels.projections import entropic_step, euclidean_step
from swordplay.state import (
    ADAPTIVITY,
    AT_ANCHORS,
    AT_BASES,
    AT_DECISION,
    AT_GRADIENT,
    AT_HINT,
    AT_LAST_BASES,
    AT_LAST_WEIGHTS,
    AT_LOG_PRIOR,
    AT_MOVED,
    AT_OWN_GRADIENTS,
    AT_OWN_SURPRISE,
    AT_TOTALS,
    AT_TRAVEL,
    AT_WEIGHTS,
    CAP,
    CORRECTION,
    COUNT,
    DIM,
    DISTRUST,
    DOMAIN,
    ENERGY,
    ENTROPIC,
    EPOCH,
    GRACE,
    GUESS,
    HEAD,
    HINT_KIND,
    IN_HINTED,
    IN_NUMBERS,
    IN_STEPS,
    META_STABILITY,
    MIX_STABILITY,
    NUMERATOR,
    OFFSET,
    OWN,
    QUERIES,
    RATE,
    ROUND,
    SHIFT,
    SPENT,
    STEEP,
    STEEPEST,
    TRUST,
    VARIATION,
    WATCH,
    WATCHED,
)


@inlined
def head_of(row):
    """Return the head of a row as float64."""
    return row[: HEAD * 8 // row.itemsize].view(np.float64)


# What a kernel that learned one round answers.
REFUSED, FINE, LOOK = range(3)


@part
def verdict(head, recipe):
    """Return LOOK where a gradient was too long or the horizon has passed, else FINE."""
    late = head[ROUND] - head[EPOCH] >= head[GUESS] + recipe[GRACE]
    return LOOK if late or head[STEEPEST] > recipe[STEEP] else FINE


@part
def pay(head, row, recipe, gradient, g0):
    """Account for g_t = gradient[g0:]; return False, with nothing changed, if it is not finite."""
    count, dim = int(recipe[COUNT]), int(recipe[DIM])
    last, hint = int(recipe[AT_GRADIENT]), int(recipe[AT_HINT])
    trust = head[TRUST] if recipe[HINT_KIND] != NO_HINT else 0.0

    energy = surprise = variation = distrust = 0.0
    for j in range(dim):
        g = float(gradient[g0 + j])
        energy += g * g
        gap = g - trust * row[hint + j]
        surprise += gap * gap
        change = g - row[last + j]
        variation += change * change
    if not math.isfinite(energy):
        return False
    if recipe[HINT_KIND] == TRUSTED_MIXTURE_HINT:
        for j in range(dim):
            gap = float(gradient[g0 + j]) - row[hint + j]
            distrust += gap * gap

    # Stability sums run over t = 2..T: what prepared this round counts once the round is played.
    weights, moved, travel = int(recipe[AT_WEIGHTS]), int(recipe[AT_MOVED]), int(recipe[AT_TRAVEL])
    mixed = 0.0
    for i in range(count):
        mixed += row[weights + i] * row[moved + i]
        row[travel + i] += row[moved + i]
    head[META_STABILITY] += head[SHIFT]
    head[MIX_STABILITY] += mixed

    head[ADAPTIVITY] += surprise
    head[ENERGY] += energy
    head[DISTRUST] += distrust
    if head[ROUND] > 0:
        head[VARIATION] += variation
    head[SPENT] += head[RATE] * surprise
    head[STEEPEST] = max(head[STEEPEST], energy)
    head[ROUND] += 1.0

    # l_{t,i} = <g_t, x_{t,i}> + lambda c_{t,i}; only differences matter, so the best is kept at 0.
    bases, totals = int(recipe[AT_BASES]), int(recipe[AT_TOTALS])
    correction = recipe[CORRECTION]
    best = math.inf
    for i in range(count):
        product = 0.0
        at = bases + i * dim
        for j in range(dim):
            product += gradient[g0 + j] * row[at + j]
        row[totals + i] += product + correction * row[moved + i]
        best = min(best, row[totals + i])
    for i in range(count):
        row[totals + i] -= best
    for j in range(dim):
        row[last + j] = gradient[g0 + j]
    return True


@part
def _step(recipe, row, source, target, step, vector, v0):
    dim = int(recipe[DIM])
    if recipe[ENTROPIC] > 0:
        entropic_step(row, source, target, dim, step, vector, v0)
    else:
        euclidean_step(
            int(recipe[DOMAIN]),
            recipe,
            int(recipe[IN_NUMBERS]),
            row,
            source,
            target,
            dim,
            step,
            vector,
            v0,
        )


@part
def settle(row, recipe, gradients, g0, stride):
    """x-hat_{t+1,i} = argmin eta_i <g_{t,i}, x> + D(x, x-hat_{t,i}), g_{t,i} at g0 + i * stride."""
    count, dim = int(recipe[COUNT]), int(recipe[DIM])
    anchors, steps = int(recipe[AT_ANCHORS]), int(recipe[IN_STEPS])
    bases, last_bases = int(recipe[AT_BASES]), int(recipe[AT_LAST_BASES])
    for i in range(count):
        at = anchors + i * dim
        _step(recipe, row, at, at, recipe[steps + i], gradients, g0 + i * stride)
    if last_bases != bases:
        for k in range(count * dim):
            row[last_bases + k] = row[bases + k]


@part
def lean(row, recipe, hints, h0, stride):
    """x_{t+1,i} = argmin eta_i <M_i, x> + D(x, x-hat_{t+1,i}); note how far each one moved."""
    count, dim = int(recipe[COUNT]), int(recipe[DIM])
    anchors, bases = int(recipe[AT_ANCHORS]), int(recipe[AT_BASES])
    last_bases, moved = int(recipe[AT_LAST_BASES]), int(recipe[AT_MOVED])
    steps, hinted = int(recipe[IN_STEPS]), int(recipe[IN_HINTED])
    decision = int(recipe[AT_DECISION])  # room to work in: it is written anew by weigh
    for i in range(count):
        step = recipe[steps + i] * recipe[hinted + i]
        if step != 0.0:
            _step(recipe, row, anchors + i * dim, decision, step, hints, h0 + i * stride)
        else:
            for j in range(dim):
                row[decision + j] = row[anchors + i * dim + j]
        distance = 0.0
        for j in range(dim):
            away = row[decision + j] - row[last_bases + i * dim + j]
            distance += away * away
            row[bases + i * dim + j] = row[decision + j]
        row[moved + i] = distance


@inlined
def rate(head, recipe):
    """Return the meta rate: min(cap, sqrt(numerator / (offset + the watched sum)))."""
    watched = head[VARIATION] if recipe[WATCH] > 0 else head[ADAPTIVITY]
    watched += recipe[OFFSET] - head[WATCHED]
    if watched <= 0.0:
        return recipe[CAP]
    return min(recipe[CAP], math.sqrt(recipe[NUMERATOR] / watched))


@part
def weigh(head, row, recipe, hint, h0):
    """p_{t+1,i} ~ prior_i exp(-eps_t (sum l_{s,i} + m_{t+1,i})), x_{t+1} = sum p_i x_{t+1,i}."""
    count, dim = int(recipe[COUNT]), int(recipe[DIM])
    bases, totals, moved = int(recipe[AT_BASES]), int(recipe[AT_TOTALS]), int(recipe[AT_MOVED])
    weights, last = int(recipe[AT_WEIGHTS]), int(recipe[AT_LAST_WEIGHTS])
    log_prior, decision = int(recipe[AT_LOG_PRIOR]), int(recipe[AT_DECISION])
    correction = recipe[CORRECTION]
    trust = head[TRUST] if recipe[HINT_KIND] != NO_HINT else 0.0
    eps = rate(head, recipe)
    head[RATE] = eps

    top = -math.inf
    for i in range(count):
        product = 0.0
        if trust != 0.0:
            at = bases + i * dim
            for j in range(dim):
                product += hint[h0 + j] * row[at + j]
        score = row[log_prior + i] - eps * (
            row[totals + i] + trust * product + correction * row[moved + i]
        )
        row[weights + i] = score
        top = max(top, row[weights + i])  # as the row holds it: float32 may round it down
    total = 0.0
    for i in range(count):
        row[weights + i] = math.exp(row[weights + i] - top)
        total += row[weights + i]
    shift = 0.0
    for i in range(count):
        row[weights + i] /= total
        shift += abs(row[weights + i] - row[last + i])
    head[SHIFT] = shift * shift
    mix(row, recipe, weights, decision)


@part
def mix(row, recipe, weights, target):
    """Write sum_i row[weights + i] x_{t,i} to ``target``."""
    count, dim, bases = int(recipe[COUNT]), int(recipe[DIM]), int(recipe[AT_BASES])
    for j in range(dim):
        row[target + j] = row[weights] * row[bases + j]
    for i in range(1, count):
        share = row[weights + i]
        at = bases + i * dim
        for j in range(dim):
            row[target + j] += share * row[at + j]


@part
def keep_weights(row, recipe):
    """Remember p_t before p_{t+1} takes its place."""
    weights, last = int(recipe[AT_WEIGHTS]), int(recipe[AT_LAST_WEIGHTS])
    for i in range(int(recipe[COUNT])):
        row[last + i] = row[weights + i]


@part
def learn_one_gradient(head, row, recipe, gradient, g0):
    """Take g_t in and prepare round t + 1 with the last gradient, or nothing, as the hint."""
    if not pay(head, row, recipe, gradient, g0):
        return False
    head[QUERIES] += 1.0
    settle(row, recipe, gradient, g0, 0)
    if recipe[AT_HINT] != recipe[AT_GRADIENT]:  # a player may give another hint before deciding
        hint = int(recipe[AT_HINT])
        for j in range(int(recipe[DIM])):
            row[hint + j] = gradient[g0 + j]
    keep_weights(row, recipe)
    lean(row, recipe, gradient, g0, 0)
    weigh(head, row, recipe, gradient, g0)
    return True


@compiled
def learn(row, recipe, gradient):
    """Take one gradient in; return a verdict: REFUSED (and nothing changed), FINE or LOOK."""
    head = head_of(row)
    if not learn_one_gradient(head, row, recipe, gradient, 0):
        return REFUSED
    return verdict(head, recipe)


@compiled
def lean_on(row, recipe):
    """Prepare the round under way anew with the hint that stands in the row."""
    hint = int(recipe[AT_HINT])
    lean(row, recipe, row, hint, 0)
    head = head_of(row)
    weigh(head, row, recipe, row, hint)


@part
def learn_own_gradients(head, row, recipe, gradient, own):
    """Take g_t and every base learner's own gradient in; leave x-bar_{t+1} where x_{t+1} will be.

    Return False, with nothing changed, if a gradient is not finite. ``weigh_mixture`` must follow.
    """
    count, dim = int(recipe[COUNT]), int(recipe[DIM])
    total = 0.0
    for k in range(count * dim):
        total += abs(own[k])
    if not math.isfinite(total):
        return False
    if not pay(head, row, recipe, gradient, 0):
        return False
    kept, surprise = int(recipe[AT_OWN_GRADIENTS]), int(recipe[AT_OWN_SURPRISE])
    hinted = int(recipe[IN_HINTED])
    for i in range(count):
        square = 0.0
        for j in range(dim):
            k = i * dim + j
            gap = own[k] - recipe[hinted + i] * row[kept + k]
            square += gap * gap
            row[kept + k] = own[k]
        row[surprise + i] += square
    settle(row, recipe, own, 0, dim)
    keep_weights(row, recipe)
    lean(row, recipe, own, 0, dim)
    mix(row, recipe, int(recipe[AT_WEIGHTS]), int(recipe[AT_DECISION]))
    return True


@part
def weigh_mixture(head, row, recipe, mixture):
    """Make p_{t+1} with the hint nabla f_t(x-bar_{t+1}), trusted as far as it has earned."""
    hint = int(recipe[AT_HINT])
    for j in range(int(recipe[DIM])):
        row[hint + j] = mixture[j]
    if recipe[HINT_KIND] == TRUSTED_MIXTURE_HINT:
        # beta : 1 - beta = exp(-2 DISTRUST) : exp(-2 ENERGY)
        gap = 2.0 * (head[DISTRUST] - head[ENERGY])
        head[TRUST] = 1.0 / (1.0 + math.exp(gap)) if gap < 700.0 else 0.0
    weigh(head, row, recipe, row, hint)


@compiled
def settle_own(row, recipe, gradient, own):
    """``learn_own_gradients`` from Python."""
    return learn_own_gradients(head_of(row), row, recipe, gradient, own)


@compiled
def weigh_own(row, recipe, mixture):
    """``weigh_mixture`` from Python."""
    weigh_mixture(head_of(row), row, recipe, mixture)


@part
def asks_mixture(recipe):
    """Tell whether the learner asks for the gradient at x-bar_{t+1}."""
    return recipe[OWN] > 0 and recipe[HINT_KIND] != NO_HINT and recipe[HINT_KIND] != LAST_GRADIENT
