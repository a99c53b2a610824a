"""Evidence as statements: true rows meet those of every kind, and wrong rows miss some."""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.brute_force import equations_of
from helpers.grids import cuts_for, schemas, some_rows
from helpers.noise import noise_drawn
from helpers.releases import bootstrap_draws, counted, drawn, random_tree
from treeleak import evidence
from treeleak.evidence import (
    DrawnLossSums,
    Evidence,
    ExactCounts,
    ExactTotals,
    HiddenDraws,
    KnownDraws,
    LeafLabels,
    LeafValueEvidence,
    LossSums,
    NoisyCounts,
    evidence_for,
)
from treeleak.partition import Geometry
from treeleak.release.noise.laws import DiscreteLaplace, Gaussian, LabelNoise, Laplace
from treeleak.release.statistics import LABELS, Statistics

KINDS = (
    ExactCounts, LossSums, DrawnLossSums, LeafValueEvidence, ExactTotals, KnownDraws, HiddenDraws,
    NoisyCounts, LeafLabels,
)  # fmt: skip
SUMMED = LossSums, DrawnLossSums, LeafValueEvidence
COUNTED = tuple(kind for kind in KINDS if kind not in SUMMED)
"""Kinds that random trees show; sums of a loss take trained ones."""
SEEDS = st.integers(0, 2**32)


class Truth:
    """A table, trees, and what each kind of release says of the table."""

    def __init__(self, schema, seed, n_classes=3):
        self.schema, self.rng, self.n_classes = schema, np.random.default_rng(seed), n_classes
        self.names = schema.columns
        self.X = some_rows(schema, self.names, int(self.rng.integers(1, 9)), self.rng)
        self.y = self.rng.integers(n_classes, size=len(self.X))
        cuts = cuts_for(schema, self.names)
        self.trees = [random_tree(self.rng, cuts, 3) for _ in range(3)]
        self.b = bootstrap_draws(3, len(self.X), self.rng)
        self.float_type = "float32"

    def counted(self, unit="rows"):
        return counted(
            self.trees, self.names, self.X, self.y, self.n_classes, counts_are=unit,
            float_type=self.float_type,
        )  # fmt: skip

    def drawn(self):
        return drawn(self.trees, self.names, self.X, self.y, self.n_classes, self.b)

    def noisy(self, noise):
        release = self.counted()
        trees = [
            t.with_counts(
                counts=np.where(t.is_leaf[:, None], t.counts, 0)
                + t.is_leaf[:, None] * noise_drawn(noise, t.counts.shape, self.rng),
                totals=None,
            )
            for t in release.trees
        ]
        return replace(release, trees=tuple(trees), noise=noise)

    def labelled(self, rule):
        release = self.counted()
        several = rule.rule == "present"
        trees = [
            t.with_counts(
                LABELS,
                counts=(t.counts > 0).astype(float) if several
                else np.eye(self.n_classes)[t.counts.argmax(axis=1)],
                totals=None,
            )
            for t in release.trees
        ]  # fmt: skip
        if several:
            # A leaf without rows names none, and there is no such file.
            trees = [t for t in trees if t.counts[t.leaves].any(axis=1).all()]
            root = random_tree(self.rng, [[]] * len(self.names), 0)
            seen = np.isin(np.arange(self.n_classes), self.y)[None, :].astype(float)
            trees += (3 - len(trees)) * [root.with_counts(LABELS, counts=seen)]
        self.trees = [replace(t, statistics=Statistics()) for t in trees]
        return replace(release, trees=tuple(trees), noise=rule)

    def evidence(self, kind, choice=0):
        """The evidence of one kind."""
        if kind in (KnownDraws, HiddenDraws):
            draws = self.b if kind is KnownDraws else None
            release, more = self.drawn(), {"draws": draws, "n_rows": len(self.X)}
        elif kind is NoisyCounts:
            laws = (DiscreteLaplace(0.7), Laplace(0.5, "towards zero"), Gaussian(2.0))
            release, more = self.noisy(laws[choice % 3]), {"n_rows": len(self.X)}
        elif kind is LeafLabels:
            laws = (LabelNoise(), LabelNoise("present", 8.0), LabelNoise("exponential", 1.0))
            release, more = self.labelled(laws[choice % 3]), {"n_rows": len(self.X)}
        else:
            release, more = self.counted("rows" if kind is ExactCounts else "none"), {}
        found = evidence_for(release, **more)(Geometry.of(release, self.schema))
        assert isinstance(found, kind)
        return found


def check_truth(truth, kind, choice=0):
    evidence = truth.evidence(kind, choice)
    assert evidence.n_rows == len(truth.X)
    leaf = equations_of(truth.counted(), truth.X)
    for told in evidence.statements():
        of_leaves = told.right if told.place is None else told.place
        assert of_leaves.shape[0] == evidence.geometry.leaf_start[-1]
        assert told.met(leaf, truth.y).all()


@pytest.mark.parametrize("kind", COUNTED)
@given(schemas(), SEEDS, st.integers(0, 2))
def test_true_rows_meet_every_statement(kind, schema, seed, choice):
    check_truth(Truth(schema, seed), kind, choice)


def test_every_kind_is_registered_and_has_all_members():
    assert list(KINDS) == evidence._KINDS
    members = {name for name in vars(Evidence) if not name.startswith("_")}
    members |= set(Evidence.__annotations__)
    assert {"kind", "fitting", "geometry", "n_rows", "statements", "contradiction"} <= members
    for kind in KINDS:
        fields = {*kind.__dataclass_fields__, *dir(kind)}
        assert members <= fields
        assert inspect.signature(kind.fitting).parameters.keys() == {"assumed"}
