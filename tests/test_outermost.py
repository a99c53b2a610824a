"""Values beyond the outermost thresholds."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from treeleak.partition.untested_priors import Outer, _rates, outer_sides
from treeleak.reconstruction.tail_extrapolation import beyond


def release(cuts, ranges=None):
    return SimpleNamespace(
        feature_names=("x",), thresholds=[np.asarray(cuts)], float_type="float64",
        ranges=ranges or {},
    )  # fmt: skip


def moved(x, cuts, domain, ranges=None, known=()):
    """Put every value in the middle of its interval, then move those beyond all cuts."""
    ends = np.array([domain[0], *cuts, domain[1]])
    side = np.searchsorted(cuts, x)
    low, high = ends[side][:, None], ends[side + 1][:, None]
    table = (low + high) / 2
    for i in known:
        low[i] = high[i] = table[i] = x[i]
    label = np.zeros(len(x), dtype=int)
    found, typical = beyond(release(cuts, ranges), table, label, low, high, np.ones(1, bool))
    return found[:, 0], typical[:, 0], table[:, 0], side


@pytest.mark.parametrize("rate", [-3.0, -1.0, 0.0, 2.0, 6.0])
def test_rows_whose_density_falls_by_the_same_factor_are_found_again(rate):
    """On average, and as far off as is said."""
    rng = np.random.default_rng(0)
    u = rng.random(40_000)
    x = u if rate == 0 else -np.log1p(u * np.expm1(-rate)) / rate
    cuts = np.linspace(0.01, 0.6, 40)
    found, typical, _, side = moved(x, cuts, (0.0, 1.0))
    upper = side == len(cuts)
    assert found[upper].max() - found[upper].min() < 1e-12
    assert found[upper][0] == pytest.approx(np.median(x[upper]), abs=0.06)
    off = np.abs(found - x)[upper].mean()
    # More is said, for the density need not go on like that.
    assert 0.8 * off < typical[upper][0] < 1.6 * off


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_values_stay_between_their_ends_and_others_where_they_are(seed, endless):
    rng = np.random.default_rng(seed)
    cuts = np.unique(rng.normal(size=rng.integers(1, 12)))
    span = (-np.inf, np.inf) if endless else (cuts[0] - rng.random(), cuts[-1] + rng.random())
    x = rng.normal(size=40)
    x = x if endless else np.clip(x, *span)
    ends = np.array([span[0], *cuts, span[1]])
    side = np.searchsorted(cuts, x)
    low, high = ends[side][:, None], ends[side + 1][:, None]
    label = np.zeros(len(x), dtype=int)
    found, typical = beyond(release(cuts), x[:, None], label, low, high, np.ones(1, bool))
    outer = (side == 0) | (side == len(cuts))
    np.testing.assert_array_equal(found[~outer, 0], x[~outer])
    assert np.isnan(typical[~outer]).all()
    assert ((found >= low) & (found <= high)).all()
    assert (np.searchsorted(cuts, found[:, 0]) == side).all()
    assert np.isfinite(found).all()
    assert not (typical[outer] < 0).any()


def test_a_value_that_would_round_to_its_threshold_stays_where_it_is():
    first = 2.0**23  # from here on, numbers of 32 bits are whole
    cuts = first + np.arange(3)
    x = first + np.append(np.full(500, 2.0), [3.0, 4.0])
    ends = np.array([0.0, *cuts, first + 5.0])
    side = np.searchsorted(cuts, x)
    low, high = ends[side][:, None], ends[side + 1][:, None]
    label, own, one = np.zeros(502, dtype=int), release(cuts), np.ones(1, bool)
    near, _ = beyond(own, x[:, None], label, low, high, one)
    assert cuts[-1] < near[-1, 0] < cuts[-1] + 0.25
    own.float_type = "float32"
    found, typical = beyond(own, x[:, None], label, low, high, one)
    np.testing.assert_array_equal(found[:, 0], x)
    assert (typical[-2:] > 0.5).all()


def test_a_table_without_rows_stays_one():
    none = np.zeros((0, 1))
    label = np.zeros(0, dtype=int)
    found, typical = beyond(release([1.0, 2.0]), none, label, none, none, np.ones(1, bool))
    assert found.shape == typical.shape == (0, 1)


def test_both_ends_are_alike():
    rng = np.random.default_rng(0)
    x, cuts = rng.exponential(size=300), np.linspace(0.2, 1.5, 9)
    here = moved(x, cuts, (0.0, 9.0))
    there = moved(-x, -cuts[::-1], (-9.0, 0.0))
    np.testing.assert_allclose(here[0], -there[0])
    np.testing.assert_allclose(here[1], there[1])


def test_the_ends_of_all_rows_are_those_of_the_domain_where_a_file_has_them():
    x, cuts = np.linspace(0.0, 10.0, 200), np.array([2.0, 3.0, 4.0])
    free = moved(x, cuts, (0.0, 1000.0))
    bound = moved(x, cuts, (0.0, 1000.0), {"x": (0.0, 10.0)})
    upper = x > 4.0
    assert bound[0][upper].max() < 10.0
    assert bound[1][upper].max() < free[1][upper].max()


def test_known_values_are_counted_and_not_moved():
    x, cuts = np.linspace(0.0, 10.0, 60), np.array([2.0, 3.0, 4.0])
    found, typical, *_ = moved(x, cuts, (0.0, 12.0), known=(0, 59))
    np.testing.assert_array_equal(found[[0, 59]], x[[0, 59]])
    assert np.isnan(typical[[0, 59]]).all()
    others = moved(x, cuts, (0.0, 12.0))[0]
    np.testing.assert_array_equal(found[1:59], others[1:59])


def test_missing_values_change_nothing_for_others():
    x, cuts = np.linspace(0.0, 10.0, 60), np.array([2.0, 3.0, 4.0])
    alone, far, *_ = moved(x, cuts, (0.0, 12.0))
    ends = np.array([0.0, *cuts, 12.0])
    side = np.searchsorted(cuts, x)
    low, high = np.append(ends[side], np.nan)[:, None], np.append(ends[side + 1], np.nan)[:, None]
    label = np.zeros(len(low), dtype=int)
    found, typical = beyond(release(cuts), (low + high) / 2, label, low, high, np.ones(1, bool))
    np.testing.assert_array_equal(found[:, 0], [*alone, np.nan])
    np.testing.assert_array_equal(typical[:, 0], [*far, np.nan])
    assert np.isfinite(far).any()


def test_a_value_equal_to_a_threshold_is_not_above_it():
    cuts, x = np.array([1.0, 2.0, 3.0]), np.array([[1.0], [3.0], [2.0]])
    low, high = x - 1.0, x + 1.0
    found, _ = beyond(release(cuts), x, np.zeros(3, dtype=int), low, high, np.ones(1, bool))
    assert found[0, 0] < 1.0
    np.testing.assert_array_equal(found[1:, 0], [3.0, 2.0])


@pytest.mark.parametrize("cuts", [[], [2.0]])
def test_one_threshold_says_nothing_of_densities(cuts):
    x = np.linspace(0.0, 10.0, 20)
    found, typical, table, _ = moved(x, np.array(cuts), (0.0, 12.0))
    np.testing.assert_array_equal(found, table)
    assert np.isnan(typical).all()


@pytest.mark.parametrize("odds", [1e-300, 1e-12, 1e-3, 0.5, 1.0, 1.5, 40.0, 1e250])
@pytest.mark.parametrize(("width", "room"), [(1.0, 1.0), (1e-3, 1e5), (1e5, 1e-3), (1.0, np.inf)])
def test_places_are_within_the_domain_whatever_the_density_beside_it(odds, width, room):
    found = Outer(1.0, 0.0, 1, width, (3.0, 2.0), room).places(np.array(odds))
    assert found.shape == (5, 21)
    assert ((found >= 0) & (found <= room) & np.isfinite(found)).all()
    assert (np.diff(found) >= 0).all()


@given(st.floats(-30.0, 30.0), st.floats(0.1, 10.0), st.floats(0.1, 2.0))
def test_a_rate_is_that_of_the_density_that_leaves_such_odds(s, room, width):
    # Where s is next to nothing, rounding leaves no digit of either difference.
    flat = abs(s) < 1e-12
    odds = room / width
    if not flat:
        odds = np.exp(-s * width) * np.expm1(-s * room) / np.expm1(-s * width)
    assume(1e-9 < odds < 1e9)
    found = _rates(np.array(odds), width, room)
    assert found == pytest.approx(s, abs=1e-6)


def law(name, rng, n):
    if name == "rising":
        return np.sqrt(rng.random(n))
    if name == "two humps":
        return rng.normal(size=n) + 6 * (rng.random(n) < 0.5)
    return getattr(rng, name)(size=n)


@pytest.mark.parametrize("name", ["exponential", "uniform", "normal", "rising", "two humps"])
@pytest.mark.parametrize("wide", [0.0, 1.0])
def test_values_are_about_as_far_off_as_is_said_whatever_law_they_have(name, wide):
    """Over samples of several sizes and cuts at random; ``wide``: of a domain beyond all rows."""
    rng = np.random.default_rng(1)
    off, said = [], []
    for _ in range(40):
        x = law(name, rng, int(rng.choice([60, 200, 600])))
        places = np.sort(x)
        cuts = (places[1:] + places[:-1])[rng.choice(len(x) - 1, 8, replace=False)] / 2
        cuts.sort()
        far = wide * np.ptp(x)
        found, typical, *_ = moved(x, cuts, (x.min() - far, x.max() + far))
        open_ = np.isfinite(typical)
        off.append(np.abs(found - x)[open_].mean() / np.ptp(x))
        said.append(typical[open_].mean() / np.ptp(x))
    assert 0.6 * np.mean(off) < np.mean(said) < 2.0 * np.mean(off)


def test_no_row_beyond_and_no_room_beyond_say_nothing():
    cuts = np.array([1.0, 2.0])
    assert not outer_sides(cuts, np.array([0.0, 2.0, 0.0]), (-5.0, 5.0))
    assert not outer_sides(cuts, np.array([1.0, 1.0, 1.0]), (1.0, 2.0))
    below, above = outer_sides(cuts, np.array([3.0, 2.0, 4.0]), (-5.0, 9.0))
    assert (below.sign, below.edge, below.odds, below.room) == (-1.0, 1.0, 1.5, 6.0)
    assert (above.sign, above.edge, above.odds, above.room) == (1.0, 2.0, 2.0, 7.0)


def groups(n, rng):
    """Ages of children, of adults before they marry, and after; only the last reach 40."""
    kind = rng.integers(3, size=n)
    age = np.select([kind == 0, kind == 1], [16 * rng.random(n), 16 + 40 * rng.random(n)])
    age = np.where(kind == 2, 25 + 55 * rng.random(n), age)
    return age, np.eye(3)[kind]


def test_rows_lie_where_rows_like_them_do():
    age, kind = groups(600, np.random.default_rng(0))
    cuts = np.linspace(40.0, 79.0, 30)
    ends = np.array([0.0, *cuts, 80.0])
    side = np.searchsorted(cuts, age)
    low, high = np.zeros((600, 4)), np.zeros((600, 4))
    low[:, 0], high[:, 0] = ends[side], ends[side + 1]
    table = np.column_stack([(low + high)[:, 0] / 2, kind])
    low[:, 1:] = high[:, 1:] = kind
    own = SimpleNamespace(
        feature_names=tuple("abcd"), thresholds=[cuts, *[np.array([0.5])] * 3], ranges={},
        float_type="float64",
    )  # fmt: skip
    label, numbers = np.zeros(600, dtype=int), np.array([True, False, False, False])
    found, typical = beyond(own, table, label, low, high, numbers)
    young = side == 0
    points = [found[young & (kind[:, k] == 1), 0].mean() for k in range(3)]
    assert points[0] < points[1] < points[2]
    alone, said = beyond(own, table * [1, 0, 0, 0], label, low, high, numbers)
    off, before = (np.abs(x[young, 0] - age[young]).mean() for x in (found, alone))
    assert off < 0.75 * before
    assert typical[young, 0].mean() < said[young, 0].mean()
    assert 0.7 * off < typical[young, 0].mean() < 1.6 * off
    np.testing.assert_array_equal(found[:, 1:], table[:, 1:])


def test_odds_that_do_not_depend_on_a_column_move_nothing_far():
    rng = np.random.default_rng(3)
    x = rng.exponential(size=(400, 1))
    cuts = np.linspace(0.1, 1.2, 20)
    ends = np.array([0.0, *cuts, 9.0])
    side = np.searchsorted(cuts, x[:, 0])
    low, high = np.zeros((400, 3)), np.zeros((400, 3))
    low[:, 0], high[:, 0] = ends[side], ends[side + 1]
    noise = rng.normal(size=(400, 2))
    low[:, 1:] = high[:, 1:] = noise
    table = np.column_stack([x, noise])
    own = SimpleNamespace(
        feature_names=("x", "y", "z"), thresholds=[cuts, cuts, cuts], ranges={},
        float_type="float64",
    )  # fmt: skip
    numbers, label = np.array([True, False, False]), np.zeros(400, dtype=int)
    found, _ = beyond(own, table, label, low, high, numbers)
    upper = found[side == 20, 0]
    assert np.std(upper) < 0.25 * (np.median(upper) - 1.2)
