"""A loss of your own: log-cosh regression as callables, with gradients from an autodiff.

The loss log cosh(<z_t, x> - y_t) is quadratic near 0 and linear far away. With autograd installed
(pip install autograd) it takes the gradients; without, they are written by hand.
"""

import numpy as np

import swordplay as sp

try:
    import autograd.numpy as anp
    from autograd import grad
except ImportError:
    grad = None

rounds, dim = 3000, 3
data = sp.streams.gradual_drift(horizon=rounds, dim=dim, every=500, seed=0)


def loss(x, z, y, xp=np):
    r = xp.dot(z, x) - y
    return xp.logaddexp(r, -r) - np.log(2)


def by_hand(x, z, y):
    return np.tanh(z @ x - y) * z


if grad is None:
    print("autograd is not installed: the gradients are written by hand")
    gradient = by_hand
else:
    print("the gradients are autograd's")
    gradient = grad(lambda x, z, y: loss(x, z, y, anp))

rows = list(zip(data.features, data.targets, strict=True))
stream = sp.FunctionStream(
    values=[lambda x, z=z, y=y: loss(x, z, y) for z, y in rows],
    gradients=[lambda x, z=z, y=y: gradient(x, z, y) for z, y in rows],
    dim=dim,
)

# |tanh| <= 1 and tanh' <= 1: G is the longest z_t and L its square.
longest = np.linalg.norm(data.features, axis=1).max()
facts = sp.Assumptions(lipschitz=longest, smoothness=longest**2, horizon=rounds)
run = sp.play(sp.SwordPP(sp.Ball(dim), facts), stream)

x = np.full(dim, 0.1)
gap = np.abs(stream.gradient(7, x) - by_hand(x, *rows[7])).max()
print(f"largest gap to the gradient by hand: {gap:.1e}")
print(f"loss of Sword++: {run.cumulative_loss:.2f}")
print(f"loss of standing still at 0: {stream.values(np.zeros(dim)).sum():.2f}")
