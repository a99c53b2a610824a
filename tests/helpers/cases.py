"""Random releases with what they were made from."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.evidence import HiddenDraws, KnownDraws, evidence_for
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex
from treeleak.release.release import Release
from treeleak.schema import Schema
from treeleak.side_information.side_information import KnownParts
from treeleak.verification.counts import check_rows

from .brute_force import equations_of, ordered_datasets
from .grids import FEW, all_points, cuts_for, shuffled, some_rows
from .releases import (
    bare_release,
    bootstrap_draws,
    counted,
    drawn,
    drawn_alone,
    random_tree,
    rows_at,
    tampered,
)


def some_parts(
    values: ValueIndex, n_rows: int, rng: np.random.Generator, n_groups: int = 3
) -> KnownParts:
    """Groups of rows; in all but the first, some attributes are known, or some atoms excluded."""
    allowed = np.ones((n_groups, values.n_atoms), dtype=bool)
    start = values.atom_start
    for g, a in itertools.product(range(1, n_groups), range(len(start) - 1)):
        n = start[a + 1] - start[a]
        keep = rng.choice(n, rng.integers(1, n + 1), replace=False)
        allowed[g, start[a] : start[a + 1]] = np.isin(np.arange(n), keep)
    return KnownParts(rng.permutation(np.arange(n_rows) % n_groups), allowed)


class Stated:
    """A constraints of one kind, and the release that it was made of."""

    def __init__(self, schema: Schema, seed: int, kind: str, n_rows: int = 0) -> None:
        rng = np.random.default_rng(seed)
        bare = bare_release(schema, rng, int(rng.integers(1, 5)), depth=4)
        geometry = Geometry.of(bare, schema)
        n, n_classes = n_rows or int(rng.integers(1, 9)), int(rng.integers(1, 4))
        atoms = rng.integers(geometry.radix, size=(n, len(geometry.radix)))
        X, y = rows_at(geometry, atoms), rng.integers(n_classes, size=n)
        self.b = None
        how = (bare.trees, bare.feature_names, X, y, n_classes)
        if kind in ("draws", "distinct"):
            self.b = bootstrap_draws(len(bare.trees), n, rng)
            release = drawn(*how, self.b, float_type=bare.float_type)
        else:
            weights = rng.random(n_classes)[y] + 0.1 if kind == "weights" else None
            release = counted(
                *how, counts_are=kind, float_type=bare.float_type, weights=weights
            )  # fmt: skip
        self.schema, self.kind, self.n_classes = schema, kind, n_classes
        self.truth = np.column_stack([atoms, y]).astype(np.int32)
        self.count(release)

    def count(self, release: Release) -> None:
        """State what a release of the same trees counts."""
        if self.b is not None:
            release = drawn_alone(release, self.kind == "distinct")
        self.release, self.geometry = release, Geometry.of(release, self.schema)
        if self.b is None:
            self.evidence = evidence_for(release)(self.geometry)
            self.constraints = RowConstraints.of_exact(self.evidence, self.geometry)
        else:
            self.evidence = KnownDraws(self.geometry, self.b)
            label = self.truth[:, -1].astype(np.int64)
            open_label = np.full(len(label), self.n_classes > 1)
            self.constraints = RowConstraints.of_known(
                self.evidence, self.geometry, label, open_label, None
            )

    def misfit(self, atoms: np.ndarray, label: np.ndarray) -> float:
        """Counts that rows of atoms miss."""
        return self.missed(rows_at(self.geometry, atoms), label.astype(np.int64))

    def missed(self, X: np.ndarray, y: np.ndarray) -> float:
        """Counts that rows miss, by walking the trees; rows of classes that a leaf has not, too."""
        check = check_rows(self.release, X, y, self.b)
        wrong = 0
        if self.kind == "weights":
            for tree in self.release.trees:
                leaf = tree.apply(X.astype(self.release.float_type))
                wrong += int(((tree.counts[leaf, y] <= 0) & (tree.totals[leaf] > 0)).sum())
        return check.misfit + wrong


@dataclass(frozen=True)
class Drawn:
    """A release behind known draws, and the rows from which it was made."""

    release: Release
    schema: Schema
    b: np.ndarray
    X: np.ndarray
    y: np.ndarray
    tampered: bool

    @property
    def seen(self) -> np.ndarray:
        """Rows that some tree drew."""
        return self.b.any(axis=0)

    def known(self, distinct: bool) -> KnownDraws:
        """Evidence of the draws."""
        release = drawn_alone(self.release, distinct)
        return KnownDraws(Geometry.of(release, self.schema), self.b)

    def hidden(self, distinct: bool = True, n_rows: int | None = None) -> HiddenDraws:
        """Evidence of somebody who does not know what each tree drew."""
        geometry = Geometry.of(drawn_alone(self.release, distinct), self.schema)
        return HiddenDraws(geometry, n_rows or len(self.X))

    def worlds(self, distinct: bool, most: int = 1000) -> list[np.ndarray] | None:
        """Every table of the rows that some tree drew; None if there are more than ``most``."""
        seen = self.b[:, self.seen]
        return ordered_datasets(self.release, self.schema, seen, distinct=distinct, most=most)

    def arrangements(self, distinct: bool) -> list[np.ndarray] | None:
        """The same in :meth:`places`, which tell apart only what some tree does."""
        points = all_points(self.schema, self.release.feature_names)
        _, first = np.unique(equations_of(self.release, points), axis=0, return_index=True)
        found = ordered_datasets(
            self.release, self.schema, self.b[:, self.seen], distinct=distinct, most=1000,
            points=points[first],
        )  # fmt: skip
        return None if found is None else [self.places(table) for table in found]

    def places(self, table: np.ndarray) -> np.ndarray:
        """Rows of A and class of each row of a table that ends in the class."""
        return np.column_stack(
            [equations_of(self.release, table[:, :-1]), table[:, -1].astype(int)]
        )


def some_drawn(
    seed: int, *, n_rows: int | None = None, n_trees: int | None = None, tamper: bool = True
) -> Drawn:
    """A few random trees over a few rows that they drew; some counts are moved afterwards."""
    rng = np.random.default_rng(seed)
    schema = FEW[rng.integers(len(FEW))]
    names = shuffled(schema.columns, rng)
    n_rows = int(rng.integers(1, 8)) if n_rows is None else n_rows
    n_classes = int(rng.integers(1, 4))
    X, y = some_rows(schema, names, n_rows, rng), rng.integers(n_classes, size=n_rows)
    if rng.random() < 0.3:  # few different rows
        again = rng.integers(1 + n_rows // 2, size=n_rows)
        X, y = X[again], y[again]
    cuts, depth = cuts_for(schema, names), int(rng.integers(1, 5))
    n_trees = int(rng.integers(1, 5)) if n_trees is None else n_trees
    trees = [random_tree(rng, cuts, depth) for _ in range(n_trees)]
    n_draws = n_rows if rng.random() < 0.6 else int(rng.integers(1, n_rows + 1))
    b = bootstrap_draws(len(trees), n_rows, rng, n_draws)
    release = drawn(trees, names, X, y, n_classes, b)
    wrong = tamper and rng.random() < 0.3
    return Drawn(tampered(release, rng) if wrong else release, schema, b, X, y, wrong)
