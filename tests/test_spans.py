"""Spans of rows whose leaves are narrowed, and walks that stay inside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from test_domains import MODELS, domains_of, people
from treeleak.attacks.known_draws.spans import spans
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.run import _SEARCH
from treeleak.attacks.large_grid.walkers import Walker
from treeleak.core.clock import Clock


@pytest.mark.parametrize("kind", ["bootstrap", "missing values", "half of the rows"])
def test_spans_are_what_some_leaf_of_every_tree_admits(kind):
    X, y = people(40, 2, gaps=kind == "missing values")
    domains, true = domains_of(MODELS[kind], X, y)
    geometry, label = domains.evidence.geometry, np.unique(y, return_inverse=True)[1]
    domains.narrow(Clock(60.0))
    closed = domains.closed(label, np.zeros(len(label), dtype=bool))
    span, settled = spans(domains, closed)
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
    evidence, label = domains.evidence, np.unique(y, return_inverse=True)[1]
    none = np.zeros(len(label), dtype=bool)
    domains.narrow(Clock(60.0))
    closed = domains.closed(label, none)
    span, settled = spans(domains, closed)
    free = RowConstraints.of_known(evidence, evidence.geometry, label, none, None)
    held = replace(free, closed=closed, span=span, settled=settled)
    seen = replace(free, closed=closed, span=span)
    walkers = [Walker.started(s, 3) for s in (held, seen)]
    for walker in walkers:
        walker.walked(40, _SEARCH._replace(price=0.5))
        assert (walker.atoms >= span[0]).all() and (walker.atoms <= span[1]).all()
        own = np.asarray(free.masks.row)[walker.rows.leaves]
        assert (own == true)[settled].all()
        assert walker.rows.misfit[0] == free.misfit(walker.atoms, label)
    # Trees that are not looked at change nothing: their cost is the same everywhere.
    assert (walkers[0].atoms == walkers[1].atoms).mean() > 0.9
