"""What a model of XGBoost says beside its trees."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import Any

import numpy as np

from treeleak.core.arrays import FloatArray
from treeleak.core.errors import BadInput, BadModel, NotCovered
from treeleak.core.message import static_message
from treeleak.core.private import dataclass
from treeleak.release.adapters.boosted import count_in, numbers
from treeleak.release.bounds import MOST_CLASSES, MOST_COLUMNS
from treeleak.release.readers.xgboost_json import booster_from_bytes
from treeleak.release.stored import StoredObject

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
            p = [1 / (1 + exp(-min(max(x, -80.0), 80.0))) for x in scores]
            return tuple(x * (1 - x) for x in p)
        if self.objective in SOFTMAX:
            top = max(scores)
            shares = [exp(max(x - top, -80.0)) for x in scores]
            p = [x / sum(shares) for x in shares]
            return tuple(2 * x * (1 - x) for x in p)
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
