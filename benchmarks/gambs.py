"""Gambs et al. (2012): what a decision tree on raw Adult records tells of them.

200 records, 14 raw attributes, each a domain of whole numbers or of categories as in the whole
table. Trees are trained on the first 1 to 200 of the records; the distance is that of the rebuilt
dataset, filled up with unknown rows, to all 200. Then two releases are merged: one on the first
records, one on all. The paper's trees are C4.5's, as WEKA's J48 (``--weka JAR`` needs Java);
without it, trees are scikit-learn's, which split on the gain of information as well, but cut the
codes of categories where C4.5 gives each a branch.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from sklearn.tree import DecisionTreeClassifier

from benchmarks.store import FOLDER, Record, Store, flat, seed_range
from benchmarks.tables import CONSOLE, new_table, verdict
from treeleak.datasets import load_adult
from treeleak.probabilistic import ProbabilisticDataset, from_tree
from treeleak.release import Release, read_j48
from treeleak.schema import Attribute, Categorical, Ordinal, Schema

mpl.use("Agg")
from matplotlib import pyplot as plt

N_ROWS = 200
TRAINED_ON = (1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130, 140, 150, 160, 170,
              180, 190, 200)  # fmt: skip
EARLIER = (50, 100, 150, 180, 190)
PUBLISHED_GAIN = "0.01 to 0.02"


@dataclass(frozen=True)
class Case:
    """One draw of the records."""

    seed: int
    learner: str
    n_rows: int = N_ROWS


def run(case: Case) -> Record:
    """Trees on more and more of the records, and each earlier one merged with the last."""
    schema, table, y = adult()
    chosen = np.random.default_rng(case.seed).permutation(len(table))[: case.n_rows]
    X, y = table.iloc[chosen].reset_index(drop=True), y.iloc[chosen].reset_index(drop=True)
    start = time.perf_counter()
    sizes = [n for n in TRAINED_ON if n <= case.n_rows]
    rebuilt = {n: _rebuilt(X[:n], y[:n], schema, case.learner) for n in sizes}
    last = rebuilt[sizes[-1]]
    alone = last.dist(X)
    merged: dict[str, dict[str, float]] = {"consistent": {}, "gambs": {}}
    for n in EARLIER:
        for alignment, gains in merged.items():
            if n in rebuilt:
                both = rebuilt[n].merge(last, alignment)  # type: ignore[arg-type]
                gains[str(n)] = alone - both.dist(X)
    return {
        "trained_on": sizes,
        "dist": [d.filled(case.n_rows).dist(X) for d in rebuilt.values()],
        "own": [d.dist() for d in rebuilt.values()],
        "joint": [d.dist_g() for d in rebuilt.values()],
        "worlds": [d.contains(X[:n], y[:n].tolist()) for n, d in rebuilt.items()],
        "gain": merged,
        "seconds": time.perf_counter() - start,
    }


@cache
def adult() -> tuple[Schema, pd.DataFrame, pd.Series[Any]]:
    """All records with categories as codes; domains as in the whole table."""
    data = load_adult()
    assert data.raw is not None
    attributes: list[Attribute] = []
    columns: dict[str, Any] = {}
    for name, values in data.raw.items():
        if pd.api.types.is_numeric_dtype(values):
            attributes.append(Ordinal(str(name), int(values.min()), int(values.max())))
            columns[str(name)] = values
        else:
            codes, labels = pd.factorize(values, sort=True)
            attributes.append(Categorical(str(name), labels=tuple(labels)))
            columns[str(name)] = codes
    return Schema(attributes), pd.DataFrame(columns), data.y


def _rebuilt(
    X: pd.DataFrame, y: pd.Series[Any], schema: Schema, learner: str
) -> ProbabilisticDataset:
    if learner == "J48":
        return from_tree(_j48(X, y, schema), schema)
    tree = DecisionTreeClassifier(criterion="entropy", random_state=0)
    return _with_classes(from_tree(tree.fit(X, y), schema))


def _j48(X: pd.DataFrame, y: pd.Series[Any], schema: Schema) -> Release:
    """Train C4.5, with WEKA's defaults, and read what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        arff = Path(folder) / "records.arff"
        arff.write_text(_arff(X, y, schema))
        command = ["java", "-cp", os.environ["WEKA"], "weka.classifiers.trees.J48"]
        done = subprocess.run([*command, "-t", arff, "-no-cv"], capture_output=True, check=True)
        return read_j48(done.stdout.decode(), arff)


def _arff(X: pd.DataFrame, y: pd.Series[Any], schema: Schema) -> str:
    lines = ["@relation adult"]
    columns = []
    for attribute in schema.attributes:
        values = X[attribute.name]
        if isinstance(attribute, Categorical) and attribute.labels is not None:
            quoted = [f"'{label}'" for label in attribute.labels]
            lines.append(f"@attribute {attribute.name} {{{','.join(quoted)}}}")
            columns.append([quoted[int(v)] for v in values])
        else:
            lines.append(f"@attribute {attribute.name} numeric")
            columns.append([str(v) for v in values])
    lines += ["@attribute income {0,1}", "@data"]
    columns.append([str(v) for v in y])
    return "\n".join([*lines, *map(",".join, zip(*columns, strict=True))]) + "\n"


def _with_classes(found: ProbabilisticDataset) -> ProbabilisticDataset:
    """Know both classes, also where the first records have one only."""
    if found.classes == (0, 1):
        return found
    counts = np.zeros((len(found.counts), 3), dtype=np.int64)
    for i, label in enumerate(found.classes):
        counts[:, int(label)] = found.counts[:, i]
    return replace(found, classes=(0, 1), counts=counts)


def draw(runs: pd.DataFrame, path: Path) -> Path:
    """Figure 1: distance against the number of records."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure, axis = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for (learner, own), colour in zip(runs.groupby("learner"), ("0.15", "C1"), strict=False):
        dist = np.array(own.dist.tolist())
        x = own.trained_on.iloc[0]
        axis.plot(x, dist.mean(axis=0), "o-", color=colour, markersize=3.5,
                  label=f"{learner}: mean of {len(own)} draws, and 5 to 95 %")  # fmt: skip
        axis.fill_between(x, *np.quantile(dist, [0.05, 0.95], axis=0), alpha=0.15, color=colour)
    axis.set(xlabel="records that the tree was trained on", ylabel="Dist to all 200 records",
             title="Trees on raw Adult records")  # fmt: skip
    axis.grid(alpha=0.25)
    axis.legend(frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def tables(runs: pd.DataFrame) -> None:
    for learner, own in runs.groupby("learner"):
        seeds = f"{learner}, seeds {own.seed.min()} to {own.seed.max()}"
        dist = np.array(own.dist.tolist())
        out = new_table(
            f"Dist to all {N_ROWS} records, {seeds}",
            "trained on, Dist, 5 %, 95 %, of its own rows, Dist_G of its own rows",
            "",
        )
        columns = zip(own.trained_on.iloc[0], dist.T, np.array(own.own.tolist()).T,
                      np.array(own.joint.tolist()).T, strict=True)  # fmt: skip
        for n, d, mine, joint in columns:
            ends = np.quantile(d, [0.05, 0.95])
            out.add_row(f"{n}", f"{d.mean():.4f}", f"{ends[0]:.4f}", f"{ends[1]:.4f}",
                        f"{mine.mean():.4f}", f"{joint.mean():.4f}")  # fmt: skip
        CONSOLE.print(out)
        falls = np.diff(dist.mean(axis=0)) <= 0
        CONSOLE.print(
            f"the mean distance never rises with more records: {verdict(bool(falls.all()))}; "
            f"the true records are always a world: {bool(np.all(own.worlds.tolist()))}"
        )
        out = new_table(
            f"merged with the tree on all {N_ROWS} records, {seeds}: how much the distance falls "
            f"(published: {PUBLISHED_GAIN})",
            "alignment, " + ", ".join(f"first {n}" for n in EARLIER),
            "alignment",
        )
        for alignment in ("gambs", "consistent"):
            gains = pd.DataFrame([g[alignment] for g in own.gain])
            out.add_row(alignment, *(f"{gains[str(n)].mean():+.4f}" for n in EARLIER))
        CONSOLE.print(out)


def cases(seeds: range, learners: list[str]) -> Iterator[Case]:
    for learner in learners:
        yield from (Case(s, learner) for s in seeds)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=seed_range, default=range(50), metavar="FIRST-LAST")
    options.add_argument("--fresh", action="store_true", help="repeat runs that are in the store")
    options.add_argument("--figures", type=Path, default=Path("figures"), metavar="FOLDER")
    options.add_argument("--weka", metavar="JAR", help="also train C4.5, with WEKA")
    chosen = options.parse_args()
    if chosen.weka:
        os.environ["WEKA"] = chosen.weka
    learners = ["scikit-learn", *(["J48"] if chosen.weka else [])]
    store = Store(FOLDER / "gambs.jsonl", fresh=chosen.fresh)
    records = store.collect(
        cases(chosen.seeds, learners), run, lambda c: replace(c, n_rows=20), apart=lambda _: False
    )
    runs = flat(records)
    tables(runs)
    for learner, own in runs.groupby("learner"):
        CONSOLE.print(f"{learner}: {own.seconds.median():.2f} s for one draw of records, median")
    CONSOLE.print(f"drawn: {draw(runs, chosen.figures / 'gambs_figure1.png')}")


if __name__ == "__main__":
    main()
