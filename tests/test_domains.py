"""Default forests on tables with raw numbers: rows settled by the leaves that they may lie in.

On small tables, tests/test_known.py holds the same attack against brute force.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import treeleak
from helpers.brute_force import equations_of
from helpers.cases import Drawn
from helpers.chance import likely_shares
from helpers.models import points_of, some_model, some_values
from helpers.older import needs_counted_gaps
from treeleak.attacks.known_draws import (
    box_kernels,
    domain_kernels,
    leaf_boxes,
    row_kernels,
    walking,
)
from treeleak.attacks.known_draws import domains as domains_module
from treeleak.attacks.known_draws import run as known_draws_run
from treeleak.attacks.known_draws.atom_intervals import atom_intervals
from treeleak.attacks.known_draws.domains import Domains
from treeleak.attacks.known_draws.listing import compile_loops, listed
from treeleak.attacks.known_draws.run import fallback_rows, proved_of
from treeleak.attacks.known_draws.search import search
from treeleak.attacks.large_grid.restarts import SEARCH
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.walkers import Walker
from treeleak.core.arrays import bits_set
from treeleak.core.clock import Clock, OutOfTime
from treeleak.evidence import KnownDraws
from treeleak.partition import Geometry
from treeleak.partition.value_index import values_of
from treeleak.release import to_release
from treeleak.release.draws.seeds import known_draws
from treeleak.schema import Binary, Numeric, OneHot, Ordinal, Schema

JOBS = ["cook", "nurse", "pilot"]
SCHEMA = Schema(
    [
        Ordinal("age", 18, 90),
        Numeric("wage", 0.0, 1e6, missing=True),
        OneHot("job", JOBS),
        Binary("smokes"),
    ]
)
MODELS = {
    "bootstrap": RandomForestClassifier(30, random_state=3),
    "missing values": RandomForestClassifier(30, random_state=4, max_features=None),
    "extra trees": ExtraTreesClassifier(40, bootstrap=True, random_state=5),
    "half of the rows": RandomForestClassifier(40, random_state=6, max_samples=0.5),
    "shallow": RandomForestClassifier(30, random_state=7, max_depth=4),
}


SOME = ("bootstrap", "extra trees", "half of the rows")


def people(n: int, seed: int, gaps: bool = False) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.integers(18, 91, n), "wage": rng.lognormal(10, 0.5, n).round(0)})
    X[JOBS] = np.eye(3)[rng.integers(3, size=n)]
    X["smokes"] = rng.integers(2, size=n)
    if gaps:
        needs_counted_gaps()
        X.loc[rng.random(n) < 0.1, "wage"] = np.nan
    likely = 1 / (1 + np.exp(-(0.05 * (X["age"] - 50) + X["smokes"])))
    return X.astype(float), pd.Series(np.where(rng.random(n) < likely, "ill", "well"))


def domains_of(model, X, y) -> tuple[Domains, np.ndarray]:
    """Domains, and for each row and tree its true leaf (row of A), -1 where it was not drawn."""
    release = to_release(model.fit(X, y))
    geometry = Geometry.of(release, SCHEMA)
    draws = known_draws(release).counts
    domains = Domains.of(KnownDraws(geometry, draws))
    table = X.to_numpy(np.float32)
    leaves = [
        geometry.leaf_start[t] + np.searchsorted(tree.leaves, tree.apply(table))
        for t, tree in enumerate(release.trees)
    ]
    return domains, np.where(draws > 0, np.array(leaves), -1).T


def free(domains: Domains, label: np.ndarray) -> RowConstraints:
    """What rows have to meet, wherever they are."""
    evidence, known = domains.evidence, np.zeros(len(label), dtype=bool)
    return RowConstraints.of_known(evidence, evidence.geometry, label, known, None)


def kept(domains: Domains, leaves: np.ndarray, label: np.ndarray) -> bool:
    """Whether every row may lie where it does."""
    start, words = domains.evidence.geometry.leaf_start, domains.boxes.word_start
    row, tree = np.nonzero(leaves >= 0)
    slot = leaves[row, tree] - start[tree]
    word = domains.bits[row, label[row], words[tree] + slot // 64]
    return bool((word >> (slot % 64).astype(np.uint64) & np.uint64(1)).all())


def test_what_is_compiled_beforehand_is_all_that_runs():
    compile_loops()
    modules = (domain_kernels, box_kernels, row_kernels)
    every = [value for module in modules for value in vars(module).values()]
    loops = [loop for loop in every if hasattr(loop, "signatures")]
    before = [len(loop.signatures) for loop in loops]
    assert sum(before) > 12
    domains = [domains_of(MODELS["extra trees"], *people(30, 1))[0] for _ in range(2)]
    listed(domains[0], Clock(60.0))
    few = RandomForestClassifier(3, max_depth=3, random_state=0)
    problem = listed(domains_of(few, *people(30, 1))[0], Clock(60.0)).problem
    assert problem.n_open
    search(problem.narrowed(Clock(60.0)), None, Clock(60.0), 0)
    with uncompared():
        listed(domains[1], Clock(60.0))
    assert [len(loop.signatures) for loop in loops] == before


@contextmanager
def uncompared(few: int = domains_module.MOST_BOXES) -> Iterator[None]:
    """Leaves are too many to be compared each with each; rows are cut into few boxes at first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaf_boxes, "MAX_COMPARED", 0)
        patch.setattr(domains_module, "MOST_BOXES", few)
        yield


def test_boxes_find_what_comparing_leaves_does_and_more():
    X, y = people(60, 1, gaps=True)
    label = np.searchsorted(["ill", "well"], y)
    by_pairs, leaves = domains_of(MODELS["missing values"], X, y)
    by_boxes, partly = (domains_of(MODELS["missing values"], X, y)[0] for _ in range(2))
    pairs = listed(by_pairs, Clock(60.0))
    with uncompared():
        boxes = listed(by_boxes, Clock(60.0))
    with uncompared(few=40):
        assert partly.narrow(Clock(60.0)) == -1
    assert kept(by_boxes, leaves, label)
    assert kept(partly, leaves, label)
    assert not (by_boxes.bits & ~partly.bits).any()
    assert not (by_boxes.bits & ~by_pairs.bits).any()
    assert pairs.complete.all()
    assert boxes.complete.all()
    for k in range(len(X)):
        own, other = (
            {
                (*leaf, c)
                for leaf, c in zip(x.leaf(x.row == k).tolist(), x.label[x.row == k], strict=True)
            }
            for x in (boxes, pairs)
        )
        assert own <= other


@pytest.mark.parametrize("name", MODELS)
def test_the_truth_is_never_ruled_out_and_most_else_is(name):
    X, y = people(60, 1, gaps=name == "missing values")
    domains, leaves = domains_of(MODELS[name], X, y)
    label = np.searchsorted(MODELS[name].classes_, y)
    before = domains.open_leaves.sum()
    assert kept(domains, leaves, label)
    assert domains.narrow(Clock(60.0)) == -1
    assert kept(domains, leaves, label)
    assert domains.open_leaves.sum() < before / 4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["missing values", *SOME])
def test_rows_come_back_in_their_places(unlisted, name):
    X, y = people(60, 3, gaps=name == "missing values")
    model = MODELS[name].fit(X, y)
    heard = []
    found = treeleak.reconstruct(
        model, schema=SCHEMA, time_limit=60, progress=lambda now: heard.append(now.stage)
    )
    narrowing = [stage for stage in heard if stage.startswith("narrowing the leaves")]
    assert "leaves for each column with tests" in narrowing[0]
    assert "few places left" in narrowing[0]
    assert found.status in ("feasible", "unique")
    assert found.cells.startswith("generated")
    assert found.ordered
    assert found.misfit == 0
    proved = found.proved.to_numpy()
    assert proved.any()
    assert (found.y.to_numpy() == y.to_numpy()).mean() > 0.9
    assert (found.y.to_numpy() == y.to_numpy())[proved].all()
    own, true = (table[X.columns].astype(float)[proved] for table in (found.X, X))
    # A proved row lies where the true one does, in every tree.
    assert np.array_equal(model.apply(own), model.apply(true))
    own, true = own.to_numpy(), true.to_numpy()
    sure = found.confidence[X.columns].to_numpy()[proved] == 1.0
    assert ((own == true) | (np.isnan(own) & np.isnan(true)))[sure].all()


def test_what_is_known_of_rows_helps(unlisted):
    X, y = people(60, 4)
    model = RandomForestClassifier(12, random_state=1, max_depth=5).fit(X, y)
    known = X[["age", "smokes"]]
    found = treeleak.reconstruct(model, schema=SCHEMA, time_limit=60, known_columns=known)
    assert found.misfit == 0
    assert np.array_equal(found.X[["age", "smokes"]].to_numpy(float), known.to_numpy(float))


@pytest.mark.slow
def test_behind_a_pipeline(unlisted):
    X, y = people(40, 6, gaps=True)
    table = X[["age", "wage"]].assign(job=X[JOBS].idxmax(axis=1))
    columns = make_column_transformer(
        (SimpleImputer(), ["age", "wage"]), (OneHotEncoder(), ["job"])
    )
    model = make_pipeline(columns, RandomForestClassifier(30, random_state=0)).fit(table, y)
    found = treeleak.reconstruct(model, time_limit=60, space="input")
    assert found.misfit == 0
    assert (found.y.to_numpy() == y.to_numpy()).mean() > 0.95
    assert (found.X["job"].to_numpy() == table["job"].to_numpy()).mean() > 0.9


def test_what_follows_from_leaves_that_rows_are_taken_to_be_in():
    X, y = people(60, 1)
    domains, leaves = domains_of(MODELS["shallow"], X, y)
    assert domains.narrow(Clock(60.0)) == -1
    before, label = domains.bits.copy(), np.searchsorted(["ill", "well"], y)
    rng = np.random.default_rng(0)
    some = np.where(rng.random(leaves.shape) < 0.5, leaves, -1)
    none_open = np.zeros(60, dtype=bool)
    closed = walking._assumed(domains, free(domains, label), some, Clock(60.0)).closed
    assert np.array_equal(domains.bits, before)
    row, tree = np.nonzero(leaves >= 0)
    assert not closed[row, leaves[row, tree]].any()
    assert closed.sum() > domains.closed(label, none_open).sum()
    # What is known not to be is not assumed.
    start = domains.evidence.geometry.leaf_start
    wrong = np.where(leaves >= 0, start[:-1], -1)
    shut = domains.closed(label, none_open)[row, wrong[row, tree]] > 0
    assert shut.any()
    held = domains.assuming(wrong).closed(label, none_open)
    assert not held[row[shut], leaves[row[shut], tree[shut]]].any()


def test_leaves_that_contradict_each_other_are_not_believed():
    X, y = people(60, 1)
    domains, leaves = domains_of(MODELS["shallow"], X, y)
    label = np.searchsorted(["ill", "well"], y)
    first = np.where(leaves >= 0, domains.evidence.geometry.leaf_start[:-1], -1)
    every = np.ones(60, dtype=bool)
    assert domains.assuming(first).narrow(Clock(60.0), every) >= 0
    assert walking._assumed(domains, free(domains, label), first, Clock(60.0)) is None


@pytest.mark.parametrize("native", [True, False])
def test_bits_that_are_set_are_counted(native, monkeypatch):
    if native and not hasattr(np, "bitwise_count"):
        pytest.skip("NumPy counts bits itself from 2.0 on")
    if not native:
        monkeypatch.delattr(np, "bitwise_count", raising=False)
    words = np.random.default_rng(0).integers(2**64, size=(3, 2, 5), dtype=np.uint64)
    true = [[sum(int(w).bit_count() for w in line) for line in table] for table in words]
    assert bits_set(words).tolist() == true


def test_rows_at_hand_lie_where_they_may():
    """Each in an open leaf of every tree that drew it, as far as some point lies in all of them."""
    X, y = people(40, 6, gaps=True)
    domains, leaves = domains_of(MODELS["missing values"], X, y)
    label = (y == "well").to_numpy().astype(int)
    values = values_of(domains.evidence.geometry.parts, 2)
    early = fallback_rows(domains, values)
    assert early.misfit > 0
    # Draws and distinct rows, as in walks: the better of both is the answer.
    evidence, atoms = domains.evidence, values.atom_of[early.values] - values.atom_start[:-1]
    none = np.zeros(40, dtype=bool)
    constraints = RowConstraints.of_known(evidence, evidence.geometry, atoms[:, -1], none, None)
    assert early.misfit == Walker.started(constraints, 0, atoms.astype(np.int32)).misfit
    assert not early.proved.any()
    chosen = domains.chosen(label)
    assert (chosen[leaves < 0] == -1).all()
    assert (chosen >= 0).mean() > 0.5
    assert kept(domains, chosen, label)
    whole = (chosen >= 0).sum(axis=1) == (leaves >= 0).sum(axis=1)
    assert whole.any()
    for k in np.flatnonzero(whole):
        middle = domains.boxes.common(chosen[[k]][:, chosen[k] >= 0])[1]
        at = domains.evidence.geometry.trace_atoms(middle)[0]
        assert (at == chosen[k])[chosen[k] >= 0].all()
    # What is settled stands in its leaves, and is proved.
    listed(domains, Clock(60.0))
    late = fallback_rows(domains, values)
    assert late.misfit < early.misfit
    assert late.proved.any()
    settled = (domains.open_leaves == 0) & domains.evidence.drawn
    assert (domains.chosen(label) == leaves)[settled].all()
    told = late.values[:, -1] - values.start[-2]
    assert (told == label)[late.proved].all()
    # So is what walked there, and nothing that walked elsewhere.
    walked = replace(late, proved=np.zeros_like(late.proved))
    assert (proved_of(walked, domains, values).proved == late.proved).all()
    another = replace(walked, values=np.roll(walked.values, 1, axis=0))
    atoms = [values.atom_of[rows.values] - values.atom_start[:-1] for rows in (late, another)]
    at = [np.c_[domains.evidence.geometry.trace_atoms(a[:, :-1]), a[:, -1]] for a in atoms]
    same = (at[0] == at[1]).all(axis=1)
    assert not same.all()
    assert (proved_of(another, domains, values).proved == (late.proved & same)).all()


def test_time_that_ends_early_leaves_rows(unlisted, breaks):
    X, y = people(40, 7)
    breaks(known_draws_run, "listed", OutOfTime())
    found = treeleak.reconstruct(MODELS["bootstrap"].fit(X, y), SCHEMA, time_limit=30)
    assert found.status == "unknown"
    assert len(found.X) == 40
    assert found.misfit > 0
    assert not found.proved.any()


@pytest.mark.parametrize("kind", ["bootstrap", "missing values", "half of the rows"])
def test_spans_are_what_some_leaf_of_every_tree_admits(kind):
    X, y = people(40, 2, gaps=kind == "missing values")
    domains, true = domains_of(MODELS[kind], X, y)
    geometry, label = domains.evidence.geometry, np.unique(y, return_inverse=True)[1]
    domains.narrow(Clock(60.0))
    closed = domains.closed(label, np.zeros(len(label), dtype=bool))
    span, settled = atom_intervals(domains, closed)
    rng = np.random.default_rng(0)
    radix = geometry.radix
    # Brute force: the leaf of every tree that many points lie in, one attribute at a time.
    points = rng.integers(radix, size=(2_000, len(radix)))
    leaf = geometry.trace_atoms(points)
    n_settled = 0
    for k in range(len(label)):
        drawn = np.flatnonzero(true[k] >= 0)
        assert not closed[k, true[k, drawn]].any()
        inside = (closed[k][leaf[:, drawn]] == 0).all(axis=1)
        assert ((points >= span[0, k]) & (points <= span[1, k]))[inside].all()
        own = geometry.trace_atoms(rng.integers(span[0, k], span[1, k] + 1, (200, len(radix))))
        assert (own[:, settled[k]] == true[k, settled[k]]).all()
        assert not settled[k, true[k] < 0].any()
        n_settled += int(settled[k].sum())
    assert n_settled > 0.2 * (true >= 0).sum()
    assert (span[1] - span[0] + 1).sum() < 0.9 * len(label) * radix.sum()


def test_a_walk_inside_spans_goes_as_without_them_but_for_what_is_ruled_out():
    X, y = people(30, 1)
    domains, true = domains_of(MODELS["bootstrap"], X, y)
    label = np.unique(y, return_inverse=True)[1]
    domains.narrow(Clock(60.0))
    closed = domains.closed(label, np.zeros(len(label), dtype=bool))
    span, settled = atom_intervals(domains, closed)
    anywhere = free(domains, label)
    held = replace(anywhere, closed=closed, span=span, decided=settled)
    seen = replace(anywhere, closed=closed, span=span)
    how_to = SEARCH._replace(price=0.5)
    walkers = [Walker.started(s, 3).walked(40, how_to)[0] for s in (held, seen)]
    for walker in walkers:
        assert (walker.atoms >= span[0]).all()
        assert (walker.atoms <= span[1]).all()
        own = anywhere.masks.row[walker.rows.leaves]
        assert (own == true)[settled].all()
        assert walker.rows.misfit[0] == anywhere.misfit(walker.atoms, label)
    # Trees that are not looked at change nothing: their cost is the same everywhere.
    assert (walkers[0].atoms == walkers[1].atoms).mean() > 0.9


@pytest.mark.slow
@pytest.mark.usefixtures("unlisted", "few_chains")
def test_probabilities_of_intervals_are_the_shares_that_are_right():
    # Trees that did not draw a row cut what its leaves leave open into many intervals.
    claimed, right = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame(rng.normal(size=(24, 4)), columns=list("abcd"))
        y = (X.a + X.b > 0) ^ (rng.random(24) < 0.1)
        found = treeleak.reconstruct(RandomForestClassifier(12, random_state=seed).fit(X, y))
        assert found.ordered
        assert found.numbers["listed_rows"] == 24
        claimed.append(found.confidence.to_numpy())
        right.append(((found.lower.to_numpy() < X) & (found.upper.to_numpy() >= X)).to_numpy())
    claimed, right = np.concatenate(claimed), np.concatenate(right)
    # Two rows of a class may stand in each other's places: their values are wrong together.
    together = 2 * claimed.shape[1]
    least, most = likely_shares(claimed, together)
    assert least <= right.mean() <= most
    sure = claimed > 0.9
    assert sure.sum() > 50
    assert right[sure].mean() >= likely_shares(claimed[sure], together)[0]


# -------------------------------------------------------------------- reasons that can be checked


SMALL = 9
"""Rows up to which all places in a tree are tried."""
ONE_ROW, ONE_TREE = {"join", "probe", "refine"}, {"count_trees"}


def opened(domains: Domains, bits: np.ndarray) -> np.ndarray:
    """Domains as a table of bools, shape (n_rows, n_classes, n_leaves)."""
    start, word = domains.evidence.geometry.leaf_start, domains.boxes.word_start
    flags = np.unpackbits(bits.view(np.uint8), axis=2, bitorder="little")
    places = [64 * word[t] + np.arange(start[t + 1] - start[t]) for t in range(len(start) - 1)]
    return flags[:, :, np.concatenate(places)].astype(bool)


def possible_alone(domains: Domains, points: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Leaves that some point has which lies in open leaves of all trees that drew the row."""
    out, start = np.zeros_like(before), domains.evidence.geometry.leaf_start
    for k, c in np.ndindex(before.shape[:2]):
        own = np.flatnonzero(domains.draws[:, k])
        for leaves in points[before[k, c][points[:, own]].all(axis=1)]:
            out[k, c, leaves[own]] = True
        # Of trees that did not draw a row, domains do not speak.
        for t in np.flatnonzero(domains.draws[:, k] == 0):
            out[k, c, start[t] : start[t + 1]] = True
    return out


def possible_in_tree(domains: Domains, t: int, before: np.ndarray) -> np.ndarray:
    """Leaves of one tree that rows have in some way to give all its leaves what they count."""
    evidence, start = domains.evidence, domains.evidence.geometry.leaf_start
    own, rows = slice(start[t], start[t + 1]), np.flatnonzero(domains.draws[t])
    left = evidence.n[own].copy()
    once = None if evidence.d is None else evidence.d[own].copy()
    out, at = np.zeros_like(before[:, :, own]), []

    def place(i: int) -> None:
        if i == len(rows):
            if not left.any() and (once is None or not once.any()):
                for k, c, v in at:
                    out[k, c, v] = True
            return
        k, b = rows[i], domains.draws[t, rows[i]]
        for c, v in np.argwhere(before[k][:, own]):
            if left[v, c] < b or (once is not None and once[v] < 1):
                continue
            left[v, c] -= b
            if once is not None:
                once[v] -= 1
            at.append((k, c, v))
            place(i + 1)
            at.pop()
            left[v, c] += b
            if once is not None:
                once[v] += 1

    place(0)
    return out


def checked(case: Drawn, distinct: bool, thinned: int | None = None) -> Counter[str]:
    """Hold every step against brute force; how many leaves went by each loop.

    ``thinned``: a seed, if some leaves are to go at random before: reasons must do wherever steps
    begin, and more are needed.
    """
    geometry = Geometry.of(case.release, case.schema)
    domains = Domains.of(KnownDraws(geometry, case.b, distinct))
    if thinned is not None:
        several = np.random.default_rng(thinned).integers(2**63, size=(2, *domains.bits.shape))
        domains.bits[:] &= np.bitwise_or(*several.astype(np.uint64))
    points, start = equations_of(case.release, points_of(case)), geometry.leaf_start
    went: Counter[str] = Counter()

    def note(name: str, before: np.ndarray, after: np.ndarray) -> None:
        given, left = opened(domains, before), opened(domains, after)
        assert not (left & ~given).any()
        went[name] += int((given & ~left).sum())
        if name in ONE_ROW:
            assert not (possible_alone(domains, points, given) & given & ~left).any()
            return
        assert name in ONE_TREE
        for t in range(len(case.b) if len(case.X) <= SMALL else 0):
            own = slice(start[t], start[t + 1])
            drawn = case.b[t] > 0
            lost = possible_in_tree(domains, t, given) & ~left[:, :, own]
            assert not lost[drawn].any()

    clash = domains.narrow(Clock(60.0), note=note)
    assert clash == -1 or thinned is not None
    return went


@pytest.mark.parametrize("each_with_each", [True, False])
def test_every_leaf_that_goes_was_impossible_for_one_row_or_in_one_tree(each_with_each, compared):
    compared(each_with_each)
    went: Counter[str] = Counter()
    for seed in range(16):
        case, _ = some_model(seed)
        went += checked(case, distinct=bool(seed % 2))
        went += checked(case, distinct=bool(seed % 2), thinned=seed)
    assert went["count_trees"] > 0
    assert went["join" if each_with_each else "refine"] > 0


def grown(seed: int, n: int, n_trees: int) -> Drawn:
    """A forest over more rows, of few points."""
    rng = np.random.default_rng(seed)
    schema = Schema([Ordinal("age", 0, 11), Ordinal("visits", 0, 11), Binary("smokes")])
    X, y = some_values(schema, n, rng), rng.integers(2, size=n)
    release = to_release(RandomForestClassifier(n_trees, random_state=seed).fit(X, y))
    return Drawn(release, schema, known_draws(release).counts, X.to_numpy(), y, False)


def test_what_looking_ahead_takes_away_was_impossible():
    went: Counter[str] = Counter()
    for seed in range(8):
        went += checked(grown(seed, 40, 6), distinct=False)
    assert went["probe"] > 0
