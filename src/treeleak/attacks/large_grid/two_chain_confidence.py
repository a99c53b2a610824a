"""How sure rows are that miss counts, by a second walk that started apart.

A walk finds the value of a row with some probability; else it holds any value, as often as the
column does. How often two walks agree, beyond chance, says how probable that is, column by column.
By chance, two rows agree as other rows of the same walk do, matched if the walks are: rows of the
same people are alike. Rows are of two kinds, for one that is found in many columns is likely found
in the others, too. How far both walks are apart is about how far each is from the training set.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import expit, logit

from treeleak.attacks.answer import Rows
from treeleak.attacks.consensus import ASTRAY, MAX_ALIGNED
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.partition.value_index import ValueIndex

_ROUNDS = 30
"""Rounds of expectation and maximisation."""
_BESIDE = 1.0
"""Rows that agree in a column, and that do not, beside those of each kind."""
_LEAST, _NEVER = 1e-9, 1e9


def by_two_walks(
    walks: Sequence[IntArray], best: IntArray, misfit: int, values: ValueIndex, exchangeable: bool
) -> tuple[Rows, float]:
    """Say how sure the best rows are, and how far from the training set, per row and column.

    Rows are numbered atoms, the class last. ``best``: with their ``misfit``; as in the first walk,
    or, where rows have places, near it. ``exchangeable``: whether rows have no places of their own,
    and are matched.
    """
    one = walks[0]
    two = next((other for other in walks[1:] if (other != one).any()), one)
    two, far = _matched(best, two, values, exchangeable)
    others, usual = _matched(best, best, values, exchangeable, apart=True)
    # One row more, which is led astray: walks that came to the same may be.
    far = (len(one) * far + usual) / (len(one) + 1)
    if not exchangeable:
        others = np.random.default_rng(0).permutation(two)
    chance = (one == others).mean(axis=0)
    frequent = np.bincount(np.concatenate([one, two]).ravel(), minlength=values.n_atoms)
    # Whatever all rows hold, others may not.
    share = frequent / (2 * len(one) + 1)
    sure = _sure(one, two, _found(one == two, chance), share, _matching(chance, share, values))
    sure = (1.0 - ASTRAY[0]) * sure + ASTRAY[0] * share[one]
    sure *= values.prior(frequent / 2)[values.first[one]]
    none = np.zeros(len(one), dtype=bool)
    return Rows(values.first[best], sure, none, False, misfit), far / values.n_columns


def _matched(
    one: IntArray, two: IntArray, values: ValueIndex, exchangeable: bool, apart: bool = False
) -> tuple[IntArray, float]:
    """Order rows of the second walk as those of the first that they are nearest to.

    ``apart``: row k does not stand for row k. Says how far rows are from these, without the class.
    """
    out, far = two.copy(), list[float]()
    order = [
        np.lexsort(sample.T[::-1]) if exchangeable else np.arange(len(sample))
        for sample in (one, two)
    ]
    # Where rows have places, some of them say how far all are.
    n_rows = len(one) if exchangeable else min(len(one), MAX_ALIGNED)
    for begin in range(0, n_rows, MAX_ALIGNED):
        i, j = (sample[begin : begin + MAX_ALIGNED] for sample in order)
        cost, label = values.apart(one[i], two[j])
        both = cost + label
        if apart and len(i) > 1:
            np.fill_diagonal(both, _NEVER)
        x, y = linear_sum_assignment(both)
        far += cost[x, y].tolist()
        if exchangeable:
            out[i[x]] = two[j[y]]
    return out, float(np.mean(far)) if far else 0.0


def _found(agree: FloatArray, chance: FloatArray) -> FloatArray:
    """How probable it is that a walk finds the value of a row, shape (n_rows, n_attributes + 1).

    Two walks agree with the probability q = t^2 + (1 - t^2) c, if each finds the value with t, and
    values agree by chance with c.
    """
    share = agree.mean(axis=1)
    kind = (share > np.median(share)).astype(float)
    for _ in range(_ROUNDS):
        weight = np.array([1.0 - kind, kind])
        q = (weight @ agree + _BESIDE) / (weight.sum(axis=1)[:, None] + 2 * _BESIDE)
        log = agree @ logit(q).T + np.log1p(-q).sum(axis=1)
        kind = expit(log[:, 1] - log[:, 0] + logit(np.clip(kind.mean(), _LEAST, 1 - _LEAST)))
    t = np.sqrt(np.clip((q - chance) / np.maximum(1.0 - chance, _LEAST), 0.0, 1.0))
    return np.asarray(np.clip(np.column_stack([1.0 - kind, kind]) @ t, 0.0, 1.0 - _LEAST))


def _matching(chance: FloatArray, share: FloatArray, values: ValueIndex) -> FloatArray:
    """How probable it is that values agree because rows are matched, shape (n_attributes + 1,).

    Else they do as often as values of any two rows: c = k + (1 - k) sum m_v^2.
    """
    any_two = np.add.reduceat(share**2, values.atom_start[:-1])
    return np.asarray(np.clip((chance - any_two) / np.maximum(1.0 - any_two, _LEAST), 0.0, 1.0))


def _sure(
    one: IntArray, two: IntArray, t: FloatArray, share: FloatArray, k: FloatArray
) -> FloatArray:
    """How probable the first walk's values are, by Bayes' rule.

    Where x is true, a walk holds x with the probability t + (1 - t) (k + (1 - k) m_x), and any
    other value v with (1 - t) (1 - k) m_v. A second walk that is wrong holds what the first does
    with (1 - t) (k + (1 - k) m_v).
    """
    m, n = np.maximum(share[one], _LEAST), np.maximum(share[two], _LEAST)
    wrong = (1.0 - t) * (1.0 - k)
    same_one, same_two = ((1.0 - t) * k + wrong * number for number in (m, n))
    same = one == two
    true = m * (t + same_one) * np.where(same, t + same_one, wrong * n)
    second = np.where(same, 0.0, n * wrong * m * (t + same_two))
    rest = np.maximum(1.0 - m - np.where(same, 0.0, n), 0.0) * wrong * m
    rest *= np.where(same, same_one, wrong * n)
    return np.asarray(true / np.maximum(true + second + rest, _LEAST**4))
