"""What another training would save, and what it would cost: tried on the owner's own rows.

Nothing in a file that was trained without care makes up for it. So the same kind of model is
trained again with larger leaves, fewer or shallower trees, and with differential privacy; each is
judged twice: by cross-validation, as its owner would, and by an audit with the training rows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.auditing import Audit, audit
from treeleak.auditing.record import Serialisable
from treeleak.core.arrays import FloatArray, Labels, Place, Rows
from treeleak.core.clock import Clock, Progress
from treeleak.core.errors import BadInput, NotCovered, PrivacyWarning, TimeUp
from treeleak.core.private import dataclass
from treeleak.core.text import percent
from treeleak.formats.literals import Verdict
from treeleak.hardening.ways import Way, private_ways, settings_of, ways_of
from treeleak.release import Model, to_release
from treeleak.schema import Schema
from treeleak.verification.columns import in_model_columns

FOLDS = 5
ENOUGH = 0.9
"""Share of a guess's error from which on rebuilt rows count as hardly better than a guess."""

_INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Alternative(Serialisable):
    """One way to train."""

    what: str
    """In words."""
    settings: Mapping[str, Any]
    """What was set."""
    accuracy: float
    """Share of right labels, cross-validated."""
    lost: float
    """How much less that is than with the settings as they are, in the mean over folds."""
    lost_se: float
    """Standard error of that mean."""
    verdict: Verdict
    """Of the audit, with the training rows."""
    status: str | None
    """Of the reconstruction; None where there was no attack."""
    error: float | None
    guess: float | None
    """Share of the rebuilt values that is wrong, and of those of a random baseline."""
    exact_rows: float | None
    """Share of the training rows rebuilt exactly."""
    why: str | None
    """Why the leak was not measured."""
    seconds: float
    epsilon: float | None = None
    """Privacy budget, of a differentially private forest."""

    @property
    def as_a_guess(self) -> float | None:
        """Error as a share of that of a random baseline; 1 if no better than it."""
        if self.error is None or self.guess is None:
            return None
        return min(self.error / self.guess, 1.0) if self.guess > 0 else 1.0

    @property
    def ended(self) -> bool:
        """Whether the attack came to an answer, so that a longer one would find no more."""
        return self.status in ("unique", "feasible", "likely") and self.why is None

    @property
    def as_useful(self) -> bool:
        """Whether what it loses may be chance: at most one standard error."""
        return self.lost <= self.lost_se

    def to_dict(self) -> dict[str, Any]:
        """Describe it."""
        return super().to_dict() | {"ended": self.ended, "as_useful": self.as_useful}


@dataclass(frozen=True)
class Retraining(Serialisable):
    """Ways to train the same model.

    Attributes
    ----------
    alternatives : tuple of Alternative
        First, the settings as they are.
    most_common : float
        Share of right labels for always answering the most common class.
    advice : tuple of str
    not_assessed : tuple of str
    seed : int
    """

    alternatives: tuple[Alternative, ...]
    most_common: float
    advice: tuple[str, ...]
    not_assessed: tuple[str, ...]
    seed: int


def retrain(
    model: Model,
    X: Rows,
    y: Labels,
    *,
    schema: Schema | Place | None = None,
    time_limit: float | Clock = 180,
    seed: int = 0,
    trust_pickle: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Retraining:
    """Train the same kind of model in other ways, and compare use and leak.

    Parameters
    ----------
    model : fitted estimator, path or StoredObject
        A tree or forest of scikit-learn, or a pipeline or the like around one.
    X : DataFrame or array
        The training rows, in the columns that enter the trees or its pipeline. The fitted steps of
        a pipeline transform them once, and only the trees are trained again.
    y : sequence
        Their labels.
    schema : Schema or path, optional
        What a row can be. Differential privacy needs it, and it must not come from the rows.
    time_limit : float or Clock
        Seconds for all trainings and attacks together. Each way to train gets an equal share of the
        rest. Ways without time are listed as not assessed.
    seed : int
        Of folds, forests and attacks.
    trust_pickle : bool
        Also open pickle and joblib files.
    progress : callable, optional

    Returns
    -------
    Retraining
        After an interruption, it holds the results so far.

    Raises
    ------
    NotCovered
        If the model is of another kind, or the rows are too few to cross-validate.
    Mismatch
        If the rows are in the columns of a pipeline, and cannot be put through its steps.
    BadInput
        If rows or labels cannot be used.
    """
    clock, schema = Clock.of(time_limit), Schema.from_argument(schema)
    kind, settings = settings_of(model, trust_pickle)
    table, labels = _in_the_trees_columns(model, X, trust_pickle), np.asarray(y)
    if len(table) != len(labels):
        raise BadInput(f"{len(table)} rows, {len(labels)} labels")
    folds = _folds(labels, seed)
    open_parts: list[str] = []
    ways = list(ways_of(kind, settings, seed))
    if schema is None:
        open_parts.append(
            "differential privacy: it needs a schema that does not come from the rows (in Python "
            "schema, else --schema)"
        )
    else:
        ways += private_ways(schema, np.unique(labels).tolist(), seed)
    done: list[Alternative] = []
    base: FloatArray | None = None
    for k, way in enumerate(ways):
        if progress is not None:
            progress(Progress(f"training again: {way.what}", k / len(ways)))
        way_clock = clock.part(clock.left / (len(ways) - k))
        try:
            if way_clock.stopped:
                raise TimeUp(clock.timeout_message)
            with way_clock.enforced():
                right = _accuracies(way, table, labels, folds)
                model = _fitted(way, table, labels)
            base = right if base is None else base
            start = time.perf_counter()
            found = audit(
                model,
                table,
                labels,
                schema=schema,
                time_limit=way_clock,
                seed=seed,
                n_rows=None if way.epsilon is None else len(table),
            )
        except TimeUp:
            open_parts.append(f"the rest was not tried: {clock.timeout_message}")
            break
        except KeyboardInterrupt:
            open_parts.append("the rest was not tried: interrupted")
            break
        except BadInput as error:
            if way.epsilon is None:
                raise
            open_parts.append(f"differential privacy: {error}")
            break
        summary = _summed_up(way, right, base - right, found, time.perf_counter() - start)
        done.append(summary)
        if summary.why == _INTERRUPTED:
            open_parts.append("the rest was not tried: interrupted")
            break
    _, counts = np.unique(labels, return_counts=True)
    return Retraining(
        tuple(done), float(counts.max() / len(labels)), _advice(done), tuple(open_parts), seed
    )


def _in_the_trees_columns(model: Model, X: Rows, trust_pickle: bool) -> pd.DataFrame:
    """Put rows where the trees read them; as they are, where no trees can be read."""
    try:
        release = to_release(model, trust_pickle)
    except NotCovered:
        return pd.DataFrame(X).reset_index(drop=True)
    return in_model_columns(release, X)[0]


# --------------------------------------------------------------------------------- use and leak


def _folds(labels: NDArray[Any], seed: int) -> list[tuple[Any, Any]]:
    from sklearn.model_selection import StratifiedKFold

    _, counts = np.unique(labels, return_counts=True)
    n_folds = int(min(FOLDS, counts.max()))
    if n_folds < 2 or len(counts) < 2:
        raise NotCovered("training again: there are too few rows, or only one class")
    parts = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        # A class with fewer rows than folds is missing in some of them, which is all right here.
        warnings.simplefilter("ignore", UserWarning)
        return list(parts.split(np.zeros(len(labels)), labels))


def _accuracies(
    way: Way, X: pd.DataFrame, y: NDArray[Any], folds: Sequence[tuple[Any, Any]]
) -> FloatArray:
    """Share of right labels in each fold."""
    right = []
    for train, test in folds:
        model = _fitted(way, X.iloc[train], y[train])
        right.append(float((model.predict(X.iloc[test]) == y[test]).mean()))
    return np.array(right)


def _fitted(way: Way, X: pd.DataFrame, y: NDArray[Any]) -> Any:
    with warnings.catch_warnings():
        # That a seed makes the noise repeatable is known: these forests are thrown away.
        warnings.simplefilter("ignore", PrivacyWarning)
        return way.make().fit(X, y)


def _summed_up(
    way: Way, right: FloatArray, lost: FloatArray, found: Audit, seconds: float
) -> Alternative:
    """Sum up how useful a model is and what it leaks."""
    measured, rebuilt = found.measurement, found.reconstruction
    why = None
    if rebuilt is not None and rebuilt.interrupted:
        why = _INTERRUPTED
    elif measured is None:
        why = found.reason("reconstruction", "no rows were rebuilt")
        why = found.reason("measurement", why)
    return Alternative(
        what=way.what,
        settings=way.settings,
        accuracy=float(right.mean()),
        lost=float(lost.mean()),
        lost_se=float(lost.std(ddof=1) / np.sqrt(len(lost))) if len(lost) > 1 else 0.0,
        verdict=found.verdict,
        status=None if rebuilt is None else rebuilt.status,
        error=None if measured is None else measured.error,
        guess=None if measured is None else measured.guess_mean,
        exact_rows=None if measured is None else measured.exact_rows,
        why=why,
        seconds=seconds,
        epsilon=way.epsilon,
    )


# ---------------------------------------------------------------------------------------- advice


def _advice(done: Sequence[Alternative]) -> tuple[str, ...]:
    """Say which ways lose no accuracy that can be told from chance, and what they save.

    Ways whose attack ended without an answer are not recommended: a longer one may find more.
    """
    if not done:
        return ()
    now, *others = done
    sentences = []
    if open_ := [a.what for a in done if a.as_a_guess is None or not a.ended]:
        sentences.append(
            f"Not recommended, because the attack found no answer in its time: {'; '.join(open_)}. "
            "Give it more (--time-limit)."
        )
    before = now.as_a_guess or 0.0
    plain = [a for a in others if a.epsilon is None and a.ended and a.as_useful]
    if better := [a for a in plain if (a.as_a_guess or 0.0) > before]:
        best = max(better, key=lambda a: a.as_a_guess or 0.0)
        sentences.append(
            f"{best.what.capitalize()}: {_of_values(best)}, {_of_values(now, 'now ')}; the "
            f"accuracy stays ({percent(best.accuracy, 1)}, now {percent(now.accuracy, 1)})."
        )
    else:
        sentences.append(
            "Larger leaves and fewer or shallower trees showed no saving without a loss of "
            "accuracy beyond chance."
        )
    private = [a for a in done if a.epsilon is not None]
    if private:
        most = max(a.accuracy for a in private)
        # The curve is flat within its errors: of those, the smallest budget promises most.
        enough = [a for a in private if a.accuracy >= most - a.lost_se]
        chosen = min(enough, key=lambda a: a.epsilon or 0.0)
        sentences.append(
            f"With differential privacy, epsilon {chosen.epsilon:g} is the smallest whose "
            f"accuracy ({percent(chosen.accuracy, 1)}, now {percent(now.accuracy, 1)}) is "
            f"within one standard error of the best one tried; {_of_values(chosen)}. Only "
            "this also bounds unknown attacks."
        )
    if not any(a.ended and (a.as_a_guess or 0.0) >= ENOUGH for a in done):
        sentences.append(
            "None of these brings the rebuilt rows close to a random baseline. Do not "
            "release such a model, or give access to its answers only."
        )
    return tuple(sentences)


def _of_values(way: Alternative, when: str = "") -> str:
    if way.error is None or way.guess is None:
        return f"{when}the leak was not measured ({way.why})"
    return (
        f"{when}{percent(way.error, 1)} of the rebuilt values are wrong, "
        f"{percent(way.guess, 1)} in a random baseline"
    )
