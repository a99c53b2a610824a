"""Membership by shadow models: models trained in the same way on halves of the training rows.

It needs no rebuilt rows and no control rows, only a model that can be trained again, so it decides
where an attack on the rows does not come to an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from treeleak.auditing.serialisable import Serialisable
from treeleak.core.arrays import FloatArray
from treeleak.core.clock import Progress
from treeleak.core.errors import NotCovered, TimeUp
from treeleak.core.message import MessageTemplate, static_message
from treeleak.core.private import dataclass
from treeleak.learn.refit import REASONS as REFIT_REASONS
from treeleak.learn.refit import Refit, refit_of
from treeleak.metrics.membership import Bounded
from treeleak.metrics.shadow_models import (
    ShadowScore,
    at_full_size,
    halves,
    scored,
)

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
_PAIRS, _PAIRS_OF_SMALL = 4, 2
"""Pairs of models of the greatest size, and of each smaller one."""
MATERIAL = 0.6
"""AUC from which on membership counts as disclosed: an adversary who is shown a training row and
another person's, as alike as any, picks the training row in six tries of ten, not in five."""
MOST_CLASSES = 50
"""Different labels up to which each class is halved by itself."""

TOO_FEW = MessageTemplate(
    "shadows_too_few",
    "shadow models need {fewest:number} training rows or more, not {rows:people}",
)
NO_LABELS = static_message(
    "shadow models need the labels of the training rows, one for each", "shadows_no_labels"
)
TOO_SLOW = static_message(
    "there was no time to train the model again on halves of the rows", "shadows_too_slow"
)
GIVEN = static_message("parts of the training rows were given", "shadows_given")
REASONS = (TOO_FEW, NO_LABELS, TOO_SLOW, GIVEN, *REFIT_REASONS)


@dataclass(frozen=True)
class Shadows(Serialisable):
    """Whether models trained like this one tell who was among their training rows.

    Attributes
    ----------
    trained : str
        Class that was trained again.
    sizes : tuple of ShadowScore
        By the number of training rows.
    auc : Bounded or None
        Of the model itself, as far as smaller ones say: how often a member scores above a person
        left out. None where the sizes that were reached do not say.
    """

    trained: str
    sizes: tuple[ShadowScore, ...]
    auc: Bounded | None


def assess(case: Case) -> Case:
    """Train shadow models, and attack them, as a part of an audit."""
    request = case.request
    refit = refit_of(case.live, case.content, case.release)
    X = case.provided[0] if refit.from_inputs else request.X
    y = case.provided[1] if refit.from_inputs else request.y
    if any(request.beside[name] is not None for name in ("known_rows", "known_columns")):
        return case.without("shadows", GIVEN)
    if y is None or np.ndim(y) != 1 or len(y) != len(X):
        return case.without("shadows", NO_LABELS)
    if len(X) < 2 * FEWEST:
        return case.without("shadows", TOO_FEW(fewest=2 * FEWEST, rows=len(X)))
    sizes = _of_sizes(case, refit, X, np.asarray(y))
    if not sizes:
        return case.without("shadows", TOO_SLOW)
    return case.plus(shadows=Shadows(refit.name, tuple(sizes), at_full_size(sizes, len(X))))


def _of_sizes(case: Case, refit: Refit, X: Any, y: Any) -> list[ShadowScore]:
    clock, seed = case.clock.part(case.seconds(SHARE)), case.request.seed
    rng = np.random.default_rng(seed)
    n = len(X)
    rows = [n // 2 >> k for k in range(_SIZES if n > _AT_ONCE else 1)][::-1]
    of_classes = len(np.unique(y.astype(str))) <= MOST_CLASSES
    found: list[ShadowScore] = []
    for k, size in enumerate(rows):
        pairs = _PAIRS if k == len(rows) - 1 else _PAIRS_OF_SMALL
        people, inside = halves(y.astype(str) if of_classes else np.zeros(n), size, pairs, rng)
        some, labels = _rows(X, people), y[people]
        scores: list[FloatArray] = []
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
        except TimeUp:
            # Two pairs or more say something; the last one may be cut in two.
            done = len(scores) // 2 * 2
            if done >= 4:
                found.append(scored(np.array(scores[:done]), inside[:done]))
            break
        except NotCovered:
            if not found:
                raise
            break
        found.append(scored(np.array(scores), inside))
    return found


def _rows(X: Any, people: Any) -> Any:
    return X.iloc[people] if hasattr(X, "iloc") else np.asarray(X)[people]
