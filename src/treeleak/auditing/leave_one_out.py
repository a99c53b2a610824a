"""Each training row in turn as the missing one: how well does the model disclose it?"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

import numpy as np
import pandas as pd

from treeleak.core.arrays import FloatArray, Labels, Place, Rows
from treeleak.core.clock import Progress
from treeleak.core.declared import plain
from treeleak.core.errors import BadInput
from treeleak.core.private import dataclass
from treeleak.metrics.individual import Individual, find_outliers
from treeleak.metrics.matching import paired_distances
from treeleak.reconstruction import versions, written
from treeleak.reconstruction.leave_one_out import INFORMED_VERSION, InformedRequest
from treeleak.release import Model
from treeleak.schema import Schema

_LEFT_OUT = 20
"""The prior of a target is learned from at least this many rows for each that is left out."""
_ERRORS = ("error", "value_by_value", "majority", "valid_majority")


@dataclass(frozen=True, eq=False)
class InformedAudit:
    """How well a model discloses each of some training rows to an adversary who knows all others.

    Attributes
    ----------
    targets : DataFrame
        One line for each, indexed by its position among the training rows:

        - error: share of columns in which the valid row of least expected error is wrong;
        - expected_error: what the attack itself expects;
        - value_by_value: error of the best value of each column by itself;
        - majority, valid_majority: errors of the majority of each column of the training rows, and
          of the best valid row among those that say nothing of the target;
        - probability: of the true row and class in the posterior, before anything was rounded;
        - label_right: whether the most probable class is right;
        - bits: what the model discloses beyond the known rows;
        - outlier: whether an isolation forest calls the row one.
    n_rows : int
        Training rows.
    seed : int
    seconds : float
    notes : tuple of str
    versions : mapping of str to str
    """

    targets: pd.DataFrame
    n_rows: int
    seed: int
    seconds: float
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=versions)

    @property
    def individual(self) -> Individual:
        """Errors of the targets, for all of them, inliers and outliers."""
        return Individual(self.targets["error"].to_numpy(), self.targets["outlier"].to_numpy())

    @property
    def means(self) -> dict[str, float]:
        """Mean of each column of :attr:`targets`."""
        return {str(name): float(self.targets[name].mean()) for name in self.targets}

    def to_dict(self, include_rows: bool = False) -> dict[str, Any]:
        """Describe the audit; single targets only if asked for (formats/informed.schema.json)."""
        targets: list[Any] = self.targets.reset_index(names="row").to_dict("records")
        described: dict[str, Any] = plain(
            {
                "version": INFORMED_VERSION,
                "n_rows": self.n_rows,
                "means": self.means,
                "individual": self.individual.to_dict(),
                "seed": self.seed,
                "seconds": self.seconds,
                "notes": self.notes,
                "versions": self.versions,
                **({"targets": tuple(targets)} if include_rows else {}),
            }
        )
        return described

    def to_json(self, path: Place | None = None, include_rows: bool = False) -> str:
        """Write :meth:`to_dict` as JSON, to a file too where one is named."""
        return written(self.to_dict, path, include_rows)


def informed_audit(
    model: Model,
    X: Rows,
    y: Labels,
    schema: Schema | Place | None = None,
    n_targets: int = 100,
    seed: int = 0,
    *,
    seed_search: int = 1_000_000,
    trust_pickle: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> InformedAudit:
    """Take training rows in turn as the missing one, and measure how well the model discloses each.

    The prior of a target comes from other rows only. Each fit leaves out one row in twenty, the
    target among these, and serves several targets.

    Parameters
    ----------
    model, schema, seed_search, trust_pickle
        As for :func:`informed`.
    X : DataFrame or array, shape (n_rows, n_columns)
        All training rows; for a bootstrap, in the order of training. The adversary then knows the
        place of the missing row.
    y : sequence
        Their labels.
    n_targets : int
        Number of rows to take, at random; all if there are no more.
    seed : int
        Same model, rows and seed: same targets and answers.
    progress : callable, optional
        Receives :class:`~treeleak.core.clock.Progress`.

    Returns
    -------
    InformedAudit

    Raises
    ------
    BadInput, NotCovered
        As for :func:`informed`; Mismatch if the rows are not those that the model counted.
    """
    started = time.perf_counter()
    if n_targets < 1:
        raise BadInput(f"n_targets must be positive, not {n_targets}")
    request = InformedRequest.of(model, X, y, schema, trust_pickle, 0, seed_search)
    missing, n_rows = request.missing, len(request.label)
    if n_rows < 2:
        raise BadInput("only one training row: there are no others to know")
    request.leaves.check(request.points, request.label)
    rng = np.random.default_rng(seed)
    targets = rng.choice(n_rows, min(n_targets, n_rows), replace=False)
    lines: list[dict[str, Any]] = []
    answers: dict[str, list[FloatArray]] = {name: [] for name in _ERRORS}
    for part in np.array_split(targets, -(-len(targets) // max(1, n_rows // _LEFT_OUT))):
        prior = request.prior(np.setdiff1d(np.arange(n_rows), part), seed)
        baseline = request.baseline(prior.density)
        always = missing.value_by_value(baseline), request.written(missing.answer(baseline))[0]
        for k in part:
            if progress is not None:
                done = len(lines) / len(targets)
                progress(Progress("taking rows in turn as the missing one", done))
            point, label = request.points[k], int(request.label[k])
            likelihood = request.leaves.of_row(request.points, request.label, int(k))
            guess = request.guess(prior, likelihood)
            row, found = request.written(guess.chosen)
            rows = row, missing.value_by_value(guess.share), *always
            for collected, answer in zip(answers.values(), rows, strict=True):
                collected.append(answer)
            lines.append({
                "expected_error": guess.expected_error(missing),
                "probability": float(guess.posterior[point, label]),
                "label_right": found == label,
                "bits": guess.bits,
            })  # fmt: skip
    names = list(request.release.feature_names)
    true = pd.DataFrame(request.rows[targets], columns=names)
    errors = {
        name: paired_distances(pd.DataFrame(collected, columns=names), true, request.schema).mean(
            axis=1
        )
        for name, collected in answers.items()
    }
    table = pd.DataFrame(errors).join(pd.DataFrame(lines))
    table["outlier"] = find_outliers(pd.DataFrame(request.rows), seed)[targets]
    return InformedAudit(
        targets=table.set_axis(targets),
        n_rows=n_rows,
        seed=seed,
        seconds=time.perf_counter() - started,
        notes=request.notes,
    )
