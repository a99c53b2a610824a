"""The attack on noisy counts and labels: against brute force on tiny cases, and end to end."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from importlib import resources

import jsonschema
import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

from helpers import (
    all_points,
    counted,
    cuts_for,
    frequencies,
    leaves_of,
    random_tree,
    written,
)
from treeleak import reconstruct
from treeleak.attacks import noisy
from treeleak.attacks.chains import Landscape, as_kernel_prior
from treeleak.attacks.space import values_of
from treeleak.clock import Clock
from treeleak.evidence import LeafLabels, NoisyCounts
from treeleak.noise import DiscreteLaplace, LabelNoise
from treeleak.partition import Geometry
from treeleak.release.tree import Disjoint
from treeleak.schema import Binary, OneHot, Ordinal, Schema

MIXED = Schema([Binary("a"), OneHot("g", ["g0", "g1", "g2"]), Ordinal("o", 0, 3)])
FLAGS = Schema([Binary("a"), Binary("b"), Binary("c")])
QUICK = replace(noisy._PLAN, chains=4, cooling=10, between=10, samples=15, sweeps=8.0)


@pytest.fixture
def quick(monkeypatch):
    """Shorter walks: enough for a dozen rows."""
    monkeypatch.setattr(noisy, "_PLAN", QUICK)


def noisy_case(schema, n_rows, seed, noise, n_trees=3, depth=3, n_classes=2, sampling=None):
    """Rows, and a release of trees that count them with noise: all of them, or each in one tree."""
    rng = np.random.default_rng(seed)
    names = schema.columns
    points = all_points(schema, names)
    X, y = points[rng.integers(len(points), size=n_rows)], rng.integers(n_classes, size=n_rows)
    trees = [random_tree(rng, cuts_for(schema, names), depth) for _ in range(n_trees)]
    release = counted(trees, names, X, y, n_classes)
    if sampling is not None:
        went = rng.integers(n_trees, size=n_rows)
        own = [counted([t], names, X[went == k], y[went == k], n_classes).trees[0]
               for k, t in enumerate(trees)]  # fmt: skip
        release = replace(release, trees=tuple(own), sampling=sampling)
    sd = np.sqrt(noise.variance)
    counts = [t.counts + np.round(sd * rng.normal(size=t.counts.shape)) for t in release.trees]
    with_noise = [replace(t, counts=c) for t, c in zip(release.trees, counts, strict=True)]
    return X, y, replace(release, trees=tuple(with_noise), noise=noise)


def labelled(release, rule):
    """The same trees with nothing but the largest class of each leaf."""
    trees = [replace(t, counts=np.eye(release.n_classes)[t.counts.argmax(axis=1)],
                     totals=None) for t in release.trees]  # fmt: skip
    return replace(release, trees=tuple(trees), noise=rule, counts_are="labels")


def table(X, y):
    return np.column_stack([X, y])


# -------------------------------------------------------------------------- disjoint trees


def log_of_assignments(release, X, y, score):
    """Log of the mean over all ways in which rows went to trees of what the leaves say then."""
    leaves = leaves_of(release, X)
    ways = list(itertools.product(range(len(release.trees)), repeat=len(X)))
    out = []
    for went in ways:
        total = 0.0
        for t, tree in enumerate(release.trees):
            held = np.zeros((tree.n_nodes, release.n_classes))
            for i in np.flatnonzero(np.array(went) == t):
                held[leaves[i, t], y[i]] += 1
            total += score(tree.counts[tree.leaves], held[tree.leaves])
        out.append(total)
    return logsumexp(out) - np.log(len(ways))


NOISE = DiscreteLaplace(1.0)
RULE = LabelNoise("permute-and-flip", 1.0)


def score_counts(released, held):
    return NOISE.log_prob(released - held).sum()


def score_labels(released, held):
    return RULE.log_prob(held)[np.arange(len(held)), released.argmax(axis=1)].sum()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("n_trees", [1, 2])
def test_datasets_behind_disjoint_trees_are_as_probable_as_all_assignments_say(
    n_trees, labels, seed
):
    schema, n_rows = Schema([Binary("a"), Ordinal("o", 0, 2)]), 3
    _, _, release = noisy_case(schema, n_rows, seed, NOISE, n_trees, depth=2, sampling=Disjoint())
    geometry = Geometry.of(release, schema)
    evidence = NoisyCounts(geometry, n_rows, NOISE, (n_rows, n_rows), "disjoint")
    score = score_counts
    if labels:
        release, score = labelled(release, RULE), score_labels
        geometry = Geometry.of(release, schema)
        evidence = LeafLabels(geometry, n_rows, RULE, "disjoint")
    asked = noisy._split_up(geometry)
    own = values_of(asked.parts, 2)
    likelihood = noisy._likelihood(evidence, asked)
    land = Landscape.of(asked, own, likelihood, n_rows, None, Clock(60.0))
    assert land.radix[-2] == n_trees
    rng = np.random.default_rng(seed)
    prior = np.log(rng.dirichlet(np.ones(geometry.n_points * 2))).reshape(-1, 2)
    kernel = as_kernel_prior(np.repeat(prior, n_trees, axis=0))
    seen = frequencies(land, kernel, 10.0, times=60_000)

    options = np.array(list(itertools.product(*(range(r) for r in land.radix))))
    plain = noisy._without_tree(options)
    first = Landscape.of(
        geometry, values_of(geometry.parts, 2), noisy._likelihood(evidence, geometry), n_rows,
        None, Clock(60.0),
    )  # fmt: skip
    shown, shown_y = written(first, plain)
    code = plain[:, :-1] @ geometry.stride * 2 + plain[:, -1]
    found, expected = {}, {}
    tables = itertools.product(range(len(options)), repeat=n_rows)
    for share, chosen in zip(seen, tables, strict=True):
        key = tuple(sorted(code[list(chosen)].tolist()))
        found[key] = found.get(key, 0.0) + share
    kinds = {int(c): i for i, c in enumerate(code)}
    for chosen in itertools.product(kinds, repeat=n_rows):
        key = tuple(sorted(chosen))
        if key not in expected:
            rows = [kinds[c] for c in key]
            log = log_of_assignments(release, shown[rows], shown_y[rows], score)
            expected[key] = [log + prior.ravel()[list(key)].sum(), 0]
        expected[key][1] += 1
    log = np.array([height + np.log(times) for height, times in expected.values()])
    share = np.exp(log - logsumexp(log))
    gone = sum(abs(found.get(k, 0.0) - p) for k, p in zip(expected, share, strict=True))
    assert 0.5 * gone < 0.03


def test_disjoint_trees_end_to_end(quick):
    X, _, release = noisy_case(MIXED, 9, 1, NOISE, sampling=Disjoint())
    plain = reconstruct(release, MIXED, time_limit=30, n_rows=9)
    check_answer(plain, MIXED, 9)
    assert "each row in one tree" in plain.evidence
    people = pd.DataFrame(all_points(MIXED, MIXED.columns)[::2], columns=MIXED.columns)
    with_ = reconstruct(release, MIXED, time_limit=30, n_rows=9, population=people)
    check_answer(with_, MIXED, 9)
    assert (with_.membership(people.assign(label=0)) >= 0).all()
    known = pd.DataFrame(X, columns=MIXED.columns)[["a", "g0", "g1", "g2"]]
    kept = reconstruct(release, MIXED, time_limit=30, n_rows=9, known_columns=known)
    check_answer(kept, MIXED, 9)
    assert (kept.X[known.columns].to_numpy() == known.to_numpy()).all()


def test_disjoint_trees_under_a_population_weigh_rows_as_it_does(quick):
    """Where leaves say nothing, the rows of the answer's samples are those of the population."""
    release = replace(
        noisy_case(FLAGS, 12, 2, NOISE, sampling=Disjoint())[2], noise=DiscreteLaplace(1e-8)
    )
    people = pd.DataFrame([[0, 0, 1]] * 90 + [[1, 1, 0]] * 10, columns=FLAGS.columns)
    found = reconstruct(release, FLAGS, time_limit=30, n_rows=12, population=people)
    share = found.expectation(lambda X, y: X["c"].mean()).mean
    assert share == pytest.approx(0.9, abs=0.08)


# ---------------------------------------------------------------------------- end to end


def check_answer(found, schema, n_rows, status=("likely",)):
    assert found.status in status
    assert len(found.X) == len(found.y) == n_rows
    assert list(found.X.columns) == list(schema.columns)
    assert schema.valid(found.X.to_numpy(dtype=float), list(found.X.columns)).all()
    assert found.confidence.shape == found.X.shape
    assert found.confidence.to_numpy().min() >= 0
    assert found.confidence.to_numpy().max() <= 1
    assert found.label_confidence.shape == (n_rows,)
    for X, y in itertools.islice(found.posterior.datasets(), 5):
        assert schema.valid(X.to_numpy(dtype=float), list(X.columns)).all()
        assert len(X) == len(y) == n_rows
    text = resources.files("treeleak").joinpath("formats", "reconstruction.schema.json")
    document = json.loads(found.to_json(include_rows=True))
    jsonschema.Draft202012Validator(json.loads(text.read_text())).validate(document)
