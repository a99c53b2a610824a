"""Every leaf that goes from a row's domain goes for a reason that can be checked by itself.

A step looks at one row in all trees, or at one tree with all rows. By brute force over the points
of the grid, or over where a tree's rows may be, nothing that it took away was possible in what it
was given.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from helpers.brute_force import equations_of
from helpers.cases import Drawn
from helpers.models import points_of, some_model, some_values
from treeleak.attacks.known_draws import leaf_boxes
from treeleak.attacks.known_draws.domains import Domains
from treeleak.core.clock import Clock
from treeleak.evidence import KnownDraws
from treeleak.partition import Geometry
from treeleak.release import to_release
from treeleak.release.draws.seeds import known_draws
from treeleak.schema import Binary, Ordinal, Schema

SMALL = 9
"""Rows up to which all places in a tree are tried."""
ONE_ROW, ONE_TREE = {"join", "probe", "refine"}, {"count_trees", "match_trees"}


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


@pytest.mark.parametrize("compared", [True, False])
def test_every_leaf_that_goes_was_impossible_for_one_row_or_in_one_tree(compared, monkeypatch):
    monkeypatch.setattr(leaf_boxes, "MAX_COMPARED", 2**25 * compared)
    went: Counter[str] = Counter()
    for seed in range(16):
        case, _ = some_model(seed)
        went += checked(case, distinct=bool(seed % 2))
        went += checked(case, distinct=bool(seed % 2), thinned=seed)
    assert went["count_trees"] > 0
    assert went["join" if compared else "refine"] > 0


def test_what_a_matching_takes_away_was_impossible():
    case, _ = some_model(1063, most_rows=9)
    assert checked(case, distinct=True)["match_trees"] > 0


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


@pytest.mark.slow
def test_the_same_in_many_models(monkeypatch):
    went: Counter[str] = Counter()
    for seed in range(40, 160):
        monkeypatch.setattr(leaf_boxes, "MAX_COMPARED", 2**25 * (seed % 4 > 0))
        case, _ = some_model(seed)
        went += checked(case, distinct=bool(seed % 2))
        for thinned in range(3):
            went += checked(case, distinct=bool(seed % 2), thinned=thinned)
    assert set(went) >= {"join", "refine", "count_trees"}
