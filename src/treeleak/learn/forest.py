"""A differentially private forest: random trees, noisy counts in their leaves.

Noise for counts, drawn from any source of random bits.

The discrete Laplace law is drawn exactly, with whole numbers only (Canonne, Kamath and Steinke
2020): a sampler on floats leaves gaps in its values from which the count behind them can be read,
so that no epsilon holds.
"""

from __future__ import annotations

import math
import secrets
import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from numbers import Integral, Real
from random import Random
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadInput, PrivacyWarning
from treeleak.learn.random_trees import columns_of, random_tree
from treeleak.release.noise.laws import DiscreteLaplace, Laplace
from treeleak.release.tree import Tree
from treeleak.schema import Schema


def discrete_laplace(epsilon: Fraction, source: Random) -> int:
    """Draw Y with P(Y = y) proportional to e^(-epsilon |y|), exactly.

    ``epsilon``: greater than 0. ``source``: ``secrets.SystemRandom()`` for noise that is to protect
    anybody.
    """
    s, t = epsilon.numerator, epsilon.denominator
    while True:
        # u + t v is geometric with ratio e^(-1 / t): its digits to the base t are independent.
        u = source.randrange(t)
        if not _bernoulli_exp(u, t, source):
            continue
        v = 0
        while _bernoulli_exp(1, 1, source):
            v += 1
        size = (u + t * v) // s
        negative = source.getrandbits(1)
        # Zero has but one sign.
        if size or not negative:
            return -size if negative else size


def _bernoulli_exp(p: int, q: int, source: Random) -> bool:
    """Say yes with probability e^(-p / q), for p <= q.

    The number of successes of probability (p / q) / k for k = 1, 2, ... before the first failure
    is even with just that probability: the series of the exponential function.
    """
    k = 1
    while source.randrange(q * k) < p:
        k += 1
    return k % 2 == 1


def truncated_laplace(epsilon: Fraction, source: Random) -> int:
    """Draw int(Y), Y ~ Lap(1 / epsilon): the noise of DRAFT-DP 2026, kept for comparison."""
    size = int(source.expovariate(float(epsilon)))
    return -size if source.getrandbits(1) else size


Mechanism = Literal["discrete-laplace", "draft-dp"]
Law = DiscreteLaplace | Laplace
Sampler = Callable[[Fraction, Random], int]

MAX_DEPTH = 20
# Of one tree. Less buries any table under noise that floats no longer hold exactly, more is none.
BUDGET_BETWEEN = (1e-6, 1e9)

_MECHANISMS: dict[str, tuple[Callable[[float], Law], Sampler]] = {
    "discrete-laplace": (DiscreteLaplace, discrete_laplace),
    "draft-dp": (lambda epsilon: Laplace(epsilon, "towards zero"), truncated_laplace),
}


class DPForestClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Random forest that is epsilon-differentially private.

    After Jagannathan, Pillaipakkamnatt and Wright (2012). The trees come from the schema and from
    chance. The rows enter once: each tree counts the rows of every class in its leaves, and noise
    is added to each of these counts, also where it is zero. Adding or removing one row changes one
    count of each tree by one, so a tree costs ``epsilon / n_estimators``, and all together
    ``epsilon``.

    Parameters
    ----------
    n_estimators : int, default 10
        Trees. More of them leave less budget to each.
    max_depth : int, default 5
        Tests on each path, up to 20; fewer only where nothing is left to test.
    epsilon : float or Fraction, default 1.0
        Privacy budget of the whole forest. Neighbours are two tables of which one has one row
        more than the other.
    schema : Schema
        What a row can be. It must not be made from the rows. Numeric columns need finite bounds.
    classes : sequence
        The labels that there can be, whether or not they occur.
    mechanism : {"discrete-laplace", "draft-dp"}
        ``discrete-laplace``: two-sided geometric noise, drawn exactly, from the operating system's
        secure source. ``draft-dp``: the noise of DRAFT-DP 2026, n + int(Y), which costs
        ``epsilon + n_estimators * ln 2``; for comparison only.
    random_state : int, RandomState or None, default None
        For experiments only: with a seed, trees and noise can be drawn again. Copies and files of
        the fitted forest itself do not hold it. The live object does (``get_params``, ``repr``),
        and so does what else was given it: a search keeps it in ``estimator``, in files, too.

    Attributes
    ----------
    classes_ : array
        Sorted.
    trees_ : list of Tree
        With noisy counts in their leaves; the only trace of the rows.
    noise_ : DiscreteLaplace or Laplace
        Law of the noise of one count.
    epsilon_spent_ : float
        What the forest really costs.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from treeleak import Binary, Ordinal, Schema
    >>> from treeleak.learn import DPForestClassifier
    >>> schema = Schema([Ordinal("age", 18, 100), Binary("smoker")])
    >>> X = np.array([[34, 0], [52, 1], [41, 0], [63, 1]] * 50)
    >>> y = np.array([0, 1, 0, 1] * 50)
    >>> forest = DPForestClassifier(epsilon=20.0, schema=schema, classes=[0, 1]).fit(X, y)
    >>> forest.epsilon_spent_
    20.0
    """

    def __init__(
        self,
        n_estimators: int = 10,
        max_depth: int = 5,
        epsilon: float | Fraction = 1.0,
        *,
        schema: Schema,
        classes: Sequence[Any],
        mechanism: Mechanism = "discrete-laplace",
        random_state: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.epsilon = epsilon
        self.schema = schema
        self.classes = classes
        self.mechanism = mechanism
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> DPForestClassifier:
        """Grow the trees, count the rows in their leaves, and add noise.

        Parameters
        ----------
        X : DataFrame or array, shape (n_rows, n_columns)
            A DataFrame's columns are found by name.
        y : sequence
            One of ``classes`` for each row.

        Raises
        ------
        BadInput
            If a row lies outside the schema, a label is none of the classes, or a parameter
            cannot be used.
        """
        n_trees = whole("n_estimators", self.n_estimators, 1)
        max_depth = whole("max_depth", self.max_depth, 1, MAX_DEPTH)
        epsilon = _fraction("epsilon", self.epsilon)
        if self.mechanism not in _MECHANISMS:
            raise BadInput(f"mechanism is {self.mechanism!r}, must be one of {list(_MECHANISMS)}")
        if not isinstance(self.schema, Schema) or not self.schema.columns:
            raise BadInput("schema must be a treeleak.Schema with at least one attribute")
        columns = columns_of(self.schema)
        classes = _classes(self.classes)
        rows = _rows(self.schema, X)
        label = _labels(classes, y, len(rows))

        make_law, draw = _MECHANISMS[self.mechanism]
        budget = epsilon / n_trees
        least, most = BUDGET_BETWEEN
        if not least <= budget <= most:
            raise BadInput(
                f"epsilon / n_estimators is {float(budget):g}, must be from {least:g} to {most:g}"
            )
        law = make_law(float(budget))
        source = self._source()
        trees = [random_tree(columns, max_depth, len(classes), source) for _ in range(n_trees)]
        for tree in trees:
            assert tree.counts is not None  # noqa: S101
            # Noise first: how long it takes to draw then tells nothing of the rows.
            for leaf in tree.leaves:
                tree.counts[leaf] = [draw(budget, source) for _ in classes]
            np.add.at(tree.counts, (tree.apply(rows), label), 1)

        self.classes_ = classes
        self.n_features_in_ = len(columns)
        self.feature_names_in_ = np.array(self.schema.columns, dtype=object)
        self.trees_ = trees
        self.noise_ = law
        self.epsilon_spent_ = float(epsilon) + n_trees * (law.loss - law.epsilon)
        if self.mechanism == "draft-dp":
            warnings.warn(
                f"the noise of DRAFT-DP costs {self.epsilon_spent_:g}, not epsilon = "
                f"{float(epsilon):g}: int() makes zero twice as likely as it should be. "
                'Use mechanism="discrete-laplace".',
                PrivacyWarning,
                stacklevel=2,
            )
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Mean over the trees of the shares of the classes in a row's leaf.

        A negative count counts as zero. A leaf without any count above zero votes for all classes
        alike.

        Parameters
        ----------
        X : DataFrame or array, shape (n_rows, n_columns)

        Returns
        -------
        array, shape (n_rows, n_classes)
        """
        check_is_fitted(self, "trees_")
        rows = _rows(self.schema, X)
        out: FloatArray = np.zeros((len(rows), len(self.classes_)))
        for tree in self.trees_:
            out += _shares(tree)[tree.apply(rows)]
        out /= len(self.trees_)
        return out

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the greatest share, for each row."""
        best = np.argmax(self.predict_proba(X), axis=1)
        found: NDArray[Any] = self.classes_[best]
        return found

    def __getstate__(self) -> dict[str, Any]:
        # With the seed, trees and noise can be drawn again: the counts would lie open.
        hidden = {"random_state": None} if hasattr(self, "trees_") else {}
        return {**super().__getstate__(), **hidden}

    def _source(self) -> Random:
        if self.random_state is None:
            return secrets.SystemRandom()
        warnings.warn(
            "random_state is for experiments: an adversary who guesses the seed can draw "
            "the noise again and subtract it, and the trees confirm the guess. Do not "
            "publish this forest, nor a search that made it: the search keeps the seed in "
            "its file.",
            PrivacyWarning,
            stacklevel=3,
        )
        return Random(check_random_state(self.random_state).bytes(32))


def _shares(tree: Tree) -> FloatArray:
    assert tree.counts is not None  # noqa: S101
    weight = np.maximum(tree.counts, 0.0)
    total = weight.sum(axis=1, keepdims=True)
    shares: FloatArray = np.full_like(weight, 1 / weight.shape[1])
    np.divide(weight, total, out=shares, where=total > 0)
    return shares


def _fraction(name: str, value: Any) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise BadInput(f"{name} must be a finite number, not {value!r}")
    if value <= 0:
        raise BadInput(f"{name} must be greater than 0, not {value!r}")
    if isinstance(value, Fraction):
        return value
    return Fraction(int(value) if isinstance(value, Integral) else float(value))


def _classes(classes: Any) -> NDArray[Any]:
    values = list(classes) if isinstance(classes, (Sequence, np.ndarray)) else []
    texts = all(isinstance(c, str) for c in values)
    numbers = all(isinstance(c, Real) for c in values)
    if isinstance(classes, str) or not values or not (texts or numbers):
        raise BadInput(f"classes must be a list of texts or a list of numbers, not {classes!r}")
    found = np.unique(np.array(values))
    if len(found) < 2 or len(found) != len(values):
        raise BadInput(f"classes must be two or more different labels, not {classes!r}")
    return found


def _labels(classes: NDArray[Any], y: Any, n_rows: int) -> IntArray:
    labels = label_list(y, n_rows).tolist()
    number = {label: i for i, label in enumerate(classes.tolist())}
    found = np.array([number.get(v, -1) for v in labels], dtype=np.int64)
    if (found < 0).any():
        row = int(found.argmin())
        raise BadInput(f"row {row} has a label that is not one of the classes {list(number)}")
    return found


def _rows(schema: Schema, X: Any) -> FloatArray:
    """Put rows in the schema's columns, and check that it allows them."""
    names = list(schema.columns)
    try:
        if isinstance(X, pd.DataFrame):
            table = in_order(X, names, "schema")
            values = table.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            values = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput("the table holds something other than numbers") from error
    if values.ndim != 2 or values.shape[1] != len(names):
        raise BadInput(f"a table of shape {values.shape} for a schema of {len(names)} columns")
    at = {c: i for i, c in enumerate(names)}
    for attribute in schema.attributes:
        block = values[:, [at[c] for c in attribute.columns]]
        _check_all(attribute.holds(block), f"{attribute.kind} {attribute.name!r} is outside")
    _check_all(schema.valid(values, names), "a rule is broken of")
    return values


def _check_all(allowed: BoolArray, what: str) -> None:
    if not allowed.all():
        raise BadInput(f"row {int(allowed.argmin())}: {what} the schema")


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Read a whole number between bounds."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise BadInput(f"{name} must be a whole number, not {value!r}")
    number = int(value)
    if number < least or (most is not None and number > most):
        bounds = f"at least {least}" if most is None else f"from {least} to {most}"
        raise BadInput(f"{name} must be {bounds}, not {value!r}")
    return number


def in_order(X: pd.DataFrame, names: Sequence[str], whose: str) -> pd.DataFrame:
    """Find the columns of a table by name; ``whose`` they should be is for the message."""
    table = X.set_axis([str(c) for c in X.columns], axis=1)
    if sorted(table.columns) != sorted(names):
        wrong = sorted(set(table.columns) ^ set(names)) or "a column appears twice"
        raise BadInput(f"the table's columns are not those of the {whose}: {wrong}")
    return table[list(names)]


def label_list(y: Any, n_rows: int) -> NDArray[Any]:
    """Read one label for each row."""
    labels = np.asarray(y)
    if labels.shape not in ((n_rows,), (n_rows, 1)):
        raise BadInput(f"y has shape {labels.shape} for {n_rows} rows")
    return labels.ravel()
