"""The life of a fleet: whatever is done to it, it stays so many estimators of their own."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from swordplay.estimators import SwordRegressor
from swordplay.fleet import Fleet, PoolModel

DIM, KEYS = 2, 9
MODEL = PoolModel(DIM)
ROOM = 4 * (MODEL.fresh.nbytes + 64)  # some four learners: the others wait on disk


class Life(RuleBasedStateMachine):
    """A fleet with too little memory, beside one estimator for each key."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.how = {"memory_limit": ROOM, "folder": self.folder.name, "late": "predict"}
        self.fleet = Fleet(MODEL, workers=2, **self.how)
        self.alone, self.newest, self.late, self.skipped = {}, {}, {}, {}

    def teardown(self):
        self.folder.cleanup()

    def name(self, k):
        return f"key {k}" if k % 3 else k  # of two kinds

    @rule(
        keys=st.lists(st.integers(0, KEYS - 1), min_size=1, max_size=30),
        seed=st.integers(0, 999),
        timed=st.booleans(),
        holes=st.booleans(),
    )
    def learn(self, keys, seed, timed, holes):
        rng = np.random.default_rng(seed)
        names = [self.name(k) for k in keys]
        X = rng.normal(size=(len(keys), DIM)) * [1.0, 1e4]
        y = X @ [2.0, 3e-4] + rng.normal(size=len(keys))
        if holes:
            X[rng.random(X.shape) < 0.1] = np.nan
            y[rng.random(len(y)) < 0.2] = np.nan
        times = rng.integers(0, 1000, len(keys)) if timed else None
        told = self.fleet.predict_then_learn(names, X, y, times)
        order = np.argsort(times, kind="stable") if timed else range(len(keys))
        before = dict(self.newest)
        for t in order:
            key, label = names[t], y[t]
            one = self.alone.setdefault(key, SwordRegressor(missing="zero"))
            self.skipped.setdefault(key, 0)
            self.late.setdefault(key, 0)
            if timed:
                if times[t] < before.get(key, -1):
                    self.late[key] += 1
                    label = np.nan
                self.newest[key] = max(self.newest.get(key, -1), times[t])
            if np.isfinite(label):
                expected = one.predict_then_learn(X[t : t + 1], [label])[0]
            else:
                self.skipped[key] += 1
                expected = self.ask(key, X[t])
            assert told[t].tobytes() == expected.tobytes(), (key, t)

    def ask(self, key, x):
        """Return what an estimator says, or what one says that has seen nothing."""
        one = self.alone.get(key)
        if one is None or not hasattr(one, "n_features_in_"):
            return Fleet(MODEL).predict([0], [x])[0]
        return one.predict([x])[0]

    @rule(k=st.integers(0, KEYS), seed=st.integers(0, 99))
    def predict(self, k, seed):
        x = np.random.default_rng(seed).normal(size=DIM)
        told = self.fleet.predict([self.name(k)], [x])[0]
        assert told.tobytes() == self.ask(self.name(k), x).tobytes()

    @rule(through=st.sampled_from(["file", "bytes"]))
    def come_back(self, through):
        if through == "file":
            path = Path(self.folder.name, "fleet.parquet")
            self.fleet.save(path)
            self.fleet = Fleet.load(path, like=MODEL, **self.how)
        else:
            self.fleet = Fleet.from_bytes(self.fleet.to_bytes(), like=MODEL, **self.how)

    @rule(modulus=st.integers(1, 3))
    def part_and_meet(self, modulus):
        keys = self.fleet.keys
        groups = [keys[m::modulus] for m in range(modulus)]
        parts = [self.fleet.split(group) for group in groups]
        self.fleet = parts[0]
        for part in parts[1:]:
            self.fleet.merge(part)

    @rule(ks=st.lists(st.integers(0, KEYS - 1), min_size=1, max_size=4))
    def leave(self, ks):
        names = [self.name(k) for k in ks if self.name(k) in self.alone]
        stay = [key for key in self.fleet.keys if key not in names]
        self.fleet.remove(names)
        assert self.fleet.keys == stay
        for key in set(names):
            for known in (self.alone, self.newest, self.late, self.skipped):
                known.pop(key, None)

    @invariant()
    def nothing_is_lost(self):
        assert set(self.fleet.keys) == set(self.alone)
        assert self.fleet.resident <= 4
        for key, one in self.alone.items():
            if hasattr(one, "n_features_in_"):
                assert one._engine.row.tobytes() == self.fleet.state(key).tobytes()
        found = self.fleet.summary()
        assert dict(zip(found["key"], found["skipped"].tolist(), strict=True)) == self.skipped
        assert dict(zip(found["key"], found["late"].tolist(), strict=True)) == self.late


TestLife = Life.TestCase
TestLife.settings = settings(settings.get_profile("swordplay"), stateful_step_count=25)
