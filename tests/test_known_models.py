"""Known draws behind small models of scikit-learn, by leaves alone, against brute force.

Every table of rows that meets the counts is found by trying all. Nothing in any of them may be
ruled out, and what is proved must be so in each. For 2,000 models, six minutes:

    TREELEAK_FORESTS=2000 python -m pytest -m slow tests/test_known_models.py
"""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from helpers.brute_force import equations_of, ordered_datasets
from helpers.cases import Drawn
from helpers.examples import seeds
from helpers.models import alike, points_of, sides, some_model
from helpers.releases import drawn_alone
from treeleak import reconstruct
from treeleak.attacks.known_draws.domains import Domains
from treeleak.core.clock import Clock
from treeleak.partition import Geometry
from treeleak.verification.counts import check_rows

FORESTS = int(os.environ.get("TREELEAK_FORESTS", "300"))
"""Models in the slow suite; all that were tried: ``TREELEAK_FORESTS=2000``."""
MOST = 1000
"""Tables beyond which a model is left out."""


def worlds_of(case: Drawn, distinct: bool) -> list[np.ndarray] | None:
    """Every table of the rows that some tree drew; None if there are too many.

    Of points that no tree parts, one stands for all.
    """
    return ordered_datasets(
        case.release, case.schema, case.b[:, case.seen], distinct=distinct, most=MOST,
        points=points_of(case),
    )  # fmt: skip


def some_knowledge(case: Drawn, rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    """Nothing, some true rows at their positions, some true columns, or both."""
    table = pd.DataFrame(case.X, columns=list(case.release.feature_names))
    table = table.assign(label=np.array(case.release.classes)[case.y])
    out = {}
    if rng.random() < 0.4:
        # Of a one-hot group, all or nothing: a part makes a rule, which takes a list of points.
        groups = [*(a.columns for a in case.schema.attributes), ("label",)]
        out["known_columns"] = table[[c for g in groups if rng.random() < 0.5 for c in g]]
    if rng.random() < 0.4:
        rows = table.iloc[rng.permutation(len(table))[: rng.integers(0, len(table) + 1)]]
        out["known_rows"] = rows.rename_axis("row")
    return out


def known_of(case: Drawn, knowledge: dict[str, pd.DataFrame]) -> np.ndarray:
    """Which values are known, shape (n_rows, n_columns + 1), the class last."""
    names = [*case.release.feature_names, "label"]
    out = np.zeros((len(case.X), len(names)), dtype=bool)
    if (columns := knowledge.get("known_columns")) is not None:
        out[:, [names.index(c) for c in columns.columns]] = True
    if (rows := knowledge.get("known_rows")) is not None:
        out[rows.index] = True
    return out


def check_against(
    case: Drawn, worlds: list[np.ndarray], known: np.ndarray, given: np.ndarray, found
) -> None:
    """Hold an answer against all tables of the rows that were drawn; some rows were given."""
    seen, release = case.seen, case.release
    truth = np.column_stack([sides(release, case.X), case.y])[seen]
    own = [np.column_stack([sides(release, w[:, :-1]), w[:, -1]]) for w in worlds]
    agree = [((o == truth) | ~known[seen]).all() for o in own]
    assert any((o == truth).all() for o in own), "brute force lost the truth"
    worlds, own = ([x for x, ok in zip(xs, agree, strict=True) if ok] for xs in (worlds, own))
    label = np.searchsorted(np.array(release.classes), found.y)
    table = found.X[list(release.feature_names)].to_numpy(dtype=float)
    places = np.stack([case.places(w) for w in worlds])
    always = (places == places[0]).all(axis=(0, 2))
    proved = found.proved.to_numpy()
    assert (proved[seen] == (always | given[seen])).all()
    assert (proved[~seen] <= given[~seen]).all()
    assert found.numbers.get("rows_left_open", 0) == (~proved[seen]).sum()
    rows = case.places(np.column_stack([table, label]))[seen]
    assert (rows[proved[seen]] == places[0][proved[seen]]).all()
    sure = np.column_stack([found.confidence, found.label_confidence])[seen] == 1.0
    mine = np.column_stack([sides(release, table), label])[seen]
    for world in own:
        assert (mine == world)[sure].all()
    # What is sure is one value, not one of several that no tree parts.
    for k, c in np.argwhere(sure[:, :-1] & ~known[seen, :-1]):
        values = alike(case, table[seen][k], c)
        assert len(np.unique(values)) == 1
    one = all((o == own[0]).all() for o in own)
    unique = one and (seen | given).all() and sure.all()
    assert found.status == ("unique" if unique else "feasible")


def checked(seed: int) -> list[str]:
    """Attack a model and check the answer; its kind and status, or that it has too many tables."""
    case, kind = some_model(seed)
    rng = np.random.default_rng(seed)
    distinct = bool(rng.integers(2))
    worlds = worlds_of(case, distinct)
    if worlds is None:
        return ["too many"]
    knowledge = some_knowledge(case, rng)
    found = reconstruct(drawn_alone(case.release, distinct), case.schema, **knowledge)
    assert found.ordered
    known = known_of(case, knowledge)
    label = np.searchsorted(np.array(case.release.classes), found.y)
    table = found.X[list(case.release.feature_names)].to_numpy(dtype=float)
    assert check_rows(case.release, table, label, case.b, use_distinct=distinct).ok
    given = np.zeros(len(case.X), dtype=bool)
    given[knowledge["known_rows"].index if "known_rows" in knowledge else []] = True
    # Where all rows that were drawn are known, there is nothing to look for.
    assert found.cells.startswith("generated") or (given | known.all(axis=1))[case.seen].all()
    check_against(case, worlds, known, given, found)
    return [kind, found.status]


@pytest.mark.slow
@seeds(FORESTS, fast=10)
def test_what_is_proved_is_so_in_every_table_and_all_that_is_so_is_proved(
    unlisted, compared, seeds
):
    seen: Counter[str] = Counter()
    for seed in seeds:
        compared(seed // 2 % 2 > 0)
        seen.update(checked(seed))
    assert seen["too many"] <= len(seeds) / 3
    assert min(seen[kind] for kind in ("forest", "extra trees", "bagging")) >= len(seeds) / 20
    assert seen["feasible"] >= len(seeds) / 10
    assert seen["unique"] >= len(seeds) / 20


@pytest.mark.parametrize("seed", [186, pytest.param(201, marks=pytest.mark.slow)])
def test_leaves_that_meet_in_pairs_and_not_together_part_no_row(unlisted, seed):
    """Two trees leave a row one job, or its age missing; a third, which did not draw it, asks."""
    assert "feasible" in checked(seed)


@seeds(FORESTS, fast=20)
def test_no_leaf_is_ruled_out_that_some_table_needs(compared, seeds):
    seen: Counter[str] = Counter()
    for seed in seeds:
        compared(seed // 2 % 2 > 0)
        case, _ = some_model(seed)
        distinct = bool(seed % 2)
        geometry = Geometry.of(case.release, case.schema)
        domains = Domains.of(case.known(distinct))
        before = domains.open_leaves.sum()
        assert domains.narrow(Clock(60.0)) == -1
        seen["narrowed"] += bool(domains.open_leaves.sum() < before)
        drawn = case.b.T[case.seen] > 0
        worlds = worlds_of(case, distinct) or []
        seen["held"] += bool(worlds)
        for world in (np.column_stack([case.X, case.y])[case.seen], *worlds):
            leaves = equations_of(case.release, world[:, :-1]) - geometry.leaf_start[:-1]
            word = domains.boxes.word_start[:-1] + leaves // 64
            own = domains.bits[case.seen, world[:, -1].astype(int)]
            bits = np.take_along_axis(own, word, axis=1) >> (leaves % 64).astype(np.uint64)
            assert ((bits & np.uint64(1)) == 1)[drawn].all()
    assert min(seen.values()) >= len(seeds) / 4
