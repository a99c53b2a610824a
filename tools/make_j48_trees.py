"""Write small tables of invented people as ARFF, and the J48 trees that WEKA grows on them.

    python tools/make_j48_trees.py /usr/share/java/weka.jar tests/models/j48

The trees in tests/models/j48 are those of WEKA 3.6.14.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

# Name of a text: table, options of J48.
TREES = {
    "loans": ("loans", ""),
    "loans_unpruned": ("loans", "-U -M 1"),
    "loans_binary": ("loans", "-B -U -M 1"),
    "loans_held_back": ("loans", "-R"),
    "loans_one_leaf": ("loans", "-M 40"),
    "quoted": ("quoted", "-U -M 1"),
    "three": ("three", "-M 4"),
    "pure": ("pure", "-U -M 1"),
    "missing": ("missing", ""),
}
JOBS = ("clerk", "nurse", "driver", "none")
QUOTED = {
    "never, married": "'never, married'",
    "so: it's (2.0)": '"so: it\'s (2.0)"',
    "a <= b": "'a <= b'",
}


def loans(random: random.Random) -> Sequence[str]:
    """Nominal and numeric columns, two classes, some labels wrong."""
    job, age = random.choice(JOBS), random.randint(18, 70)
    income = round(random.uniform(500, 6000) / 7, 7)
    good = income > 300 if job in ("clerk", "nurse") else age > 40
    good ^= random.random() < 0.1
    return job, str(age), f"{income:.7f}", random.choice("ab"), "good" if good else "bad"


def quoted(random: random.Random) -> Sequence[str]:
    """Names, values and labels with blanks, quotes, and what looks like a test or a leaf."""
    status, income = random.choice(list(QUOTED)), random.randint(-9, 9)
    yes = income > 0 if status == "a <= b" else status == "never, married"
    return QUOTED[status], str(income), "yes" if yes else "'no: (1.0)'"


def three(random: random.Random) -> Sequence[str]:
    """Three classes."""
    size, weight = random.choice(("S", "M", "L")), random.randint(1, 30)
    return size, str(weight), "low" if weight < 10 else "high" if size == "L" else "mid"


def missing(random: random.Random) -> Sequence[str]:
    """Missing values."""
    job, age, _, _, label = loans(random)
    return "?" if random.random() < 0.2 else job, age, label


def noisy_three(random: random.Random) -> Sequence[str]:
    """Three classes, some labels by chance."""
    size, weight, label = three(random)
    return size, weight, random.choice(("low", "mid", "high")) if random.random() < 0.2 else label


TABLES: dict[str, tuple[Callable[[random.Random], Sequence[str]], str]] = {
    "loans": (
        loans,
        "@attribute job {clerk, nurse, driver, none}\n@attribute age integer\n"
        "@attribute income real\n@attribute town {a, b}\n@attribute loan {good, bad}\n",
    ),
    "quoted": (
        quoted,
        "% Names that look like tests.\n"
        f"@attribute 'status = now' {{{', '.join(QUOTED.values())}, other}}\n"
        "@attribute \"income <= 'k'\" numeric\n@ATTRIBUTE 'the class' {'no: (1.0)', yes}\n",
    ),
    "three": (
        noisy_three,
        "@attribute size {S, M, L}\n@attribute weight numeric\n@attribute price {low, mid, high}\n",
    ),
    "pure": (
        three,
        "@attribute size {S, M, L}\n@attribute weight numeric\n@attribute price {low, mid, high}\n",
    ),
    "missing": (
        missing,
        "@attribute job {clerk, nurse, driver, none}\n@attribute age integer\n"
        "@attribute loan {good, bad}\n",
    ),
}


def main(weka: str, folder: Path) -> None:
    """Write the tables, then the trees."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (row, attributes) in TABLES.items():
        chance = random.Random(name)
        rows = "".join(",".join(row(chance)) + "\n" for _ in range(60))
        text = f"@relation {name}\n\n{attributes}\n@data\n{rows}"
        (folder / f"{name}.arff").write_text(text, encoding="utf-8")
    for name, (table, options) in TREES.items():
        done = subprocess.run(  # noqa: S603
            ["java", "-cp", weka, "weka.classifiers.trees.J48", "-no-cv",  # noqa: S607
             "-t", str(folder / f"{table}.arff"), *options.split()],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        timed = ("Time taken",)
        lines = [line for line in done.stdout.splitlines() if not line.startswith(timed)]
        (folder / f"{name}.txt").write_text("\n".join(lines).strip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
