"""Default forests on tables with raw numbers: rows settled by the leaves that they may lie in.

On small tables, tests/test_known.py holds the same attack against brute force.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

import treeleak
from helpers.chance import likely_shares
from helpers.older import needs_counted_gaps
from treeleak.attacks.known_draws import (
    box_kernels,
    domain_kernels,
    leaf_boxes,
    row_kernels,
)
from treeleak.attacks.known_draws import domains as domains_module
from treeleak.attacks.known_draws import run as known_draws_run
from treeleak.attacks.known_draws.domains import Domains
from treeleak.attacks.known_draws.listing import compile_loops, listed
from treeleak.attacks.known_draws.run import fallback_rows, proved_of
from treeleak.attacks.known_draws.search import search
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


def test_rows_at_hand_lie_where_they_may():
    """Each in an open leaf of every tree that drew it; what is settled is proved, and no more."""
    X, y = people(40, 6, gaps=True)
    domains, leaves = domains_of(MODELS["missing values"], X, y)
    label = (y == "well").to_numpy().astype(int)
    values = values_of(domains.evidence.geometry.parts, 2)
    early = fallback_rows(domains, values)
    assert early.misfit > 0
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


ONE_ROW, ONE_TREE = {"join", "probe", "refine"}, {"count_trees"}
