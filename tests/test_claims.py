"""What papers say of their figures, held against points."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.claims import beside_runs, claim, claims_table, falls, on_their_seeds
from experiments.studies import draft
from experiments.study import AGREES, AHEAD, DIFFERS


@given(st.lists(st.integers(0, 5), max_size=8))
def test_every_pair_of_points_that_differ_is_looked_at_once(values):
    pairs = [b < a for a, b in combinations(values, 2) if a != b]
    assert sorted(falls(values)) == sorted(pairs)
    both = falls(np.column_stack([values, values])) if values else []
    assert sorted(both) == sorted(2 * pairs)


@pytest.mark.parametrize(
    ("n_so", "always", "verdict"),
    [(5, False, DIFFERS), (6, False, AGREES), (9, True, DIFFERS), (10, True, AGREES)],
)
def test_a_claim_agrees_if_it_is_so_of_enough_points(n_so, always, verdict):
    line = claim("it is so", "adult", np.arange(10) < n_so, always)
    assert line["verdict"] == verdict
    assert line["treeleak"] == f"{n_so} of 10"


def test_a_claim_without_points_is_no_line():
    assert claim("it is so", "adult", []) == {}
    shown = claims_table("a", "A, figure 1", [{}, claim("b", "adult", [True]), {}])
    assert len(shown.frame) == 1
    assert "published" not in shown.frame
    assert shown.name == "a-claims"


def errors(dataset, draws, depth, by_trees):
    return [
        {"dataset": dataset, "bootstrap": draws, "depth": depth, "n_trees": n, "seed": 0,
         "error": error}
        for n, error in by_trees.items()
    ]  # fmt: skip


def said(lines):
    return {line["the paper says"]: line["treeleak"] for line in lines if line}


def test_runs_of_one_kind_of_draws_make_no_claim_of_two():
    runs = pd.DataFrame(errors("adult", "none", 2, {1: 0.3, 100: 0.1}))
    assert list(said(draft.of_bootstrap(runs))) == ["more trees lower the error"]


def test_formulations_are_compared_where_both_have_an_answer():
    one = {"depth": "2", "n_trees": 1, "seed": 0}
    runs = pd.DataFrame(
        [
            one | {"method": "auto", "error": 0.0},
            one | {"method": "reference-cp", "error": 0.1},
            one | {"method": "reference-milp", "error": 0.2},
            one | {"n_trees": 2, "method": "reference-cp", "error": 0.1},
        ]
    )
    assert list(said(draft.of_methods(runs)).values()) == ["0 of 1"]


def test_runs_are_held_against_published_ones_of_the_same_seeds():
    runs = pd.DataFrame(
        {"depth": ["2", "2", "2", "4", "4", "5"], "seed": [0, 1, 2, 0, 1, 0],
         "error": [0.1, 0.2, 0.9, 0.3, 0.5, 0.7]}
    )  # fmt: skip
    published = pd.DataFrame(
        {"depth": ["2", "4", "5"], "error": [0.2, 0.4, np.nan], "seeds": ["0 1", "3", np.nan]}
    )
    same = on_their_seeds(runs, published, ["depth"])
    assert same.depth.tolist() == ["2"]
    assert same.same_seeds.tolist() == pytest.approx([0.15])
    means = runs.groupby("depth", as_index=False).error.mean().merge(same, "left", "depth")
    found = beside_runs(means, published.drop(columns="seeds"), ["depth"], "same_seeds")
    # Depth 4 was not run with a seed that they answered; of depth 5 they have no answer.
    assert found.verdict.fillna("").tolist() == [AHEAD, "", AHEAD]
