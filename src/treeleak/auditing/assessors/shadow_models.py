"""Membership by predictions: of shadow models, and of the model itself where others are given.

Shadow models are trained in the same way on halves of the training rows. They need no rebuilt rows
and no control rows, only a model that can be trained again, so they decide where an attack on the
rows does not come to an answer. With labelled control rows, the predictions of the model itself are
attacked; shadow models, if there are any, say how hard each person's label is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from treeleak.auditing.assessors.comparison import too_like
from treeleak.auditing.record import Serialisable
from treeleak.core.arrays import BoolArray, FloatArray, IntArray, rows_at
from treeleak.core.clock import Progress
from treeleak.core.errors import NotCovered, TimeUp
from treeleak.core.message import MessageTemplate, static_message
from treeleak.core.private import dataclass
from treeleak.learn.confidence import of_model, of_trees
from treeleak.learn.refit import REASONS as REFIT_REASONS
from treeleak.learn.refit import Refit, refit_of
from treeleak.metrics.membership import Bounded
from treeleak.metrics.shadow_models import (
    DirectScore,
    ShadowScore,
    at_full_size,
    direct,
    halves,
    left_out_of,
    scored,
)
from treeleak.verification.columns import in_model_columns

if TYPE_CHECKING:
    from treeleak.auditing.case import Case

SHARE = 0.2
"""Of the time, for training."""
FEWEST = 40
"""Training rows of the smallest shadow models."""
_AT_ONCE = 2_000
"""Training rows up to which models of half of them are trained at once: that takes seconds. Of
more, smaller ones come first, and say what to expect where the time ends."""
_SIZES = 5
"""Sizes that are tried, each twice the one before; the greatest is half of the rows."""
_PAIRS, _PAIRS_OF_SMALL = 6, 2
"""Pairs of models of the greatest size, and of each smaller one. Mean AUC of ten kinds of models on
fair, anes96 and breast cancer, 280 rows: .758 with 4 pairs, .770 with 8, .774 with 16."""
_MOST_SCORED = 10_000
"""Training rows, and control rows, whose predictions are compared; of more, a random part."""
LEAST_OTHERS = 20
"""Training rows, and control rows, without which no comparison tells anything."""
MATERIAL = 0.6
"""AUC from which on membership counts as disclosed: an adversary who is shown a training row and
another person's, as alike as any, picks the training row in six tries of ten, not in five."""
MOST_CLASSES = 50
"""Different labels up to which each class is halved by itself."""

TOO_FEW = MessageTemplate(
    "shadows_too_few",
    "shadow models need {fewest:number} training rows or more, not {rows:people}",
)
RECORDS = static_message(
    "the labels are records (an event and its time), which are neither classes nor numbers",
    "labels_of_records",
)
NO_LABELS = static_message(
    "shadow models need the labels of the training rows, one for each", "shadows_no_labels"
)
TOO_SLOW = static_message(
    "there was no time to train the model again on halves of the rows", "shadows_too_slow"
)
GIVEN = static_message("parts of the training rows were given", "shadows_given")
REASONS = (TOO_FEW, NO_LABELS, RECORDS, TOO_SLOW, GIVEN, *REFIT_REASONS)


@dataclass(frozen=True)
class Shadows(Serialisable):
    """Whether predictions tell who was among the training rows: of this model, or of ones like it.

    Attributes
    ----------
    trained : str or None
        Class that was trained again; None where none was.
    sizes : tuple of ShadowScore
        By the number of training rows.
    auc : Bounded or None
        Of the model itself: how often a member scores above another person. Measured, or as far as
        smaller models say; None where those that were reached do not say.
    direct : DirectScore or None
        The predictions of the model itself, for training rows and control rows; None without
        labels of control rows.
    """

    trained: str | None
    sizes: tuple[ShadowScore, ...]
    auc: Bounded | None
    direct: DirectScore | None = None


@dataclass(frozen=True, eq=False)
class _Trained:
    """What shadow models came to.

    ``sizes``: what each size tells. ``people``: numbers of those on parts of whom the models of the
    last size were trained; ``difficulty``: how sure models are of them that did not see them, and
    then of the control people; ``models``: how many said so.
    """

    sizes: tuple[ShadowScore, ...] = ()
    people: IntArray | None = None
    difficulty: FloatArray | None = None
    models: int = 0


def assess(case: Case) -> Case:
    """Train shadow models, and attack them and the model itself, as a part of an audit."""
    request, refit, why = case.request, None, TOO_SLOW
    failure: NotCovered | None = None
    try:
        refit = refit_of(case.live, case.content, case.release)
    except NotCovered as error:
        failure = error
    X, y = case.provided if case.live is not None else (request.X, request.y)
    if request.parts_provided:
        return case.without("shadows", GIVEN)
    if y is None or np.ndim(y) != 1 or len(y) != len(X):
        return case.without("shadows", NO_LABELS)
    y, control = np.asarray(y), _control(case)
    if y.dtype.names is not None:
        return case.without("shadows", RECORDS)
    trained = _Trained()
    if refit is not None and len(X) < 2 * FEWEST:
        why = TOO_FEW(fewest=2 * FEWEST, rows=len(X))
    elif refit is not None:
        try:
            trained = _of_sizes(case, refit, X, y, control)
        except NotCovered as error:
            failure = error
    own = None if control is None else _direct(case, trained, X, y, control[2])
    if not trained.sizes and own is None:
        if failure is not None:
            raise failure
        return case.without("shadows", why)
    estimate = at_full_size(list(trained.sizes), len(X)) if own is None else own.auc
    name = refit.name if refit is not None and trained.sizes else None
    return case.plus(shadows=Shadows(name, trained.sizes, estimate, own))


def _control(case: Case) -> tuple[Any, Any, FloatArray] | None:
    """Control rows as the model takes them, their labels, and how sure it is of these.

    None where they cannot be compared, or the model does not predict them.
    """
    request, labels = case.request, case.request.control_y
    if labels is None or case.others is None or len(labels) != len(case.others):
        return None
    rows = case.others if case.live is None else request.control
    table = in_model_columns(case.release, request.X)[0]
    if len(rows) < LEAST_OTHERS or too_like(table, case.others, request.seed):
        return None
    chosen = np.random.default_rng(request.seed).permutation(len(rows))[:_MOST_SCORED]
    rows, labels = rows_at(rows, chosen), np.asarray(labels)[chosen]
    sure = _sure(case, rows, labels)
    return None if sure is None else (rows, labels, sure)


def _sure(case: Case, X: Any, y: Any) -> FloatArray | None:
    """How sure the model itself is of labels; None where its predictions are not known."""
    try:
        return of_trees(case.release, X, y) if case.live is None else of_model(case.live, X, y)
    except (TimeUp, MemoryError):
        raise
    except Exception:
        # Foreign code may raise anything: for a category, say, that only control rows have.
        return None


def _direct(
    case: Case, trained: _Trained, X: Any, y: Any, others: FloatArray
) -> DirectScore | None:
    """Attack the predictions of the model itself; None where they are not known.

    ``others``: how sure it is of the labels of control rows.
    """
    people = trained.people
    if people is None:
        people = np.random.default_rng(case.request.seed).permutation(len(X))[:_MOST_SCORED]
    if len(people) < LEAST_OTHERS:
        return None
    members = _sure(case, rows_at(X, people), y[people])
    if members is None:
        return None
    score = np.concatenate([members, others])
    if trained.difficulty is not None:
        score = score - trained.difficulty
    return direct(score[: len(people)], score[len(people) :], trained.models)


def _of_sizes(
    case: Case, refit: Refit, X: Any, y: Any, control: tuple[Any, Any, FloatArray] | None
) -> _Trained:
    clock, seed = case.clock.part(case.seconds(SHARE)), case.request.seed
    rng = np.random.default_rng(seed)
    n = len(X)
    rows = [n // 2 >> k for k in range(_SIZES if n > _AT_ONCE else 1)][::-1]
    of_classes = len(np.unique(y.astype(str))) <= MOST_CLASSES
    found = _Trained()
    for k, size in enumerate(rows):
        pairs = _PAIRS if k == len(rows) - 1 else _PAIRS_OF_SMALL
        people, inside = halves(y.astype(str) if of_classes else np.zeros(n), size, pairs, rng)
        some, labels = rows_at(X, people), y[people]
        if control is not None:
            some = _stacked(some, control[0])
            labels = np.concatenate([labels, control[1]])
        scores: list[FloatArray] = []
        late = False
        try:
            with clock.enforced(grace=0.0):
                for j, member in enumerate(inside):
                    if clock.stopped:
                        raise TimeUp(clock.timeout_message)
                    if case.request.progress is not None:
                        stage = f"training shadow models on {size:,} rows"
                        case.request.progress(Progress(stage, j / len(inside)))
                    chosen = np.flatnonzero(member)
                    scores.append(refit.scores(some, labels, chosen, seed + 1 + j))
        except (TimeUp, KeyboardInterrupt):
            # Broken off, some libraries say that the user did it.
            if not clock.stopped:
                raise
            late = True
        except NotCovered:
            if not found.sizes:
                raise
            break
        # Two pairs or more say something; the last one may be cut in two.
        done = len(scores) // 2 * 2
        if done >= 4:
            found = _with(found, np.array(scores[:done]), people, inside[:done], rng)
        if late:
            break
    return found


def _with(
    found: _Trained,
    scores: FloatArray,
    people: IntArray,
    inside: BoolArray,
    rng: np.random.Generator,
) -> _Trained:
    """Add what models of one more size tell."""
    members, others = scores[:, : len(people)], scores[:, len(people) :]
    left_out = np.where(inside, 0.0, members).sum(axis=0) / (~inside).sum(axis=0)
    difficulty = np.concatenate([left_out, left_out_of(others, rng)])
    return _Trained((*found.sizes, scored(members, inside)), people, difficulty, len(scores))


def _stacked(members: Any, others: Any) -> Any:
    if isinstance(members, pd.DataFrame):
        names = list(members.columns)
        there = others if isinstance(others, pd.DataFrame) else pd.DataFrame(others, columns=names)
        return pd.concat([members, there[names]], ignore_index=True)
    return np.concatenate([np.asarray(members), np.asarray(others)])
