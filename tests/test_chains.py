"""The chains over datasets against the exact posterior of tiny cases, and what they never break."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.special import logsumexp, xlog1py, xlogy
from scipy.stats import norm, rankdata

from helpers.brute_force import released_counts, rows_in
from helpers.cases import Drawn, some_parts
from helpers.grids import all_points, cuts_for
from helpers.releases import bootstrap_draws, counted, drawn, random_tree, tree_of
from helpers.walks import frequencies, written
from treeleak.attacks.posterior import target as targets
from treeleak.attacks.posterior.chains import Chain, as_kernel_prior
from treeleak.attacks.posterior.likelihood import DrawLikelihood
from treeleak.attacks.posterior.noise_likelihood import CountLikelihood, LabelLikelihood
from treeleak.attacks.posterior.target import PosteriorTarget
from treeleak.attacks.samples import Samples
from treeleak.attacks.tree_prior import TreePrior
from treeleak.core.clock import Clock
from treeleak.core.errors import BadInput
from treeleak.partition import Geometry
from treeleak.partition.value_index import values_of
from treeleak.release.noise.laws import DiscreteLaplace, Gaussian, LabelNoise, Laplace
from treeleak.schema import Binary, Implies, Numeric, OneHot, Ordinal, Schema
from treeleak.side_information.side_information import KnownParts

PAIRED = Schema([Binary("a"), Binary("b")])
RULED = Schema([Binary("a"), Binary("b"), Ordinal("o", 0, 2)], [Implies({"a": 1}, {"b": 1})])
GROUPED = Schema([OneHot("g", ["g0", "g1"], at_most_one=True), Binary("b")])
MEASURED = Schema([Numeric("x", 0.0, 10.0, missing=True), OneHot("g", ["g0", "g1", "g2"])])
LONG = Schema([Numeric("x", 0.0, 10.0), Binary("b")])
STEPPED = Schema([Ordinal("o", 0, 3)])


def case_of(schema, n_classes, seed, n_rows=3, n_trees=3, depth=1, n_draws=None):
    """Random trees over random rows that they drew."""
    rng = np.random.default_rng(seed)
    names = schema.columns
    points = all_points(schema, names)
    X, y = points[rng.integers(len(points), size=n_rows)], rng.integers(n_classes, size=n_rows)
    trees = [random_tree(rng, cuts_for(schema, names), depth) for _ in range(n_trees)]
    b = bootstrap_draws(n_trees, n_rows, rng, n_draws)
    return Drawn(drawn(trees, names, X, y, n_classes, b), schema, b, X, y, False)


def uneven():
    """Trees that ask for one attribute on one side of another: rows that exchange one meet there.

    A row may then leave a leaf that the other comes to.
    """
    one, other = (tree_of((a, 0.5), None, (1 - a, 0.5), None, None) for a in (0, 1))
    trees = [one, other, one]
    X, y = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), np.array([0, 0, 0])
    b = np.array([[1, 2, 0], [3, 1, 1], [0, 1, 1]])
    return Drawn(drawn(trees, PAIRED.columns, X, y, 2, b), PAIRED, b, X, y, False)


def mixed():
    """Leaves whose distinct rows may be of one class or of the other."""
    rng = np.random.default_rng(0)
    trees = [random_tree(rng, [[], []], 0) for _ in range(3)]
    trees += [random_tree(rng, [[0.5], []], 1) for _ in range(2)]
    X, y = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]]), np.array([0, 1, 1])
    b = np.array([[4, 2, 2], [4, 4, 0], [3, 3, 2], [2, 3, 3], [3, 2, 3]])
    return Drawn(drawn(trees, PAIRED.columns, X, y, 2, b), PAIRED, b, X, y, False)


def measured():
    """A column of numbers, with a missing value, beside a group."""
    rng = np.random.default_rng(6)
    cuts = [[0.0, 2.5, 5.0], [0.5], [0.5], [0.5]]
    trees = [random_tree(rng, cuts, 2) for _ in range(4)]
    X, y = np.array([[1.0, 0.0, 1.0, 0.0], [np.nan, 0.0, 0.0, 1.0]]), np.array([0, 1])
    b = bootstrap_draws(4, 2, rng, 4)
    return Drawn(drawn(trees, MEASURED.columns, X, y, 2, b), MEASURED, b, X, y, False)


def long():
    """A column of numbers with more atoms than bins."""
    rng = np.random.default_rng(7)
    trees = [random_tree(rng, [np.arange(0.5, 10.0), [0.5]], 5) for _ in range(5)]
    b = bootstrap_draws(5, 1, rng, 4)
    X, y = np.array([[3.2, 1.0]]), np.array([1])
    return Drawn(drawn(trees, LONG.columns, X, y, 2, b), LONG, b, X, y, False)


def land_of(case, distinct=True, parts=None):
    evidence = case.hidden(distinct)
    geometry = evidence.geometry
    values = values_of(geometry.parts, len(case.release.classes))
    likelihood = DrawLikelihood.of(evidence)
    return PosteriorTarget.of(geometry, values, likelihood, len(case.X), parts, Clock(60.0))


def flat(land):
    return TreePrior.flat(land.radix, land.values.atom_sizes)


# ------------------------------------------------------------------- against the exact posterior


def exact(case, land, log_prior, log_likelihood, heat=1.0, parts=None):
    """The posterior of every table of rows; ``log_prior`` by atoms of a row."""
    n_rows = land.n_rows
    options = np.array(list(itertools.product(*(range(r) for r in land.radix))))
    X, y = written(land, options)
    each = np.array([rows_in(case.release, X[i : i + 1], y[i : i + 1]) for i in range(len(X))])
    own = log_prior(options)
    own = np.where(case.schema.valid(X, case.release.feature_names), own, -np.inf)
    allowed = np.ones((n_rows, len(options)), dtype=bool)
    if parts is not None:
        numbered = options + land.values.atom_start[:-1]
        allowed = parts.allowed[:, numbered].all(axis=2)[parts.group]
    out = np.full((len(options),) * n_rows, -np.inf)
    known = {}
    for chosen in itertools.product(range(len(options)), repeat=n_rows):
        if not allowed[range(n_rows), chosen].all():
            continue
        key = tuple(sorted(chosen))
        if key not in known:
            rows = each[list(chosen)].sum(axis=0, dtype=np.int32)
            known[key] = own[list(chosen)].sum()
            known[key] += log_likelihood(rows)
        out[chosen] = known[key] / heat
    return np.exp(out - logsumexp(out)).ravel()


def alike(land, parts):
    """A number for each table of rows, the same for all orders of the rows of a group."""
    n_options = int(np.prod(land.radix))
    tables = np.array(list(itertools.product(range(n_options), repeat=land.n_rows)))
    group = np.zeros(land.n_rows, dtype=int) if parts is None else parts.group
    for g in np.unique(group):
        tables[:, group == g] = np.sort(tables[:, group == g], axis=1)
    return np.unique(tables, axis=0, return_inverse=True)[1].ravel()


CLOSE, CLOSE_BEHIND_NOISE = 0.02, 0.03
"""Total variation that chance explains; wrong ratios of acceptance give several times that."""


def apart(case, distinct=True, gap=1.5, heat=1.0, prior=flat, parts_seed=None, **how_long):
    """Total variation between what a walk sees and the posterior."""
    parts = None
    land = land_of(case, distinct)
    if parts_seed is not None:
        parts = some_parts(land.values, land.n_rows, np.random.default_rng(parts_seed))
        land = land_of(case, distinct, parts)

    def log_likelihood(rows):
        return land.likelihood.log_likelihood(rows, gap)

    return variation(case, land, prior(land), log_likelihood, gap, heat, parts, **how_long)


def variation(
    case, land, prior, log_likelihood, gap, heat=1.0, parts=None, fresh=0.0, times=100_000,
    close=CLOSE,
):  # fmt: skip
    def log_prior(options):
        if isinstance(prior, TreePrior):
            return prior.log_prior(options)
        return prior.ravel()[np.ravel_multi_index(tuple(options.T), tuple(land.radix))]

    expected = exact(case, land, log_prior, log_likelihood, heat, parts)
    kernel = as_kernel_prior(prior)
    if fresh:
        order = sorted(range(len(land.radix)), key=lambda a: depth_of(a, prior.parent))
        kernel = kernel._replace(order=np.array(order, dtype=np.int32))
    number = alike(land, parts)
    likely = np.bincount(number, expected)

    def away(seen):
        return 0.5 * np.abs(np.bincount(number, seen) - likely).sum()

    seen = frequencies(land, kernel, gap, heat, fresh, times, lambda seen: away(seen) < close)
    assert not seen[expected == 0].any()
    return away(seen)


def depth_of(a, parent):
    return 0 if parent[a] < 0 else 1 + depth_of(parent[a], parent)


CASES = {
    "two classes": case_of(PAIRED, 2, 0),
    "more draws than rows": case_of(PAIRED, 2, 1, n_draws=6, n_trees=4),
    "three classes": case_of(GROUPED, 3, 2, n_rows=2, n_draws=4),
    "one attribute": case_of(STEPPED, 2, 3, n_draws=5, depth=2),
    "deep": case_of(PAIRED, 2, 4, n_trees=2, depth=4),
    "uneven": uneven(),
    "mixed": mixed(),
    "ruled": case_of(RULED, 2, 5, n_rows=2, n_draws=3),
    "measured": measured(),
    "long": long(),
}
FEW_TABLES = ("more draws than rows", "one attribute", "mixed", "ruled", "measured", "long")
"""Of which a shorter walk is as close."""
LONG = ("deep", "long", "uneven", "one attribute", "more draws than rows", "measured")
"""Of which only a share is walked."""
ALSO = ("mixed",)
"""Walked each time by draws alone; with distinct rows, it is held more closely."""


def slanted(land):
    """A tree in which attributes depend on each other."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.choice(r, 12, p=rng.dirichlet(np.ones(r))) for r in land.radix])
    rows[:, 0] = rows[:, -1] % land.radix[0]
    return TreePrior.fitted(rows, 12, land.radix, land.values.atom_weights, land.values.bins)


def tabled(land):
    """A table over points and classes, with nothing of a tree."""
    shape = land.geometry.n_points, land.likelihood.n_classes
    return np.log(np.random.default_rng(1).dirichlet(np.ones(shape[0] * shape[1]))).reshape(shape)


@pytest.mark.parametrize(
    ("name", "distinct"),
    [
        pytest.param(name, distinct, marks=pytest.mark.each if each else ())
        for name in CASES
        for distinct in (True, False)
        for each in [name not in LONG and distinct != (name in ALSO)]
    ],
)
@pytest.mark.slow  # To compile these walks takes as long as half of all other tests here.
def test_a_long_walk_sees_every_table_as_often_as_the_posterior_says(name, distinct):
    assert apart(CASES[name], distinct, times=40_000 if name in FEW_TABLES else 100_000) < CLOSE


@pytest.mark.parametrize("distinct", [True, False])
@pytest.mark.slow
def test_a_walk_without_a_table_of_leaves(no_table_of_leaves, distinct):
    for name in ("two classes", "three classes", "one attribute"):
        land = land_of(CASES[name])
        assert len(land.grid.table) == 0
        assert land.weights is None
        assert apart(CASES[name], distinct, prior=slanted) < CLOSE


@pytest.fixture
def long_attributes(monkeypatch):
    """Take every attribute for one of many values."""
    monkeypatch.setattr(targets, "_long", lambda values: True)


@pytest.fixture
def unlisted(no_table_of_leaves, long_attributes):
    """Take every grid for one that is too large to list, and every attribute for a long one."""


@pytest.mark.parametrize("distinct", [True, False])
@pytest.mark.parametrize(
    "name", ["three classes", "two classes", "one attribute", "uneven", "measured"]
)
@pytest.mark.slow
def test_a_walk_that_weighs_all_atoms_at_once(unlisted, name, distinct):
    land = land_of(CASES[name])
    assert land.weights is None
    assert land.moves.gibbs_share > 0
    for prior in (flat, slanted):
        assert apart(CASES[name], distinct, prior=prior) < CLOSE


@pytest.mark.parametrize("distinct", [True, False])
@pytest.mark.slow
def test_a_walk_keeps_to_rules_on_a_grid_that_is_not_listed(monkeypatch, long_attributes, distinct):
    # Points are too many, but not the pairs of values of which the rule speaks.
    monkeypatch.setattr(targets, "MAX_TABLE", 16)
    land = land_of(CASES["ruled"])
    assert len(land.grid.table) == 0
    assert apart(CASES["ruled"], distinct, prior=slanted) < CLOSE
    assert apart(CASES["ruled"], distinct, heat=3.0) < CLOSE


@pytest.mark.slow
def test_a_walk_over_numbers_with_parts_that_are_known(unlisted):
    # More tables than in other cases, and so more visits until chance explains as little.
    assert apart(CASES["measured"], parts_seed=2, times=800_000, close=CLOSE / 2) < CLOSE / 2


@pytest.mark.parametrize("distinct", [True, False])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["two classes", "three classes", "ruled"])
@pytest.mark.slow
def test_a_walk_with_parts_that_are_known(name, distinct, seed):
    assert apart(CASES[name], distinct, parts_seed=seed, prior=slanted) < CLOSE


@pytest.mark.parametrize("heat", [0.5, 3.0])
@pytest.mark.slow
def test_heat_flattens_the_posterior_and_not_the_jumps(heat):
    assert apart(CASES["more draws than rows"], False, heat=heat) < CLOSE
    assert apart(CASES["one attribute"], False, heat=heat, prior=slanted) < CLOSE


# ------------------------------------------------------------------------ what always holds


@pytest.mark.slow
@pytest.mark.parametrize("distinct", [True, False])
def test_what_is_doubted_of_the_likelihood_is_not_doubted_of_the_prior(distinct):
    case, gap, doubt = CASES["one attribute"], 1.5, 2.5
    sure = land_of(case, distinct)
    land = replace(sure, likelihood=replace(sure.likelihood, power=doubt))
    prior = slanted(land)

    def believed(rows):
        return sure.likelihood.log_likelihood(rows, gap * doubt) / doubt

    expected, surely = (
        exact(case, land, prior.log_prior, law)
        for law in (believed, partial(sure.likelihood.log_likelihood, missing_row_penalty=gap))
    )
    chain, clock = Chain.started(land, as_kernel_prior(prior), 0), Clock(600.0)
    seen = np.zeros(len(expected))
    for _ in range(12_000):
        chain, _ = chain.walked(3.0, clock, 1.0, gap)
        seen[np.ravel_multi_index(chain.state.atoms.ravel(), tuple(land.radix) * land.n_rows)] += 1
    number = alike(land, None)
    likely, other, found = (
        np.bincount(number, own / own.sum()) for own in (expected, surely, seen)
    )
    assert 0.5 * np.abs(found - likely).sum() < 0.03
    assert 0.5 * np.abs(other - likely).sum() > 0.1
    fit = land.likelihood.log_complete(chain.state.rows, chain.state.seen, 10.0) / doubt
    own = prior.log_prior(chain.state.atoms.astype(np.int64)).sum()
    assert chain.height == pytest.approx(fit + own)


def test_rows_that_rules_leave_no_place_are_named():
    case = CASES["ruled"]
    land = land_of(case)
    allowed = np.ones((2, land.values.n_atoms), dtype=bool)
    start = land.values.atom_start
    allowed[1, [start[0], start[1] + 1]] = False  # a = 1 and b = 0
    land = land_of(case, parts=KnownParts(np.array([0, 1]), allowed))
    with pytest.raises(BadInput, match="row 1: what is known of it"):
        Chain.started(land, as_kernel_prior(flat(land)), 0)


# --------------------------------------------------------------------------- behind noise


def log_binomial(n, draws, share):
    return math.log(math.comb(draws, n)) + xlogy(n, share) + xlog1py(draws - n, -share)


def log_counts(likelihood):
    """Log P(n* | a) of all equations together, each from the law by itself."""

    def of(rows):
        total = 0.0
        for released, a in zip(likelihood.counts, rows.tolist(), strict=True):
            if np.isnan(released):
                continue
            if likelihood.n_draws is None:
                total += float(likelihood.noise.log_prob(released - a))
                continue
            draws, share = likelihood.n_draws, a / likelihood.n_rows
            n = range(draws + 1)
            each = [log_binomial(k, draws, share) for k in n]
            total += logsumexp(each + likelihood.noise.log_prob(released - np.array(n)))
        return total

    return of


def log_label(noise, rows, label, gap):
    """Log probability of a label, by going through every order in which classes are asked."""
    most = max(rows)
    if noise.rule == "majority":
        ties = rows.count(most)
        return -math.log(ties) if rows[label] == most else -gap * (most - rows[label])
    if noise.rule == "exponential":
        return noise.scale * rows[label] - math.log(sum(math.exp(noise.scale * a) for a in rows))
    taken = [math.exp(noise.scale * (a - most)) for a in rows]
    total = 0.0
    for order in itertools.permutations(range(len(rows))):
        missed = math.prod(1 - taken[c] for c in order[: order.index(label)])
        total += missed * taken[label] / math.factorial(len(rows))
    return math.log(total)


def log_labels(likelihood, gap):
    def of(rows):
        leaves = rows.reshape(-1, likelihood.n_classes).tolist()
        named = likelihood.named.tolist()
        return sum(
            log_label(likelihood.noise, own, c, gap)
            for own, c in zip(leaves, named, strict=True)
            if c >= 0
        )

    return of


def clean(case):
    """The same trees, each with all rows."""
    trees = [t.with_counts(counts=None, totals=None, distinct=None) for t in case.release.trees]
    names, n_classes = case.release.feature_names, len(case.release.classes)
    return replace(case, release=counted(trees, names, case.X, case.y, n_classes))


def under_counts(case, noise, n_draws=None, parts=None):
    """A landscape of counts that some noise has changed; one says nothing."""
    case, rng = clean(case), np.random.default_rng(0)
    counts = released_counts(case.release)[0].ravel().astype(float)
    counts += rng.integers(-2, 3, size=len(counts)) + (0.0 if noise.whole else 0.3)
    counts[1] = np.nan
    n_classes = len(case.release.classes)
    likelihood = CountLikelihood(counts, n_classes, noise, len(case.X), n_draws)
    return case, over(case, likelihood, parts)


def under_labels(case, noise, parts=None):
    """A landscape of leaves that name classes at random; one names none."""
    case, rng = clean(case), np.random.default_rng(0)
    n_leaves, n_classes = released_counts(case.release)[0].shape
    named = rng.integers(n_classes, size=n_leaves).astype(np.int32)
    named[-1] = -1
    return case, over(case, LabelLikelihood(named, n_classes, noise), parts)


def over(case, likelihood, parts):
    geometry = Geometry.of(case.release, case.schema)
    values = values_of(geometry.parts, likelihood.n_classes)
    return PosteriorTarget.of(geometry, values, likelihood, len(case.X), parts, Clock(60.0))


LAWS = {
    "geometric": DiscreteLaplace(0.7),
    "int(Laplace)": Laplace(0.7, "towards zero"),
    "Laplace": Laplace(0.7),
    "Gaussian": Gaussian(1.2),
    "rounded Gaussian": Gaussian(1.2, "nearest"),
}
LABELS = [
    LabelNoise("majority"),
    LabelNoise("permute-and-flip", 0.8),
    LabelNoise("exponential", 0.8),
]


def apart_behind_noise(case, land, heat=1.0, parts=None, prior=slanted):
    """Total variation between what a shorter walk sees and the posterior."""
    labels, gap = isinstance(land.likelihood, LabelLikelihood), 1.5
    told = log_labels(land.likelihood, gap) if labels else log_counts(land.likelihood)
    own, fresh = prior(land), 0.4
    if prior is tabled:
        land, fresh = land.expecting(land.n_rows * np.exp(own)), 0.0
    close = CLOSE_BEHIND_NOISE
    return variation(case, land, own, told, gap, heat, parts, fresh, 50_000, close)


@pytest.mark.parametrize("n_draws", [None, 5], ids=["all rows", "draws"])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.slow
@pytest.mark.each
def test_a_walk_behind_noisy_counts(law, n_draws):
    name = "two classes" if n_draws is None else "one attribute"
    case, land = under_counts(CASES[name], LAWS[law], n_draws)
    assert apart_behind_noise(case, land) < CLOSE_BEHIND_NOISE


@pytest.mark.parametrize("name", ["deep", "uneven", "three classes", "ruled", "one attribute"])
@pytest.mark.slow
def test_a_walk_behind_noisy_counts_over_other_trees(name):
    case, land = under_counts(CASES[name], LAWS["geometric"])
    for prior in (slanted, tabled):
        assert apart_behind_noise(case, land, prior=prior) < CLOSE_BEHIND_NOISE


@pytest.mark.parametrize("name", ["three classes", "one attribute", "measured"])
@pytest.mark.slow
def test_a_walk_behind_noise_that_weighs_all_atoms_at_once(unlisted, name):
    for under, noise in ((under_counts, LAWS["Laplace"]), *((under_labels, n) for n in LABELS)):
        case, land = under(CASES[name], noise)
        assert land.moves.gibbs_share > 0
        assert apart_behind_noise(case, land) < CLOSE_BEHIND_NOISE


@pytest.mark.parametrize("noise", LABELS, ids=lambda n: n.rule)
@pytest.mark.parametrize("name", ["three classes", "one attribute", "mixed"])
@pytest.mark.slow
def test_a_walk_behind_labels(name, noise):
    assert apart_behind_noise(*under_labels(CASES[name], noise)) < CLOSE_BEHIND_NOISE


# -------------------------------------------------------------------------- from far starts


def as_samples(*heights):
    chain = np.repeat(np.arange(len(heights)), [len(h) for h in heights])
    height = np.concatenate(heights)
    return Samples(
        None, np.zeros((len(height), 1, 1), dtype=np.int16), chain, height, np.zeros(0), None
    )  # fmt: skip


def test_disagreement_as_vehtari_and_others_define_it():
    # Binary fractions: the two in the middle are exactly as far from the median, and share a rank.
    x = np.random.default_rng(1).integers(-(2**20), 2**20, size=(3, 10)) / 2**18

    def r(table):
        """Of the normal scores, from the definition."""
        n = table.size
        rank = rankdata(table).reshape(table.shape)
        z = norm.ppf((rank - 3 / 8) / (n + 1 / 4))
        within = z.var(axis=1, ddof=1).mean()
        between = 5 * z.mean(axis=1).var(ddof=1)
        return np.sqrt((4 / 5 * within + between / 5) / within)

    halves = x.reshape(6, 5)
    expected = max(r(halves), r(abs(halves - np.median(halves))))
    assert as_samples(*x).disagreement == pytest.approx(expected)
    # What a processor rounds otherwise changes no rank.
    off = x * (1 + 1e-15 * np.arange(10))
    assert as_samples(*off).disagreement == as_samples(*x).disagreement


def test_effective_samples_are_those_of_a_chain_whose_memory_is_known():
    rng, n = np.random.default_rng(2), 4000
    assert as_samples(*rng.normal(size=(4, n))).effective == pytest.approx(4 * n, rel=0.06)
    for rho in (0.5, 0.9):
        chains = np.empty((4, n))
        chains[:, 0] = rng.normal(size=4)
        for t in range(1, n):
            chains[:, t] = rho * chains[:, t - 1] + np.sqrt(1 - rho**2) * rng.normal(size=4)
        # Of an autoregressive chain: n (1 - rho) / (1 + rho).
        expected = 4 * n * (1 - rho) / (1 + rho)
        assert as_samples(*chains).effective == pytest.approx(expected, rel=0.15)
        # Chains that stand apart are worth little, however many samples they have.
        assert as_samples(*(chains + 9 * np.arange(4)[:, None])).effective < 20
    assert np.isnan(as_samples(np.ones(8), np.ones(8)).effective)
    assert np.isnan(as_samples(np.ones(3), np.ones(8)).effective)
