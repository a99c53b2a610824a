"""A dataset proposed by an attack, with how sure it is and how it came about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, field
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from treeleak.attacks.answer import Status
from treeleak.core.arrays import BoolArray, Place
from treeleak.core.clock import Incumbent
from treeleak.core.declared import plain
from treeleak.core.errors import NotCovered
from treeleak.core.private import dataclass
from treeleak.evidence import DrawnLossSums, ExactCounts, ExactTotals, KnownDraws, LossSums
from treeleak.reconstruction.document import versions, written
from treeleak.reconstruction.expected import share_wrong
from treeleak.reconstruction.posterior import Expectation, Posterior
from treeleak.reconstruction.problem import NO_SCHEMA
from treeleak.release.draws.recompute import Draws
from treeleak.release.n_rows import RowCount
from treeleak.schema import Schema

RECONSTRUCTION_VERSION: Literal[1] = 1

Space = Literal["model", "input"]

_MET_BY_SEVERAL = (ExactCounts.kind, ExactTotals.kind, KnownDraws.kind)
"""Evidence that datasets meet whole or not at all."""

MEANING: Mapping[str, str] = {
    "unique": "the only dataset that meets the counts, under this schema",
    "feasible": "meets every count exactly; other datasets may, too",
    "likely": "the most probable rows; nothing is proved",
    "infeasible": "the counts contradict each other or the schema",
    "unknown": "the search ended before every count was met; this is the best so far",
}


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """A reconstructed training set.

    Attributes
    ----------
    status : {"unique", "feasible", "likely", "infeasible", "unknown"}
        What is proved about the rows; :data:`MEANING` has it in words.
    X : DataFrame, shape (n_rows, n_features), or None
        The rows, in the columns of :attr:`space`; None if infeasible, or if time ran out too early.
        For a number known only as an interval, the most likely value.
    lower, upper : DataFrame or None
        Like ``X``: the ends of the interval of each value, equal to the value if it is the only
        one. An interval excludes a threshold at its lower end, and includes one at its upper end.
        Ends of the domain are included. NaN for a missing value, and in columns of a pipeline's
        input that hold no numbers.
    midpoints_met : float or None
        Share of the tests of numbers, with rows on both sides, whose threshold is the middle
        between the nearest values of these rows. In the training set, all are. So it shows without
        the truth how right rows are: near 1 if they are right, far less if they only meet the
        counts. None if thresholds are no midpoints, or if it is not known what each tree saw.
    y : Series or None
        Class labels. For a regression, targets: those that leaves disclose, and for other rows the
        likeliest given the model and its sums, or NaN. None if leaves disclose none.
    y_lower, y_upper : Series or None
        For a regression: the bounds of each row's target, if the rows are right. Infinite where
        sums of targets give none.
    confidence : DataFrame or None
        Like ``X``: the probability of each value, 1.0 only where proved. NaN where it is not known
        (:attr:`sureness_known`): of what is not proved in rows that are ``unknown``.
    label_confidence : Series or None
        The same for ``y``; for targets, 0 where none is disclosed.
    proved : Series or None
        Rows of every dataset that meets the counts, on every value that the model's splits
        distinguish.
    ordered : bool
        Whether row k is row k of the training set.
    draws : Draws or None
        How often each tree drew each row, and the source of this knowledge; None if every tree saw
        every row.
    misfit : float
        The count residual: sum over all leaves and classes of the difference between the released
        count and that of these rows. :attr:`misfit_means` names it for other evidence.
    contradiction : str or None
        Where and why no rows can meet the counts.
    evidence : str
        The kind of counts behind it.
    free_columns : tuple of str
        Columns that no tree tests: the model holds no evidence about them.
    interval_columns : tuple of str
        Columns of numbers: the model discloses the thresholds around a value, never the value.
    schema : Schema
    seed : int
    seconds : float
    interrupted : bool
        Whether the user stopped it.
    timed_out : bool
        Whether the time limit ended it.
    trace : tuple of Incumbent
        Misfit of the best answer against time.
    numbers : dict
        Sizes of the problem.
    notes : tuple of str
        What the reader should know.
    versions : mapping of str to str
    known : DataFrame of bool or None
        Like ``X``: which values were given. Proofs and errors do not count them.
    posterior : Posterior or None
        Samples of the posterior, if there are rows: drawn by chains for hidden draws, counts with
        noise, and exact counts of classes that leave several datasets (samples nearly meet those);
        else the datasets between which the rows lie, or drawn from their confidence.
    expected_distance : float or None
        Mean distance per value from the training set, where the attack knows other datasets that
        the rows may be, or columns are known to intervals: see :attr:`expected_error`.
    most_likely : tuple of DataFrame and Series, or None
        Rows and labels (None in a model without classes) of the likeliest dataset, if chains
        drew the posterior; behind exact counts, of one that meets all. ``X`` errs less on average.
    without_population : Reconstruction or None
        The same without the population, if one was given.
    cells : str
        How the cells were found, see :attr:`Answer.cells`.
    row_count : RowCount or None
        The number of training rows and its source, for hidden draws or noisy counts.
    space : {"model", "input"}
        Columns of ``X``, and of everything about single values or columns: the model's, or those of
        its pipeline's input. A value that comes from several of the model's columns has the
        confidence of the least sure of them. Proofs, misfit, schema and posterior (with
        ``membership``, ``expectation`` and ``expected_distance``) are in the model's columns either
        way.
    weights_open : bool
        Whether the file adds up weights of rows, and nothing says whether there were any: proofs
        count rows if all weights are positive whole numbers.
    """

    _shown_fields: ClassVar = ("status", "n_rows", "X", "ordered", "space")

    status: Status
    X: pd.DataFrame | None
    y: pd.Series[Any] | None
    confidence: pd.DataFrame | None
    label_confidence: pd.Series[float] | None
    proved: pd.Series[bool] | None
    ordered: bool
    misfit: float
    contradiction: str | None
    evidence: str
    free_columns: tuple[str, ...]
    schema: Schema
    seed: int
    seconds: float
    interrupted: bool = False
    trace: tuple[Incumbent, ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)
    interval_columns: tuple[str, ...] = ()
    draws: Draws | None = None
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=versions)
    known: pd.DataFrame | None = None
    posterior: Posterior | None = None
    most_likely: tuple[pd.DataFrame, pd.Series[Any] | None] | None = None
    expected_distance: float | None = None
    without_population: Reconstruction | None = None
    cells: str = "enumerated"
    row_count: RowCount | None = None
    space: Space = "model"
    lower: pd.DataFrame | None = None
    upper: pd.DataFrame | None = None
    midpoints_met: float | None = None
    y_lower: pd.Series[float] | None = None
    y_upper: pd.Series[float] | None = None
    weights_open: bool = False
    timed_out: bool = False

    @property
    def n_rows(self) -> int:
        """Rows reconstructed."""
        return 0 if self.X is None else len(self.X)

    @property
    def labelled(self) -> bool:
        """Whether :attr:`y` holds classes, not targets."""
        return self.y is not None and self.y.name == "label"

    @property
    def outcomes(self) -> pd.Series[Any] | None:
        """Labels. For a regression, the targets that leaves disclose, and NaN for the other rows.
        None if no row's is disclosed.
        """
        if self.y is None or self.labelled or self.label_confidence is None:
            return self.y
        disclosed = self.label_confidence > 0
        return self.y.where(disclosed) if disclosed.any() else None

    @property
    def events(self) -> pd.Series[float] | None:
        """Of survival: 1 for a row that had its event, 0 for one that left without, NaN where that
        is not disclosed. None of other models.
        """
        survival = any(getattr(note, "code", "") == "survival_outcomes" for note in self.notes)
        if not survival or self.y is None or self.y_upper is None:
            return None
        left, known = self.y_upper == np.inf, self.y.notna()
        told = known if self.outcomes is None else self.outcomes.notna()
        return (~left).astype(float).where((left & known) | (~left & told))

    @property
    def behind_noise(self) -> bool:
        """Whether the counts were read as carrying noise, or leaves as naming a class by chance."""
        return self.evidence.startswith(("noisy counts", "class of each leaf"))

    @property
    def draws_hidden(self) -> bool:
        """Whether trees drew rows, and it is not known which."""
        return self.row_count is not None and self.evidence.startswith("hidden")

    @property
    def meets_sums(self) -> bool:
        """Whether the rows, with their classes, meet the sums of the loss in all leaves."""
        summed = self.evidence.startswith((LossSums.kind, DrawnLossSums.kind))
        return summed and self.status in ("unique", "feasible")

    @property
    def between_datasets(self) -> bool:
        """Whether the rows lie between datasets that meet all counts: `most_likely` meets all."""
        return self.status == "likely" and self.evidence in _MET_BY_SEVERAL

    @property
    def meaning(self) -> str:
        """The status in words."""
        meaning = MEANING[self.status]
        if NO_SCHEMA in self.notes:
            values = "the values that the thresholds suggest"
            meaning = meaning.replace(", under this schema", f" and {values}")
            meaning = meaning.replace("the schema", values)
        if self.status == "feasible" and self.evidence.startswith("what leaves add"):
            meaning = "explains the value of every leaf; other datasets may, too"
        if self.between_datasets:
            meaning = "misses counts, but is expected to err less than datasets that meet all"
        if self.status == "unknown" and self.X is None:
            meaning = "the search ended before there were any rows"
        elif self.status == "unknown" and self.numbers.get("nearest_misses"):
            meaning = "lies between datasets that nearly meet all counts; none was found that does"
        elif self.status == "unknown" and "trees_settled" in self.numbers:
            meaning = "meets the first trees, whose sums leave no doubt, and not the others"
        elif self.status == "unknown" and self.row_count is not None:
            meaning = "the search ended before it had settled; this is the best so far"
        if self.status == "unknown":
            meaning = meaning.replace("the search ended", self.end, 1)
        return meaning

    @property
    def end(self) -> str:
        """Why the search ended, in words."""
        if self.interrupted:
            return "interrupted"
        return "time ran out" if self.timed_out else "the search ended"

    @property
    def misfit_means(self) -> str:
        """What :attr:`misfit` sums up, in words."""
        return misfit_means(self.evidence)

    @property
    def share_proved_rows(self) -> float:
        """Share of the rows that are proved, of those that were not given."""
        found = np.flatnonzero(~self.given.all(axis=1))
        return (
            float(np.mean(self.proved.iloc[found]))
            if self.proved is not None and len(found)
            else 0.0
        )

    @property
    def share_proved_values(self) -> float:
        """Share of the values that are proved, of those that were not given."""
        found = ~self.given
        if self.confidence is None or not found.any():
            return 0.0
        return float((self.confidence.to_numpy()[found] == 1.0).mean())

    @property
    def given(self) -> BoolArray:
        """Which values were given, shape (n_rows, n_features)."""
        if self.known is not None:
            return self.known.to_numpy()
        return np.zeros((0, 0) if self.X is None else self.X.shape, dtype=bool)

    @property
    def sureness_known(self) -> bool:
        """Whether :attr:`confidence` says how probable values are that are not proved."""
        # Of walks that miss counts, nothing says how often they come to what is true.
        return self.status != "unknown"

    @property
    def expected_error(self) -> float | None:
        """Share of values that the attack itself expects to be wrong, of those not given.

        To be compared with the error after matching: of numbers, by how much they are off, as a
        share of the range. None where rows are ``unknown``. The mean distance of the rows from
        other datasets that they may be, each matched with them, where the attack knows such
        datasets; else it follows from the confidences. In intervals, a number is as far off as
        values there typically are.
        """
        left = ~self.given
        if self.status == "unknown":
            return None
        if self.expected_distance is not None:
            # All datasets have what was given (of numbers, the interval): they differ in the rest.
            return self.expected_distance * left.size / int(left.sum()) if left.any() else None
        if self.confidence is None or not self.sureness_known:
            return None
        return share_wrong(self.confidence, self.schema, left)

    def membership(self, records: pd.DataFrame, share: float | None = None) -> pd.Series[float]:
        """Probability that each record is in the training set: :meth:`Posterior.membership`.

        Raises
        ------
        NotCovered
            If there is no posterior.
        """
        return self._posterior.membership(records, share)

    def expectation(
        self, f: Callable[[pd.DataFrame, Any], float], level: float = 0.9
    ) -> Expectation:
        """Say what a statistic of the training set is: :meth:`Posterior.expectation`.

        Raises
        ------
        NotCovered
            If there is no posterior.
        """
        return self._posterior.expectation(f, level)

    @property
    def _posterior(self) -> Posterior:
        if self.posterior is None:
            raise NotCovered(f"there is no posterior of rows rebuilt from {self.evidence}")
        return self.posterior

    def to_dict(self, include_rows: bool = False) -> dict[str, Any]:
        """Describe the result; rows only where asked for (formats/reconstruction.schema.json)."""
        found = {
            "version": RECONSTRUCTION_VERSION,
            "status": self.status,
            "meaning": self.meaning,
            "space": self.space,
            "n_rows": self.n_rows,
            "ordered": self.ordered,
            "draws": None if self.draws is None else str(self.draws),
            "misfit": self.misfit,
            "contradiction": self.contradiction,
            "evidence": self.evidence,
            "cells": self.cells,
            "row_count": None if self.row_count is None else asdict(self.row_count),
            "posterior": None if self.posterior is None else self.posterior.to_dict(),
            "known_values": int(self.given.sum()),
            "share_proved_rows": self.share_proved_rows,
            "share_proved_values": self.share_proved_values,
            "expected_error": self.expected_error,
            "midpoints_met": self.midpoints_met,
            "free_columns": tuple(self.free_columns),
            "interval_columns": tuple(self.interval_columns),
            "seed": self.seed,
            "seconds": self.seconds,
            "interrupted": self.interrupted,
            "timed_out": self.timed_out,
            "trace": tuple((i.seconds, i.misfit) for i in self.trace),
            "numbers": dict(self.numbers),
            "notes": tuple(self.notes),
            "versions": dict(self.versions),
            "without_population": _summary(self.without_population),
        }
        if include_rows and self.X is not None and self.confidence is not None:
            found["rows"] = self._rows(self.X, self.confidence)
        described: dict[str, Any] = plain(found)
        return described

    def _rows(self, X: pd.DataFrame, confidence: pd.DataFrame) -> dict[str, Any]:
        return {
            **_table(X, self.outcomes),
            "targets": self._of_targets(),
            "lower": self._ends(self.lower),
            "upper": self._ends(self.upper),
            "confidence": _listed(confidence.round(6)),
            "proved": [] if self.proved is None else self.proved.tolist(),
            "known": None if self.known is None else self.known.to_numpy().tolist(),
            "most_likely": None if self.most_likely is None else _table(*self.most_likely),
        }

    def _ends(self, ends: pd.DataFrame | None) -> list[list[Any]] | None:
        """Ends of the intervals; None if every value is known as one."""
        if ends is None or self.X is None or ends.equals(self.X):
            return None
        return _listed(ends.where(np.isfinite(ends)))

    def _of_targets(self) -> dict[str, Any] | None:
        """Targets of a regression as far as they are known, and the ends of their intervals."""
        if self.y is None or self.y_lower is None or self.y_upper is None:
            return None
        each = {"likeliest": self.y, "lower": self.y_lower, "upper": self.y_upper}
        return {
            name: [x if np.isfinite(x) else None for x in array.tolist()]
            for name, array in each.items()
        }

    def to_json(self, path: Place | None = None, include_rows: bool = False) -> str:
        """Write :meth:`to_dict` as JSON, to a file too where one is named."""
        return written(self.to_dict, path, include_rows)


def _summary(other: Reconstruction | None) -> dict[str, Any] | None:
    return None if other is None else other.to_dict()


def _table(X: pd.DataFrame, y: pd.Series[Any] | None) -> dict[str, Any]:
    return {
        "columns": list(X.columns),
        "values": _listed(X),
        "labels": [] if y is None else y.astype(object).where(y.notna(), None).tolist(),
    }


def _listed(X: pd.DataFrame) -> list[list[Any]]:
    found: list[list[Any]] = X.astype(object).where(X.notna(), None).to_numpy().tolist()
    return found


def misfit_means(evidence: str) -> str:
    """Say in words what the misfit of rows sums up, by the evidence that they were rebuilt from."""
    if evidence.startswith("hidden"):
        return "Rows that leaves still lack"
    if evidence.startswith("noisy"):
        return "Noise between these rows and the counts"
    if evidence.startswith("class"):
        return "Rows that leaves lack of the class they name"
    return "Count residual: counts still missed"
