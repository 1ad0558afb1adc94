"""The small integers by which kernels know domains, losses and hints."""

from __future__ import annotations

BALL, BOX, SIMPLEX, L1_BALL, EVERYWHERE = range(5)

SQUARED, HUBER, LOGISTIC, ABSOLUTE, PINBALL = range(5)

# What the meta learner is told of the next gradient.
NO_HINT, LAST_GRADIENT, GIVEN_HINT, MIXTURE_HINT, TRUSTED_MIXTURE_HINT = range(5)

# What the self-confident rate watches: A_t or V-bar_t.
WATCH_ADAPTIVITY, WATCH_GRADIENT_VARIATION = range(2)
