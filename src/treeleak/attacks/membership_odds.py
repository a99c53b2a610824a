"""How much more often a row is in the training set than in the population, by the evidence itself.

Samples of a posterior hold few kinds of rows. Of any other, their number in the training set
follows from the evidence all the same: in place of row i of a dataset, beside all of its other
rows, row x stands with probability q(x) L(x) / sum over z of q(z) L(z), where q is the prior and
L the likelihood with that row there. (That is a step of a Gibbs sampler, averaged over in place of
being taken: Gelfand and Smith 1990.) The mean over samples and rows i, over q(x), is the odds that
x is a member rather than one of the population.

Chains that are few, or walk slowly, tell these odds badly, and too strongly. They say so
themselves: each is a dataset as probable as the training set, of which the other chains know no
more than of that. A logistic regression tells its rows from rows of the prior, by the odds that
the others give. Its slope and shift are those of the answer.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from treeleak.attacks.samples import Samples
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.compiled import njit
from treeleak.core.decisions import TINY
from treeleak.core.parallel import run_all
from treeleak.core.private import dataclass, shows_no_value
from treeleak.partition import Geometry, equal_rows, rules_hold

_KINDS, _IMAGINED, _TRIED, _LOOKED_AT = 4000, 2000, 2400, 40_000
"""Kinds of rows that means are taken over one by one, at most; rows that the prior draws for all
others; rows of chains, and of the prior, that other chains judge; and rows among which kinds are
looked for."""
_WORK, _HELD = 4e9, 2**25
"""Comparisons of leaves to prepare an answer, about a second; and numbers of rows in leaves, of all
samples together."""


@shows_no_value
class _Weighed(NamedTuple):
    """A sample: some of its rows, in whose places others are weighed."""

    chain: int
    leaf: NDArray[np.int32]
    label: NDArray[np.int32]
    """Shapes (n_some, n_trees), (n_some,)."""
    held: NDArray[np.int32]
    """Of all of its rows, how many lie in each equation."""
    top: FloatArray
    total: FloatArray
    """Shapes (1,), (n_some,). What is taken off logs, and the mean of L in place of each row."""


@shows_no_value
class _Law(NamedTuple):
    """What one more row in an equation gains, see :class:`RowOdds`."""

    offset: IntArray
    gain: FloatArray
    n_classes: int
    n_rows: int
    """Of a dataset."""


@dataclass(frozen=True, eq=False)
class _Prepared:
    """What all questions share."""

    samples: list[_Weighed]
    slope: float
    shift: float


@dataclass(frozen=True, eq=False)
class RowOdds:
    """Odds of rows, by samples of two chains or more and the evidence that they were drawn by."""

    samples: Samples
    geometry: Geometry
    offset: IntArray
    """Shape (n_equations,). Where gains of each equation (leaf x n_classes + class) begin ..."""
    gain: FloatArray
    """... by the number of rows that lie there already, as log likelihoods."""
    seed: int

    def of(self, rows: IntArray) -> FloatArray:
        """Times as frequent in the training set as in the population.

        ``rows``, shape (n, n_attributes + 1): atoms, each attribute from 0; the class is the last.
        """
        prepared = self._prepared
        ratio = self._ratios(prepared.samples, rows, np.zeros(0)).mean(axis=0)
        return np.asarray(np.exp(prepared.shift + prepared.slope * _log(ratio)))

    @cached_property
    def _prepared(self) -> _Prepared:
        rng, samples = np.random.default_rng(self.seed), self.samples
        most = max(_HELD // len(self.offset), 2 * len(np.unique(samples.chain)))
        # A chain whose few samples are all left out has no say.
        samples = samples.thinned(most)
        chains = np.unique(samples.chain)
        n_samples, n_rows, width = samples.atoms.shape
        flat = samples.atoms.reshape(-1, width)
        at = rng.permutation(len(flat))
        rows, weight = self._weighted(flat[at[:_LOOKED_AT]], rng)
        inside = at[:_TRIED]
        outside = samples.imagined(len(inside), rng)
        outside = outside[self._may_be(outside)]
        # They weigh nothing: what means were taken over would judge itself.
        tried = np.concatenate([flat[inside].astype(np.int64), outside])
        first, group = equal_rows(np.concatenate([rows, tried]))
        weight = np.bincount(group, np.append(weight, np.zeros(len(tried))))
        rows = np.concatenate([rows, tried])[first]
        work = n_samples * len(rows) * len(self.geometry.release.trees)
        each = int(np.clip(_WORK / work, 1, n_rows))
        weighed = [
            self._weigh(samples, k, rng.permutation(n_rows)[:each]) for k in range(n_samples)
        ]
        ratios = self._ratios(weighed, rows, weight)
        # Each chain is judged by the others, and rows of the prior, as often by each.
        log_ratio = _log((ratios.sum(axis=0) - ratios) / (len(ratios) - 1))
        chain = np.searchsorted(chains, samples.chain[inside // n_rows])
        chain = np.append(chain, np.arange(len(outside)) % len(ratios))
        log_ratio = log_ratio[chain, group[-len(tried) :]]
        return _Prepared(weighed, *_trust(log_ratio[: len(inside)], log_ratio[len(inside) :]))

    def _weighted(
        self, drawn: NDArray[np.integer[Any]], rng: np.random.Generator
    ) -> tuple[IntArray, NDArray[Any]]:
        """Find rows and weights by which means are the prior's.

        They are frequent kinds of the rows drawn, with their probabilities, and for all others,
        rows that the prior draws.
        """
        first, group = equal_rows(drawn)
        most = np.argsort(-np.bincount(group), kind="stable")[:_KINDS]
        distinct = drawn[first[most]].astype(np.int64)
        rows = np.concatenate([distinct, self.samples.imagined(_IMAGINED, rng)])
        group = equal_rows(rows)[1]
        weight = np.where(np.isin(group, group[: len(distinct)]), 0.0, 1.0 / _IMAGINED)
        weight[: len(distinct)] = np.exp(self.samples.log_prior(distinct))
        weight *= self._may_be(rows)
        return rows[weight > 0], weight[weight > 0] / weight.sum()

    def _may_be(self, rows: IntArray) -> BoolArray:
        """Which rows meet the rules of the schema; a prior does not know them."""
        return rules_hold(self.geometry.schema.rules, self.geometry.parts, rows[:, :-1])

    def _weigh(self, samples: Samples, k: int, row_index: IntArray) -> _Weighed:
        n_classes = self.geometry.release.n_classes
        leaf, label = self._dropped(samples.atoms[k])
        equation = leaf.astype(np.int64) * n_classes + label[:, None]
        held = np.bincount(equation.ravel(), minlength=len(self.offset)).astype(np.int32)
        none = np.zeros(len(row_index))
        return _Weighed(
            int(samples.chain[k]), leaf[row_index], label[row_index], held, np.zeros(1), none
        )

    def _dropped(
        self, rows: NDArray[np.integer[Any]]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Leaves and classes of rows."""
        return self.geometry.trace_atoms(rows[:, :-1]), rows[:, -1].astype(np.int32)

    def _ratios(self, samples: list[_Weighed], rows: IntArray, weight: NDArray[Any]) -> FloatArray:
        """Mean ratio of each row by each chain; with weights, they are what means are taken by."""
        leaf, label = self._dropped(rows)
        chains, n_classes = sorted({s.chain for s in samples}), self.geometry.release.n_classes
        law = _Law(self.offset, self.gain, n_classes, self.samples.atoms.shape[1])

        def by(chain: int) -> FloatArray:
            out, chain_samples = np.zeros(len(rows)), [s for s in samples if s.chain == chain]
            for s in chain_samples:
                add_ratios(leaf, label, s, law, weight, out)
            return out / sum(len(s.label) for s in chain_samples)

        return np.array(run_all([partial(by, c) for c in chains]))


def _log(ratio: FloatArray) -> FloatArray:
    return np.asarray(np.log(np.maximum(ratio, TINY)))


def _trust(members: FloatArray, others: FloatArray) -> tuple[float, float]:
    """Slope and shift of log odds by which members are told from others (Platt 2000).

    With one person's worth of doubt that both are as they should be, 1 and 0.
    """

    def loss(w: FloatArray) -> float:
        slope, shift = w
        missed = np.logaddexp(0.0, -shift - slope * members).mean()
        missed += np.logaddexp(0.0, shift + slope * others).mean()
        return float(missed * len(members) + ((slope - 1.0) ** 2 + shift**2) / 2.0)

    slope, shift = minimize(loss, (1.0, 0.0), bounds=((0.0, None), (None, None))).x
    return float(slope), float(shift)


_MOST_LOG = 700.0
"""e to this power is still a number."""


@njit(fastmath=True)
def add_ratios(leaf: Any, label: Any, sample: Any, law: Any, weight: Any, out: Any) -> None:
    """Add to ``out`` how much likelier each row is than others in place of rows of a dataset.

    For some rows i of the dataset, L(x) is the likelihood with x in the place of i. ``out[x]``
    grows by the sum over i of L(x) over its mean.

    Parameters
    ----------
    leaf, label
        Shapes (n, n_trees), (n,). Of the rows that are weighed.
    sample : _Weighed
    law : _Law
    weight
        Shape (n,). Probability of each row, of which ``total`` and ``top`` of the sample are then
        made; or (0,): then both are read.
    """
    row_leaf, row_label, held, top, total = (
        sample.leaf, sample.label, sample.held, sample.top, sample.total
    )  # fmt: skip
    offset, gain, n_classes, n_rows = law.offset, law.gain, law.n_classes, law.n_rows
    n, n_trees = leaf.shape
    most = n_rows - 1
    base, factor, ratio = np.empty(n), np.empty(n_trees), np.empty(n)
    for k in range(n):
        log = 0.0
        for t in range(n_trees):
            e = leaf[k, t] * n_classes + label[k]
            log += gain[offset[e] + min(held[e], most)]
        base[k] = log
    if len(weight):
        top[0] = base.max()
    for k in range(n):
        base[k] = np.exp(min(base[k] - top[0], _MOST_LOG))
    for i in range(len(row_label)):
        for t in range(n_trees):
            e = row_leaf[i, t] * n_classes + row_label[i]
            a = offset[e] + held[e] - 1
            factor[t] = np.exp(gain[a] - gain[min(a + 1, offset[e] + most)])
        mean = 0.0
        for k in range(n):
            here = base[k]
            if label[k] == row_label[i]:
                for t in range(n_trees):
                    if leaf[k, t] == row_leaf[i, t]:
                        here *= factor[t]
            ratio[k] = here
            if len(weight):
                mean += here * weight[k]
        if len(weight):
            total[i] = mean
        for k in range(n):
            out[k] += ratio[k] / total[i]
