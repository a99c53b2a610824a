"""What a model of XGBoost says beside its trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadInput, BadModel, NotCovered
from treeleak.core.message import static_message
from treeleak.core.private import dataclass
from treeleak.release.adapters.boosted import count_in, numbers
from treeleak.release.adapters.xgboost.gain_equations import settings_from_gains
from treeleak.release.bounds import MOST_CLASSES, MOST_COLUMNS, MOST_REAL
from treeleak.release.ensemble import Fitting
from treeleak.release.readers.xgboost_json import booster_from_bytes
from treeleak.release.statistics import HESSIAN, STEP, VALUE
from treeleak.release.stored import StoredObject
from treeleak.release.tree import Tree

LOGIT_LINK = ("binary:logistic", "reg:logistic")
LOGISTIC = (*LOGIT_LINK, "binary:logitraw")
SOFTMAX = ("multi:softprob", "multi:softmax")
LOG_LINK = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:aft", "survival:cox")
POISSON = "count:poisson"
SQUARED = ("reg:squarederror", "reg:linear")
EACH_ROW_ONE = (*SQUARED, "reg:absoluteerror", "reg:quantileerror")
"""Losses whose second derivative XGBoost takes to be 1."""

LINEAR = static_message(
    "an XGBoost model with booster gblinear is a linear model: it has no trees", "xgboost_linear"
)


@dataclass(frozen=True, eq=False)
class Model:
    """What a file says of a model as a whole."""

    version: str
    objective: str
    booster: Mapping[str, Any]
    learner: Mapping[str, Any]
    config: Mapping[str, Any]
    weight_drop: FloatArray | None
    n_columns: int
    num_class: int
    num_target: int
    base: FloatArray

    @classmethod
    def of(cls, stored: StoredObject) -> Model:
        """Check what is beside the trees."""
        if "handle" in stored.state:
            handle = stored.get("handle")
            if not isinstance(handle, bytes):
                raise BadInput("this Booster is not fitted")
            stored = booster_from_bytes(handle)
        root, config = stored.state, {}
        if isinstance(root.get("Model"), Mapping):
            config, root = root.get("Config", {}), root["Model"]
        learner = object_in(root, "learner")
        booster = object_in(learner, "gradient_booster")
        weights, kind = None, str(booster.get("name", "gbtree"))
        if kind == "gblinear":
            raise NotCovered(LINEAR)
        if kind not in ("gbtree", "dart"):
            raise NotCovered(f"an XGBoost model with booster {kind!r:.40}")
        if kind == "dart" and "weight_drop" in booster:
            weights = numbers(booster, "weight_drop", None, "gradient_booster")
        model = object_in(object_in(booster, "gbtree") if "gbtree" in booster else booster, "model")
        # From 3.4 on, they stand beside the trees.
        if np.size(model.get("weight_drop", ())):
            weights = numbers(model, "weight_drop", None, "the model")
        if kind == "dart" and weights is None:
            raise BadModel("the model does not say how its trees are weighted (weight_drop)")
        param = object_in(learner, "learner_model_param")
        columns = count_in(param, "num_feature", MOST_COLUMNS)
        objective = object_in(learner, "objective").get("name")
        if not isinstance(objective, str):
            raise BadModel("the model does not name its objective")
        num_class = count_in(param, "num_class", MOST_CLASSES)
        num_target = count_in(param, "num_target", MOST_CLASSES, "1")
        version = root.get("version")
        version_text = "of unknown version"
        if isinstance(version, np.ndarray) and version.dtype.kind in "iu":
            version_text = ".".join(map(str, version.ravel()[:3]))
        return cls(
            version=version_text,
            objective=objective,
            booster=model,
            learner=learner,
            config=config if isinstance(config, Mapping) else {},
            weight_drop=weights,
            n_columns=columns,
            num_class=num_class,
            num_target=num_target,
            base=base_score(param, max(num_class, num_target, 1)),
        )

    @property
    def n_outputs(self) -> int:
        """Sums of trees that a prediction is made of."""
        return len(self.base)

    @property
    def base_scores(self) -> tuple[float, ...]:
        """The outputs before the first tree."""
        base = self.base.astype(np.float32)
        # In single precision up to the logarithm, which is rounded once.
        with np.errstate(all="ignore"):
            if self.objective in LOGIT_LINK:
                base = -np.log((np.float32(1) / base - np.float32(1)).astype(float))
            elif self.objective in LOG_LINK:
                base = np.log(base.astype(float))
        return tuple(float(x) for x in base.astype(np.float32))

    @property
    def starts_at_mean(self) -> bool:
        """Whether the score before the first tree of squares was worked out, and not given."""
        param, major = self.learner["learner_model_param"], self.version.split(".")[0]
        return param.get("boost_from_average") == "1" and major.isdigit() and int(major) >= 2

    @property
    def scaled(self) -> bool:
        """Whether rows of one class were weighted."""
        return self.class_weight != 1

    @property
    def class_weight(self) -> float | None:
        """How much more rows of the class 1 count."""
        loss = self.learner["objective"].get("reg_loss_param")
        return number_of(loss.get("scale_pos_weight", "1")) if isinstance(loss, Mapping) else 1.0

    def trained_with(self, name: str) -> float | None:
        """Find a parameter of the training, where the model holds them."""
        return number_of(found_in(self.config, name))

    @property
    def first_hessians(self) -> tuple[float, ...] | None:
        """What each row counts in the first trees of each output; None where rows differ."""
        if self.scaled:
            return None
        scores = self.base_scores
        if self.objective in LOGISTIC:
            p = expit(scores)
            return tuple((p * (1 - p)).tolist())
        if self.objective in SOFTMAX:
            p = softmax(scores)
            return tuple((2 * p * (1 - p)).tolist())
        if self.objective == POISSON:
            # A step of Newton's method that is held back: exp(score + max_delta_step).
            param = self.learner["objective"].get("poisson_regression_param")
            held = param if isinstance(param, Mapping) else {}
            back = number_of(held.get("max_delta_step", "0.7"))
            if back is None:
                return None
            return tuple(exp(min(max(x + back, -80.0), 80.0)) for x in scores)
        return (1.0,) * self.n_outputs if self.objective in EACH_ROW_ONE else None


def object_in(data: Mapping[str, Any], key: str, where: str = "the model") -> Mapping[str, Any]:
    """Take an object that must be there."""
    value = data.get(key)
    if not isinstance(value, Mapping):
        raise BadModel(f"{where}: no {key}")
    return value


def number_of(text: Any) -> float | None:
    """Read a number that stands there as a text; None for anything else."""
    try:
        number = float(text) if isinstance(text, str) and len(text) < 40 else np.nan
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def found_in(data: Any, name: str, depth: int = 0) -> Any:
    """Find a parameter; where it stands differs between versions."""
    if not isinstance(data, Mapping) or depth > 8:
        return None
    if isinstance(data.get(name), str):
        return data[name]
    for key, item in data.items():
        inner = item[0] if key == "updater" and isinstance(item, list) and item else item
        if (value := found_in(inner, name, depth + 1)) is not None:
            return value
    return None


def base_score(param: Mapping[str, Any], n_outputs: int) -> FloatArray:
    """Read one number for all outputs, or one for each."""
    text = param.get("base_score")
    if not isinstance(text, str) or len(text) > 40 * MOST_CLASSES:
        raise BadModel("the model has no base_score")
    parts = [number_of(part.strip()) for part in text.strip().strip("[]").split(",")]
    known = [part for part in parts if part is not None]
    if len(known) != len(parts) or len(parts) not in (1, n_outputs):
        raise BadModel(f"base_score is {text!r:.40}, there are {n_outputs} outputs")
    return np.array(known * (n_outputs if len(parts) == 1 else 1))


ETA, LAMBDA = 0.3, 1.0
"""XGBoost's defaults."""
_FITS = 1e-4
"""Share of their parts by which equations may be off."""
_PRECISE, _AS_WELL = 1e-6, 4.0
"""Share by which single precision puts equations off, and how much further off numbers of few
digits may put them, to be taken for those that were found."""
_DIGITS = 4
_SURE = 1e-4
"""Share by which the rate may be open, to be told."""
_ALIKE = 1e-4
"""Share up to which what alpha does may differ from what rate and l2 do."""
_REFINED = 10
"""Steps by which least squares are refined."""


def fitting_of(
    model: Model, trees: Sequence[Tree], rounds: IntArray
) -> tuple[Fitting | None, float | None]:
    """Say how leaves were fitted, and give the learning rate; None where it cannot be said.

    Of the logistic loss or squares with one output, or of several classes, a tree for each in each
    round. Penalties, weights of a class and several trees in a round: of the logistic loss.
    """
    rate, l2 = model.trained_with("eta"), model.trained_with("reg_lambda")
    n_outputs, in_round = len(model.base_scores), np.bincount(rounds)
    # All trees of a round share the rate.
    parallel = max(int(in_round.max(initial=0)) // n_outputs, 1)
    rate = rate and rate / parallel
    logistic = model.objective in LOGISTIC and n_outputs == 1
    softmax = model.objective in SOFTMAX and n_outputs > 1
    squared = model.objective in SQUARED and n_outputs == 1
    in_turn = [t % n_outputs for t in range(len(trees))] == [tree.output or 0 for tree in trees]
    dropped = model.weight_drop is not None and (model.weight_drop != 1.0).any()
    if not (logistic or softmax or squared) or dropped:
        return None, rate
    if not in_turn or len(set(in_round.tolist())) > 1 or len(trees) % n_outputs:
        return None, rate
    weight = model.class_weight
    if not trees or weight is None or not 0 < weight <= MOST_REAL:
        return None, rate
    bent = Fitting(
        "logistic", 0.0 if l2 is None else max(l2, 0.0),
        l1=max(model.trained_with("reg_alpha") or 0.0, 0.0),
        longest=max(model.trained_with("max_delta_step") or 0.0, 0.0),
        class_weights=() if weight == 1 else (1.0, weight), parallel=parallel,
        margins="float32", derivatives="float32",
    )  # fmt: skip
    if not bent.plain and not logistic:
        return None, rate
    parts = [equations(tree, bent, rate) for tree in trees]
    equation = np.concatenate([array for array, _ in parts])
    size = np.concatenate([array for _, array in parts])
    found = _solved(equation, size)
    settings = (rate, l2) if rate and l2 is not None else found
    # A model that was loaded and stored again holds defaults, not what it was trained with.
    if settings is None or not _sure(equation, size, *settings):
        settings = found
    # Without any sums of hessians, what nodes gain tells rate and l2, or nothing does.
    bare = bent.plain and not any(tree.statistics.get(HESSIAN) for tree in trees)
    if settings is None and bare and not squared:
        settings = settings_from_gains(trees)
    assumed = settings is None and not squared and bare
    if assumed:
        settings = rate or ETA, LAMBDA if l2 is None else l2
    if settings is None:
        return None, rate
    fitting = replace(bent, l2=settings[1], assumed=assumed)
    if squared:
        # The first tree can show that rows had scores of their own.
        sums = (trees[0].statistics.get(q) for q in (STEP, HESSIAN))
        shown = model.starts_at_mean and None not in sums
        fitting = replace(fitting, loss="squared", targets="float32", offsets_shown=shown)
    if softmax:
        # XGBoost counts 2 p (1 - p) for each class; sums were seen to be off by 8 times as much.
        fitting = replace(fitting, loss="softmax", curvature=2.0, rough=30.0)
    return fitting, settings[0]


def one_start(model: Model, tree: Tree, fitting: Fitting) -> bool:
    """Whether, as far as a file shows, no row had a score of its own to start from.

    Squares start from the mean, which XGBoost works out from version 2 on unless it is given, and
    of which the root of the first tree has nothing to add.
    """
    step, hessian = (tree.statistics.get(q) for q in (STEP, HESSIAN))
    if fitting.loss != "squared" or not fitting.offsets_shown or step is None or hessian is None:
        return True
    leaves, weight = tree.leaves, hessian.values + fitting.l2
    spread = float(np.abs(step.values * weight)[leaves].sum())
    rounded = float(weight[0]) * abs(model.base_scores[0])
    return abs(float(step.values[0] * weight[0])) <= _FITS * spread + _PRECISE * rounded


def equations(
    tree: Tree, fitting: Fitting, rate: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """Give an equation for each inner node: what goes with 1, l2, 1 / rate, l2 / rate and alpha.

    The second array holds how large its parts are. A node of no value may owe that to any alpha:
    what goes with it is then NaN. What alpha and a limit of steps are known to change is in the
    first number, and equations are left out where that is open.
    """
    value, step, hessian = (tree.statistics.get(q) for q in (VALUE, STEP, HESSIAN))
    v = np.flatnonzero(~tree.is_leaf)
    if value is None or step is None or hessian is None or not len(v):
        return np.zeros((0, 5)), np.zeros(0)
    w, H = step.values, hessian.values
    out = np.zeros((len(v), 5))
    out[:, 0], out[:, 1], out[:, 4] = -w[v] * H[v], -w[v], -_sign(w[v])
    size = np.abs(w[v]) * (H[v] + 1.0)
    for child in (tree.left[v], tree.right[v]):
        leaf = tree.is_leaf[child]
        weight = np.where(leaf, value.values[child], w[child])
        out[:, 0] += np.where(leaf, 0.0, weight * H[child])
        out[:, 1] += np.where(leaf, 0.0, weight)
        out[:, 2] += np.where(leaf, weight * H[child], 0.0)
        out[:, 3] += np.where(leaf, weight, 0.0)
        out[:, 4] += _sign(weight)
        size += np.abs(np.where(leaf, w[child], weight)) * (H[child] + 1.0)
    if fitting.plain:
        return out, size
    pulled = fitting.pulled(np.where(tree.is_leaf, value.values / (rate or 1.0), w))
    out[:, 0] += pulled[tree.left[v]] + pulled[tree.right[v]] - pulled[v]
    sure = ~np.isnan(out[:, 0])
    return out[sure], size[sure]


def _sign(number: FloatArray) -> FloatArray:
    return np.where(number == 0.0, np.nan, np.sign(number))


def _solved(equation: FloatArray, size: FloatArray) -> tuple[float, float] | None:
    """Find rate and l2 by least squares, as numbers of few digits where these fit.

    None where others would do as well.
    """
    equation, alpha = equation[:, :4], equation[:, 4:]
    weight = 1.0 / np.maximum(size, 1e-6)
    if len(equation) < 3:
        return None
    x, *_ = np.linalg.lstsq(equation[:, 1:] * weight[:, None], -equation[:, 0] * weight, rcond=None)
    l2, inverse = float(x[0]), float(x[1])
    for _ in range(_REFINED):
        # The third number is the product of the others, which fewer equations pin down.
        if not max(abs(l2), abs(inverse)) <= MOST_REAL:
            return None
        bend = equation @ np.array([[0, 0], [1, 0], [0, 1], [inverse, l2]])
        off = equation @ np.array([1.0, l2, inverse, l2 * inverse])
        step, *_ = np.linalg.lstsq(bend * weight[:, None], -off * weight, rcond=None)
        l2, inverse = l2 + float(step[0]), inverse + float(step[1])
    if not 1.0 / MOST_REAL < inverse <= MOST_REAL:
        return None
    rate, l2 = 1.0 / inverse, max(l2, 0.0)
    if _open(bend * weight[:, None], alpha * weight[:, None], rate):
        return None
    short, least = float(f"{rate:.{_DIGITS - 1}g}"), round(l2, _DIGITS - 1)
    most = max(_AS_WELL * _off(equation, size, rate, l2), _PRECISE)
    found = (short, least), (short, l2), (rate, least), (rate, l2)
    rate, l2 = next(
        (candidate for candidate in found if _off(equation, size, *candidate) <= most), found[-1]
    )
    return (rate, l2) if _sure(equation, size, rate, l2) else None


def _open(bend: FloatArray, alpha: FloatArray, rate: float) -> bool:
    """Whether another rate would do: by what single precision leaves open, or by another alpha.

    ``bend`` and ``alpha``: what changes if l2, 1 / rate and alpha do.
    """
    if rate * np.linalg.norm(np.linalg.pinv(bend)[1]) * _PRECISE > _SURE:
        return True
    finite_rows = np.isfinite(alpha).all(axis=1)
    bend, alpha = bend[finite_rows], alpha[finite_rows]
    # In this order: the other way takes a table of all equations by all equations.
    left = alpha - bend @ (np.linalg.pinv(bend) @ alpha)
    return bool((np.abs(left) <= _ALIKE * np.abs(alpha)).all(axis=0).any())


def _sure(equation: FloatArray, size: FloatArray, rate: float, l2: float) -> bool:
    """Whether all equations hold, and would not with a quite different rate or l2."""
    tried = (rate, l2), (2.0 * rate, l2), (rate, 2.0 * l2 + 1.0)
    return [_off(equation, size, *one) <= _FITS for one in tried] == [True, False, False]


def _off(equation: FloatArray, size: FloatArray, rate: float, l2: float) -> float:
    """Say by what share of their parts equations are off at most."""
    off = equation[:, :4] @ np.array([1.0, l2, 1.0 / rate, l2 / rate])
    return float((np.abs(off) / np.maximum(size, 1e-3)).max(initial=0.0))
