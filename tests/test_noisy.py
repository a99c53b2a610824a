"""The attack on noisy counts and labels: against brute force on tiny cases, and end to end."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from importlib import resources

import jsonschema
import numba as nb
import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

from helpers.grids import all_points, cuts_for
from helpers.partial_error import partial_error
from helpers.releases import bootstrap_draws, counted, counted_as, drawn, leaves_of, random_tree
from helpers.walks import frequencies, written
from treeleak import reconstruct
from treeleak.attacks.posterior import chains
from treeleak.attacks.posterior import noisy_counts as noisy
from treeleak.attacks.posterior.chains import as_kernel_prior
from treeleak.attacks.posterior.noise_likelihood import CountLikelihood
from treeleak.attacks.posterior.prior_kernels import (
    draw_row,
    imagine,
    relearn,
)
from treeleak.attacks.posterior.target import PosteriorTarget
from treeleak.core.clock import Clock
from treeleak.core.errors import BadInput, BadModel, NotCovered
from treeleak.evidence import LeafLabels, NoisyCounts
from treeleak.learn import DPForestClassifier
from treeleak.partition import Geometry
from treeleak.partition.value_index import values_of
from treeleak.release.noise.laws import DiscreteLaplace, Gaussian, LabelNoise, Laplace
from treeleak.release.sampling import Bootstrap, Disjoint, UnknownSampling
from treeleak.schema import Binary, Implies, OneHot, Ordinal, Schema

MIXED = Schema([Binary("a"), OneHot("g", ["g0", "g1", "g2"]), Ordinal("o", 0, 3)])
NOTHING_SAID = DiscreteLaplace(1e-8)
NOISE = DiscreteLaplace(1.0)
RULE = LabelNoise("permute-and-flip", 1.0)
QUICK = replace(noisy._PLAN, chains=4, cooling=10, between=10, samples=15, sweeps=8.0)


@pytest.fixture
def quick(instead):
    """Shorter walks: enough for a dozen rows."""
    instead("_PLAN", QUICK, noisy)


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
    with_noise = [
        t.with_counts(counts=np.where(t.is_leaf[:, None], c, 0), totals=None)
        for t, c in zip(release.trees, counts, strict=True)
    ]
    return X, y, replace(release, trees=tuple(with_noise), noise=noise)


def labelled(release, rule):
    """The same trees with nothing but the largest class of each leaf."""
    trees = [
        t.with_counts(counts=np.eye(release.n_classes)[t.counts.argmax(axis=1)], totals=None)
        for t in release.trees
    ]
    return counted_as(replace(release, trees=tuple(trees), noise=rule), "labels")


# --------------------------------------------------------------------- what leaves say


def test_tables_that_would_not_fit_are_refused():
    far = np.append(np.arange(2000.0), 1e9)
    with pytest.raises(NotCovered, match="noisy counts that spread over"):
        CountLikelihood(far, 1, DiscreteLaplace(1.0), 100_000).law  # noqa: B018
    # Few different counts, however far apart, need little.
    CountLikelihood(np.array([0.0, 1e15]), 1, DiscreteLaplace(1.0), 1000).law  # noqa: B018
    with pytest.raises(NotCovered, match="draws of 100,000 rows"):
        CountLikelihood(np.array([1.0]), 1, DiscreteLaplace(1.0), 100_000, 100_000).law  # noqa: B018


# ---------------------------------------------------------------------- what rows are like


def land_for(schema, n_classes, n_rows=6, noise=NOTHING_SAID):
    """Trees that ask for everything, and counts that say next to nothing."""
    release = noisy_case(schema, n_rows, 0, NOISE, n_trees=6, depth=9, n_classes=n_classes)[2]
    geometry = Geometry.of(release, schema)
    counts = np.full(int(geometry.leaf_start[-1]) * n_classes, 1.0)
    likelihood = CountLikelihood(counts, n_classes, noise, n_rows)
    values = values_of(geometry.parts, n_classes)
    return PosteriorTarget.of(geometry, values, likelihood, n_rows, None, Clock(60.0))


LIKE = {
    "flags": (Schema([Binary("a"), Binary("b"), Binary("c")]), 2),
    "a group": (Schema([Binary("a"), OneHot("g", ["g0", "g1", "g2"]), Binary("b")]), 3),
    "no flags": (Schema([Ordinal("o", 0, 3), Ordinal("p", 0, 2)]), 1),
}


@nb.njit
def _in_turn(rng, seen, atoms, ground, belief, out):
    """Redraw the model given some rows, and rows given the model; note what came."""
    for k in range(len(out)):
        for _ in range(3):
            relearn(rng, seen, ground, belief)
            for i in range(len(atoms)):
                draw_row(rng, atoms[i], ground, belief)
        out[k, 0], out[k, 1] = np.log2(belief.strength[0]), np.log2(belief.strength[1])
        out[k, 2] = (belief.parent >= 0).sum()
        for a in range(len(belief.flag)):
            if belief.flag[a]:
                out[k, 3] = belief.size[ground.start[a] + 1] / 2
        at = 4
        for a in range(len(ground.radix)):
            m = belief.marginal[ground.start[a]]
            share = np.exp(belief.log_share[belief.offset[a]])
            out[k, at], out[k, at + 1], out[k, at + 2] = m, m * m, share * share
            out[k, at + 3] = (atoms[:, a] == 0).mean()
            out[k, at + 4] = (atoms[:, a] == atoms[0, a]).mean()
            at += 5


def forests(n):
    """Number of parents in each way in which attributes can depend on others without a cycle."""
    out = []
    for parent in itertools.product(range(-1, n), repeat=n):
        for a in range(n):
            b, steps = parent[a], 0
            while b >= 0 and steps <= n:
                b, steps = parent[b], steps + 1
            if steps > n:
                break
        else:
            out.append(sum(b >= 0 for b in parent))
    return np.array(out)


def before_anything(land, belief, rng, times):
    """What Geweke's test notes, drawn from the prior by its formulas."""
    radix = land.radix
    out = np.zeros((times, 4 + 5 * len(radix)))
    alpha, kappa = rng.choice(belief.alphas, times), rng.choice(belief.kappas, times)
    zero, one = belief.ones
    q = np.clip(rng.beta(one, zero, times), 0.02, 0.98) if belief.flag.any() else np.zeros(times)
    out[:, 0], out[:, 1], out[:, 3] = np.log2(alpha), np.log2(kappa), q
    out[:, 2] = rng.choice(forests(len(radix)), times)
    at = 4
    for a, r in enumerate(radix):
        s = belief.size[land.grid.start[a]]
        first = alpha * (2 - 2 * q if belief.flag[a] else s)
        m = rng.beta(first, alpha * r - first) if r > 1 else np.ones(times)
        m = np.maximum(m, 1e-26)
        rest = np.maximum(kappa * (1 - m), 1e-26)
        share = rng.beta(kappa * m, rest) if r > 1 else np.ones(times)
        out[:, at], out[:, at + 1], out[:, at + 2] = m, m * m, share * share
        at += 5
    return out


@pytest.mark.parametrize("name", LIKE)
@pytest.mark.slow
def test_redrawing_the_model_and_the_rows_in_turn_keeps_to_the_prior(name):
    """Geweke (2004): a wrong conditional law would drift from what was as_prior before."""
    land = land_for(*LIKE[name])
    belief = chains.hierarchy_of(land.values, 1)
    rng = np.array([11], dtype=np.uint64)
    width = 4 + 5 * len(land.radix)
    atoms = np.zeros((land.n_rows, len(land.radix)), dtype=np.int16)
    imagine(rng, atoms, land.grid, belief, 50)
    found, alone = np.zeros((20_000, width)), np.zeros((20_000, width))
    _in_turn(rng, atoms, atoms, land.grid, belief, found)
    # Rows, and with them the model, as they are without any rows to learn from.
    _in_turn(rng, atoms[:0], atoms, land.grid, belief, alone)
    expected = before_anything(land, belief, np.random.default_rng(0), 200_000)
    columns = np.arange(width)
    from_rows = (columns >= 4) & ((columns - 4) % 5 >= 3)
    expected_mean = np.where(from_rows, alone.mean(axis=0), expected.mean(axis=0))
    batches = found.reshape(40, -1, width).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(40)
    error = np.hypot(error, np.where(from_rows, alone.std(axis=0), 0) / np.sqrt(2_000))
    z = (found.mean(axis=0) - expected_mean) / np.maximum(error, 1e-4)
    assert np.abs(z).max() < 4.5, dict(enumerate(np.round(z, 1)))
    for k, grid in ((0, belief.alphas), (1, belief.kappas)):
        for x in np.log2(grid):
            own = (found[:, k] == x).reshape(40, -1).mean(axis=1)
            off = abs(own.mean() - 1 / len(grid)) / (own.std(ddof=1) / np.sqrt(40))
            assert off < 4.5


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


def score_counts(released, held):
    return NOISE.log_prob(released - held).sum()


def score_labels(released, held):
    return RULE.log_prob(held)[np.arange(len(held)), released.argmax(axis=1)].sum()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("n_trees", [1, 2])
@pytest.mark.slow
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
    land = PosteriorTarget.of(asked, own, likelihood, n_rows, None, Clock(60.0))
    assert land.radix[-2] == n_trees
    rng = np.random.default_rng(seed)
    prior = np.log(rng.dirichlet(np.ones(geometry.n_points * 2))).reshape(-1, 2)
    kernel = as_kernel_prior(np.repeat(prior, n_trees, axis=0))
    seen = frequencies(land, kernel, 10.0, times=60_000)

    options = np.array(list(itertools.product(*(range(r) for r in land.radix))))
    plain = noisy._without_tree(options)
    first = PosteriorTarget.of(
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


# ---------------------------------------------------------------------------- end to end


def check_answer(found, schema, n_rows, status=("likely",)):
    assert found.status in status
    assert len(found.X) == len(found.y) == n_rows
    assert list(found.X.columns) == list(schema.columns)
    assert schema.valid(found.X.to_numpy(dtype=float), list(found.X.columns)).all()
    assert found.confidence.shape == found.X.shape
    sure = found.confidence.to_numpy()
    # Of rows that nobody finished, it is not known how sure they are.
    assert (np.isnan(sure) if found.status == "unknown" else (sure >= 0) & (sure <= 1)).all()
    assert found.label_confidence.shape == (n_rows,)
    for X, y in itertools.islice(found.posterior.datasets(), 5):
        assert schema.valid(X.to_numpy(dtype=float), list(X.columns)).all()
        assert len(X) == len(y) == n_rows
    text = resources.files("treeleak").joinpath("formats", "reconstruction.schema.json")
    document = json.loads(found.to_json(include_rows=True))
    jsonschema.Draft202012Validator(json.loads(text.read_text())).validate(document)


ROWS = 10


def case_behind_noise(seed=0):
    X, y, release = noisy_case(MIXED, ROWS, seed, NOISE)
    return pd.DataFrame(X, columns=MIXED.columns), y, release


def trained(seed=0, epsilon=30.0, mechanism="discrete-laplace"):
    X, y, _ = case_behind_noise(seed)
    forest = DPForestClassifier(
        n_estimators=4, max_depth=3, epsilon=epsilon, schema=MIXED, classes=[0, 1],
        mechanism=mechanism, random_state=seed,
    )  # fmt: skip
    return X, y, forest.fit(X, y)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::treeleak.errors.PrivacyWarning")
@pytest.mark.parametrize("mechanism", ["discrete-laplace", "draft-dp"])
def test_a_private_forest_end_to_end(quick, mechanism):
    X, y, forest = trained(mechanism=mechanism)
    found = reconstruct(forest, MIXED, time_limit=30, n_rows=ROWS)
    check_answer(found, MIXED, ROWS)
    assert found.evidence == "noisy counts"
    assert found.row_count.between == (ROWS, ROWS)
    _, _, forest = trained(epsilon=8.0, mechanism=mechanism)
    guessed = reconstruct(forest, MIXED, time_limit=30)
    check_answer(guessed, MIXED, guessed.row_count.n)
    low, high = guessed.row_count.between
    assert low <= guessed.row_count.n <= high
    assert low < high
    records = X.assign(label=y)
    belief = found.membership(records)
    assert belief.index.equals(records.index)
    assert belief.between(0, 1).all()
    number = guessed.expectation(lambda rows, _: rows["a"].sum())
    assert 0 <= number.low <= number.mean <= number.high <= guessed.row_count.n


@pytest.mark.parametrize("sampling", ["bootstrap", "all", "labels"])
def test_other_releases_end_to_end(quick, sampling):
    X, y, release = case_behind_noise()
    bare = [t.with_counts(counts=None, totals=None) for t in release.trees]
    if sampling == "bootstrap":
        b = bootstrap_draws(len(bare), ROWS, np.random.default_rng(0))
        release = drawn(bare, MIXED.columns, X.to_numpy(), y, 2, b)
        bare = [t.with_counts(distinct=None) for t in release.trees]
        release = changed(replace(release, trees=bare), lambda c: c, noise=Laplace(1.0))
    elif sampling == "labels":
        release = labelled(release, RULE)
    else:
        release = replace(release, noise=Gaussian(1.0))
    check_answer(reconstruct(release, MIXED, time_limit=30, n_rows=ROWS), MIXED, ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True])
def test_answers_keep_to_the_rules_of_the_schema(quick, apart):
    release = replace(case_behind_noise()[2], **({"sampling": Disjoint()} if apart else {}))
    schema = Schema(MIXED.attributes, [Implies({"a": 1}, {"g0": 1})])
    points = pd.DataFrame(all_points(schema, schema.columns), columns=schema.columns)
    for told in ({}, {"population": points}):
        check_answer(reconstruct(release, schema, n_rows=ROWS, **told), schema, ROWS)


def test_what_cannot_be_asked_behind_noise_is_refused():
    _, _, release = case_behind_noise()
    for change, told, match in [
        ({}, {"bootstrap": "known"}, 'bootstrap="known", where the counts carry noise'),
        ({}, {"bootstrap": "hidden"}, 'bootstrap="hidden", where the counts carry noise'),
        ({"sampling": UnknownSampling()}, {}, "it is not known how rows reached the trees"),
        (labels_of(release), {"n_rows": 10**8}, "at most 2,000,000 are rebuilt"),
        ({"sampling": Bootstrap(n_draws=5), **labels_of(release)}, {"n_rows": 5},
         "name a class only, of trees that drew"),
        ({"n_rows": None, **labels_of(release)}, {}, "labels of leaves do not show"),
    ]:  # fmt: skip
        with pytest.raises(NotCovered, match=match):
            reconstruct(replace(release, **change), MIXED, time_limit=5, **told)
    with pytest.raises(BadInput, match="n_rows must be 1 or more"):
        reconstruct(release, MIXED, n_rows=0)


def labels_of(release):
    own = labelled(release, RULE)
    return {"trees": own.trees, "noise": own.noise}


def changed(release, change, **other):
    trees = [
        t.with_counts(counts=np.where(t.is_leaf[:, None], change(t.counts), 0), totals=None)
        for t in release.trees
    ]
    return replace(release, trees=tuple(trees), **other)


def test_hostile_counts_give_an_answer_or_a_reason(quick):
    _, _, release = case_behind_noise()
    rng = np.random.default_rng(0)
    below = changed(release, lambda c: c - 1000)
    with pytest.raises(BadInput, match=f"{ROWS} rows, but the noisy counts add up to -"):
        reconstruct(below, MIXED, n_rows=ROWS)
    with pytest.raises(BadInput, match="there cannot be"):
        reconstruct(replace(below, n_rows=None), MIXED)
    huge = changed(release, lambda c: np.round(c + 2e7 * rng.normal(size=c.shape)))
    with pytest.raises(BadInput, match=f"{ROWS} rows, but the noisy counts add up to"):
        reconstruct(huge, MIXED, n_rows=ROWS)
    far = changed(release, lambda c: c + 5e7, n_rows=None)
    with pytest.raises(NotCovered, match="at most 2,000,000 are looked at"):
        reconstruct(far, MIXED)
    with pytest.raises(BadModel, match=r"of up to 1e\+08 rows"):
        changed(release, lambda c: c + 1e9)
    with pytest.raises(BadModel, match=r"of up to 1e\+08 rows"):
        changed(release, lambda c: c + 1e200, noise=Gaussian(1.0))
    one = changed(release, lambda c: np.where(c == c.max(), 1e8, c))
    with pytest.raises(BadInput, match=f"{ROWS} rows, but the noisy counts add up to"):
        reconstruct(one, MIXED, n_rows=ROWS)


def test_rows_that_noise_hides_are_not_rebuilt_by_the_million():
    _, _, release = case_behind_noise()
    rng = np.random.default_rng(0)
    wide = changed(
        release, lambda c: np.round(c + 1e5 * rng.normal(size=c.shape)), n_rows=None,
        noise=DiscreteLaplace(1e-5),
    )  # fmt: skip
    with pytest.raises(NotCovered, match=r"does not hold the number of training rows .* give it"):
        reconstruct(wide, MIXED)


@pytest.mark.parametrize(
    ("flags", "n_rows", "known", "times"),
    [("abcd", 12, "", 24), ("abcdefg", 30, "ab", 12), ("abcdefg", 30, "abcd", 12)],
)
@pytest.mark.slow
def test_chains_expect_the_error_that_they_make(quick, flags, n_rows, known, times):
    """Rows come from what the chains believe before anything is counted."""
    schema = Schema([*(Binary(c) for c in flags), Ordinal("o", 0, 2)])
    land = land_for(schema, 2, n_rows)
    expected, real = [], []
    for seed in range(times):
        rng = np.random.default_rng(seed)
        belief = chains.hierarchy_of(land.values, 1)
        atoms = np.zeros((n_rows, len(land.radix)), dtype=np.int16)
        state = np.array([seed + 1], dtype=np.uint64)
        imagine(state, atoms, land.grid, belief, 100)
        X, y = written(land, atoms)
        trees = [random_tree(rng, cuts_for(schema, schema.columns), 3) for _ in range(4)]
        release = counted(trees, schema.columns, X, y, 2)
        noise = DiscreteLaplace((0.3, 1.5)[seed % 2])
        trees = [
            t.with_counts(
                counts=np.where(
                    t.is_leaf[:, None], t.counts + geometric(noise, t.counts.shape, rng), 0.0
                ),
                totals=None,
                distinct=None,
            )
            for t in release.trees
        ]
        release = replace(release, trees=tuple(trees), noise=noise)
        truth = pd.DataFrame(X, columns=schema.columns)
        told = {"known_columns": truth[list(known)]} if known else {"n_rows": n_rows}
        found = reconstruct(release, schema, time_limit=30, seed=seed, **told)
        expected.append(found.expected_error)
        real.append(partial_error(found.X, truth, list(known), schema))
    off = np.mean(expected) - np.mean(real)
    chance = np.std(np.subtract(expected, real), ddof=1) / np.sqrt(len(real))
    assert abs(off) < max(3 * chance, 0.1 * np.mean(real))
    assert chance < 0.15 * np.mean(real)


def geometric(noise, shape, rng):
    p = 1 - math.exp(-noise.epsilon)
    return rng.geometric(p, shape).astype(float) - rng.geometric(p, shape)
