"""Pictures: what they show is what the audit says, and no more than the edition holds."""

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import treeleak
from helpers.tables import compas_sample
from treeleak.core.clock import Incumbent
from treeleak.core.errors import BadInput, NotCovered
from treeleak.report import plots

pytestmark = pytest.mark.usefixtures("short_walks_throughout")


@pytest.fixture(scope="module")
def audited():
    X, y, compas = compas_sample(60)
    forest = RandomForestClassifier(3, max_depth=4, bootstrap=False, random_state=0)
    forest.fit(X, y)
    return treeleak.audit(
        forest, X, y, schema=compas.schema, groups=["age", "priors"], time_limit=5
    )


@pytest.fixture(autouse=True)
def plt():
    # Takes a second to load: no worker that runs other tests needs it.
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    yield plt
    plt.close("all")


def names(ax):
    return [t.get_text() for t in ax.get_yticklabels()]


def points(ax, label):
    (found,) = (c for c in ax.collections if c.get_label() == label)
    return found.get_offsets()[:, 0]


def drawn(ax, tmp_path):
    """Draw for real: a text that cannot be laid out, or a warning, is an error."""
    ax.figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1_000
    return ax


@pytest.mark.slow
def test_shares_of_rows_fill_the_bar(audited, tmp_path):
    ax = drawn(plots.plot_recovered(audited), tmp_path)
    recovered = audited.exposure.recovered
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == pytest.approx([recovered.proved, recovered.probable, recovered.open])
    assert sum(widths) == pytest.approx(1)
    assert "60 rows" in ax.get_title(loc="left")


@pytest.mark.slow
def test_columns_stand_with_their_guesses_the_most_exposed_on_top(audited, tmp_path):
    ax = drawn(plots.plot_exposure(audited, edition="internal"), tmp_path)
    table = audited.exposure.columns.loc[names(ax)]
    assert len(table) == len(audited.exposure.columns)
    for label, key in (
        ("rebuilt rows", "right"), ("random baseline", "guess"), ("most common value", "majority")
    ):  # fmt: skip
        np.testing.assert_allclose(points(ax, label), table[key])
    over = table["right"] - table[["guess", "majority"]].max(axis=1)
    assert over.is_monotonic_increasing


@pytest.mark.slow
def test_the_releasable_picture_leaves_out_columns_of_few(audited):
    columns = audited.exposure.columns
    few = set(columns.index[(columns["others"] > 0) & (columns["others"] < 10)])
    assert few
    ax = plots.plot_exposure(audited)
    assert few.isdisjoint(names(ax))
    assert f"({len(few)} column" in ax.get_xlabel()


def test_without_training_rows_the_attack_speaks_for_itself(audited, tmp_path):
    columns = audited.exposure.columns.assign(right=np.nan, guess=np.nan, majority=np.nan)
    blind = replace(audited, exposure=replace(audited.exposure, columns=columns))
    ax = drawn(plots.plot_exposure(blind, edition="internal"), tmp_path)
    told = columns.loc[names(ax), "expected"]
    np.testing.assert_allclose(points(ax, "as the attack expects"), 1 - told)


def test_groups_stand_in_their_order_without_small_ones(audited, tmp_path):
    ax = drawn(plots.plot_groups(audited), tmp_path)
    groups = audited.to_dict()["exposure"]["groups"]
    told = [g for g in groups if g["error"] is not None]
    assert len(told) < len(audited.exposure.groups)
    assert [bar.get_width() for bar in ax.patches][::-1] == [g["error"] for g in told]
    assert names(ax)[-1] == f"class: 0  ({told[0]['rows']} rows)"
    everyone = plots.plot_groups(audited, edition="internal")
    assert len(everyone.patches) == len(audited.exposure.groups)


def test_leaves_are_counted_once_each(audited, tmp_path):
    ax = drawn(plots.plot_leaf_sizes(audited), tmp_path)
    total = audited.counts.total
    small, large = (sum(bar.get_height() for bar in group) for group in ax.containers)
    assert small == total["small"]
    assert small + large == total["leaves"]
    assert ax.get_xticklabels()[0].get_text() == "1"
    assert ax.containers[0][0].get_height() == total["single"]


def test_the_search_is_drawn_as_it_was_noted(audited, tmp_path):
    steps = (Incumbent(0.5, 40), Incumbent(1.0, 7), Incumbent(2.0, 0))
    ax = drawn(
        plots.plot_trace(replace(audited.reconstruction, trace=steps, seconds=3.0)), tmp_path
    )
    assert ax.lines[0].get_xdata().tolist() == [0.5, 1.0, 2.0, 3.0]
    assert ax.lines[0].get_ydata().tolist() == [40, 7, 0, 0]
    with pytest.raises(NotCovered, match="noted no steps"):
        plots.plot_trace(replace(audited.reconstruction, trace=()))


def test_axes_that_are_given_are_drawn_into(audited, plt):
    figure, axes = plt.subplots(2, 2)
    drawers = (plots.plot_recovered, plots.plot_exposure, plots.plot_groups, plots.plot_leaf_sizes)
    for draw, ax in zip(drawers, axes.ravel(), strict=True):
        assert draw(audited, ax=ax) is ax
        assert ax.get_legend() is not None
    assert plt.get_fignums() == [figure.number]


def test_names_that_look_like_formulas_are_texts(audited, tmp_path):
    odd = ["$x_{", "<b>", "a" * 500, "שלום", "back\\slash", "100%"]
    columns = pd.concat([audited.exposure.columns.iloc[[0]]] * len(odd)).set_axis(odd)
    columns.index.name = "column"
    strange = replace(audited, exposure=replace(audited.exposure, columns=columns))
    ax = drawn(plots.plot_exposure(strange, edition="internal"), tmp_path)
    assert "$x_{" in names(ax)
    assert max(map(len, names(ax))) <= 40


def test_what_cannot_be_drawn_is_said(audited):
    with pytest.raises(NotCovered, match="no rows were rebuilt"):
        plots.plot_recovered(replace(audited, exposure=None))
    empty = replace(audited.exposure, groups=audited.exposure.groups.iloc[:0])
    with pytest.raises(NotCovered, match="there is no group to show"):
        plots.plot_groups(replace(audited, exposure=empty))
    silent = replace(audited, counts=None, not_assessed=(("counts", "they carry noise"),))
    with pytest.raises(NotCovered, match="noise"):
        plots.plot_leaf_sizes(silent)


def test_without_matplotlib_the_error_names_what_to_install(audited, plt, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(BadInput, match=r"pip install 'treeleak\[plots\]'"):
        plots.plot_recovered(audited)
