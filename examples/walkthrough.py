# %% [markdown]
# # A walk through swordplay
#
# Run it as a script, or cell by cell in an editor that knows `# %%`.

# %%
import tempfile
from pathlib import Path

import numpy as np

import swordplay as sp

# %% [markdown]
# ## 1. A world that changes
#
# Linear regression; the true model jumps every 500 rounds. The comparators are those models.

# %%
stream = sp.streams.abrupt_drift(horizon=5000, dim=5, every=500, seed=0)
domain = sp.Ball(dim=5, radius=1.0)
facts = stream.assumptions(domain)
print(f"{len(stream)} rounds, G = {facts.lipschitz:.2f}, L = {facts.smoothness:.2f}")
print(f"the models travel {sp.regret.path_length(stream.comparators):.1f}")

# %% [markdown]
# ## 2. One step size, or many
#
# OGD has one step size, and it is made for a world that stands still. Sword++ has a pool.

# %%
ogd, sword = sp.OGD(domain, facts), sp.SwordPP(domain, facts)
runs = {
    "OGD": sp.play(ogd, stream),
    "Sword++": sp.play(sword, stream, record=("weights",), every=50),
}
for name, run in runs.items():
    regret = sp.regret.dynamic_regret(run, stream, stream.comparators)
    print(f"{name:8} loss {run.cumulative_loss:7.1f}   dynamic regret {regret:7.1f}")

# %% [markdown]
# ## 3. Where the weight goes
#
# A bar for each step size: the mean weight over the second half.

# %%
weights = runs["Sword++"].weights
for step, weight in zip(sword.step_sizes, weights[len(weights) // 2 :].mean(axis=0), strict=True):
    print(f"{step:7.4f} {'#' * int(60 * weight)} {weight:.2f}")

# %% [markdown]
# ## 4. Regret is a curve
#
# Against the best fixed model Sword++ wins; against models that may switch it loses a little. The
# certificate says how much the theory would have allowed.

# %%
print("switches  path length   regret    bound")
for switches in (0, 1, 3, 9, 19):
    u = sp.regret.best_piecewise(stream, domain, switches + 1)
    sheet = sp.certify(sword, runs["Sword++"], stream, u)
    assert sheet.holds
    length = sp.regret.path_length(u)
    print(f"{switches:8} {length:12.2f} {sheet.regret:8.1f} {sheet.bound:8.1f}")

# %% [markdown]
# ## 5. Stop, save, go on
#
# A learner is one row of floats. What is loaded plays on as if nothing had happened.

# %%
half = len(stream) // 2
first = sp.LinearStream(stream.features[:half], stream.targets[:half], stream.loss)
rest = sp.LinearStream(stream.features[half:], stream.targets[half:], stream.loss)
learner = sp.SwordPP(domain, facts)
sp.play(learner, first)
with tempfile.TemporaryDirectory() as folder:
    learner.save(Path(folder) / "sword.bin")
    twin = sp.load(Path(folder) / "sword.bin")
lost, lost_by_twin = sp.play(learner, rest).losses, sp.play(twin, rest).losses
print("the same to the last bit:", bool(np.array_equal(lost, lost_by_twin)))
