"""Two loops behind the comparators: a small quadratic over a domain, and per-round minimisers."""

from __future__ import annotations

import math

from swordplay.kernels.codes import BALL
from swordplay.kernels.compiled import compiled, part
from swordplay.kernels.projections import project

NEAR = 1e-15  # a prediction this near its goal, relative to its terms, is there


@compiled
def quadratic_minimum(code, numbers, hessian, linear, start, curvature, still, most):
    """Return argmin <x, H x>/2 - <q, x> over the domain, and how far its last step went.

    Projected gradient with Nesterov's momentum, restarted when it points uphill (O'Donoghue and
    Candès, 2015); it ends at a step of at most ``still``, or after ``most`` steps.
    """
    dim = start.size
    x, y, new = start.copy(), start.copy(), start.copy()
    momentum = 1.0
    moved = math.inf
    for _ in range(most):
        for j in range(dim):
            slope = -linear[j]
            for k in range(dim):
                slope += hessian[j, k] * y[k]
            new[j] = y[j] - slope / curvature
        project(code, numbers, 0, new, 0, dim)
        uphill = 0.0
        square = 0.0
        for j in range(dim):
            uphill += (y[j] - new[j]) * (new[j] - x[j])
            square += (y[j] - new[j]) ** 2
        moved = math.sqrt(square)
        if moved <= still:
            x[:] = new
            break
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
        speed = (momentum - 1.0) / following
        if uphill > 0.0:
            following = 1.0
            speed = 0.0
        for j in range(dim):
            y[j] = new[j] + speed * (new[j] - x[j])
            x[j] = new[j]
        momentum = following
    return x, moved


@part
def pull(code, numbers, features, t, dim, u, step, out):
    """Write proj(u + step * features[t]) to ``out`` and return its prediction."""
    for j in range(dim):
        out[j] = u[j] + step * features[t, j]
    project(code, numbers, 0, out, 0, dim)
    prediction = 0.0
    for j in range(dim):
        prediction += features[t, j] * out[j]
    return prediction


@part
def slice_of_ball(numbers, features, t, dim, u, goal, square):
    """Project u onto {x in the ball : <features[t], x> = goal}, in place.

    That set is a ball of one dimension less, about the point of the plane nearest to the centre.
    """
    radius = numbers[2 * dim]
    at_center = 0.0
    here = 0.0
    for j in range(dim):
        at_center += features[t, j] * numbers[j]
        here += features[t, j] * u[j]
    length = math.sqrt(square)
    share = (goal - at_center) / (radius * length)
    if abs(share) >= 1.0 - NEAR:  # the plane touches the ball in one point
        for j in range(dim):
            u[j] = numbers[j] + math.copysign(radius, share) * (features[t, j] / length)
        return
    away = 0.0
    for j in range(dim):
        u[j] += (goal - here) / square * features[t, j]
        away += (u[j] - numbers[j] - (goal - at_center) / square * features[t, j]) ** 2
    reach = radius * math.sqrt(1.0 - share * share)
    if away > reach * reach:
        scale = reach / math.sqrt(away)
        for j in range(dim):
            middle = numbers[j] + (goal - at_center) / square * features[t, j]
            u[j] = middle + scale * (u[j] - middle)


@compiled
def follow(code, numbers, features, goals, start, out):
    """Write u_t = the nearest point to u_{t-1} of {x in the domain : <features_t, x> = goals_t}.

    The projection onto that set is proj(u + s * features_t) for the s that meets the goal, and the
    prediction of proj(u + s * features_t) does not decrease in s.
    """
    dim = features.shape[1]
    u, far, middle = start.copy(), start.copy(), start.copy()
    for t in range(features.shape[0]):
        here = 0.0
        square = 0.0
        terms = abs(goals[t])
        for j in range(dim):
            here += features[t, j] * u[j]
            square += features[t, j] ** 2
            terms += abs(features[t, j] * u[j])
        goal = goals[t]
        if square > 0.0 and abs(goal - here) > NEAR * terms:
            if code == BALL:
                slice_of_ball(numbers, features, t, dim, u, goal, square)
            else:
                side = 1.0 if goal > here else -1.0
                step = (goal - here) / square
                at_far = pull(code, numbers, features, t, dim, u, step, far)
                first = 0.0
                for _ in range(60):  # step out until the goal is met or passed
                    if side * (goal - at_far) <= NEAR * terms:
                        break
                    first = step
                    step *= 2.0
                    at_far = pull(code, numbers, features, t, dim, u, step, far)
                for _ in range(60):
                    if abs(goal - at_far) <= NEAR * terms:
                        break
                    half = 0.5 * (first + step)
                    at_middle = pull(code, numbers, features, t, dim, u, half, middle)
                    if side * (goal - at_middle) > 0.0:
                        first = half
                    else:
                        far[:] = middle
                        at_far = at_middle
                        step = half
                u[:] = far
        for j in range(dim):
            out[t, j] = u[j]
