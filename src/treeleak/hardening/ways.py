"""Other ways to train a model of the same kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from treeleak.core.errors import NotCovered
from treeleak.core.private import dataclass
from treeleak.release import StoredObject, read_model, snapshot
from treeleak.schema import Schema

LEAVES = (5, 10, 20)
FEWER_TREES, SHALLOW = 10, 4
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)

_KINDS = {
    "DecisionTreeClassifier": "sklearn.tree",
    "ExtraTreeClassifier": "sklearn.tree",
    "RandomForestClassifier": "sklearn.ensemble",
    "ExtraTreesClassifier": "sklearn.ensemble",
}
_PLAIN = (bool, int, float, str)


@dataclass(frozen=True)
class Way:
    """A way to train: in words, what is set, and what makes the model."""

    what: str
    settings: Mapping[str, Any]
    make: Callable[[], Any]
    epsilon: float | None = None


def settings_of(model: Any, trust_pickle: bool) -> tuple[type, dict[str, Any]]:
    """Find the class and the plain settings of the trees in a model; nothing of it is run."""
    import importlib

    stored = model if isinstance(model, StoredObject) else None
    if stored is None and hasattr(model, "get_params"):
        stored = snapshot(model)
    if stored is None:
        content = read_model(model, trust_pickle)
        if not isinstance(content, StoredObject):
            raise NotCovered("training again needs a model of scikit-learn, not a release file")
        stored = content
    found = _inner(stored, 0)
    if found is None:
        raise NotCovered(f"training a {stored.name} again; known: {', '.join(_KINDS)}")
    kind = getattr(importlib.import_module(_KINDS[found.name]), found.name)
    names = set(kind().get_params())
    plain = {
        name: value
        for name, value in found.state.items()
        if name in names and (value is None or isinstance(value, _PLAIN))
    }
    return kind, plain


def _inner(stored: StoredObject, depth: int) -> StoredObject | None:
    """The model inside others: the last step of a pipeline, what was calibrated or searched."""
    if stored.name in _KINDS and stored.type.startswith("sklearn."):
        return stored
    if depth > 5:
        return None
    inside: list[Any] = [stored.get(n) for n in ("best_estimator_", "estimator_", "estimator")]
    inside += [step for _, step in stored.get("steps", ()) or ()][-1:]
    found = (_inner(s, depth + 1) for s in inside if isinstance(s, StoredObject))
    return next((f for f in found if f is not None), None)


def ways_of(kind: type, settings: Mapping[str, Any], seed: int) -> Iterator[Way]:
    """List ways to train: as it is, with larger leaves, with fewer or shallower trees."""

    def way(what: str, **changed: Any) -> Way:
        all_ = {**settings, **changed}
        return Way(what, changed, lambda: kind(**(all_ | {"random_state": seed})))

    yield way("as it is")
    leaf_size = settings.get("min_samples_leaf", 1)
    larger = [n for n in LEAVES if not isinstance(leaf_size, int) or n > leaf_size]
    for n in larger:
        yield way(f"at least {n} rows in a leaf", min_samples_leaf=n)
    depth = settings.get("max_depth")
    if depth is None or depth > SHALLOW:
        yield way(f"at most {SHALLOW} tests on a path", max_depth=SHALLOW)
    trees = settings.get("n_estimators")
    if isinstance(trees, int) and trees > FEWER_TREES:
        yield way(f"{FEWER_TREES} trees", n_estimators=FEWER_TREES)
        if larger:
            leaf = LEAVES[1] if LEAVES[1] in larger else larger[0]
            what = f"{FEWER_TREES} trees, at least {leaf} rows in a leaf"
            yield way(what, n_estimators=FEWER_TREES, min_samples_leaf=leaf)


def private_ways(schema: Schema, classes: list[Any], seed: int) -> Iterator[Way]:
    """List ways to train with differential privacy."""
    from treeleak.learn import DPForestClassifier

    def make(epsilon: float) -> Callable[[], Any]:
        return lambda: DPForestClassifier(
            epsilon=epsilon, schema=schema, classes=classes, random_state=seed
        )

    for epsilon in EPSILONS:
        what = f"differential privacy, epsilon {epsilon:g}"
        yield Way(what, {"epsilon": epsilon}, make(epsilon), epsilon)
