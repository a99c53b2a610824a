"""What LightGBM's text files hold beside what predictions need.

A tree predicts by its columns, thresholds, children, kinds of tests, categories and the values of
its leaves. LightGBM asks for no other line of a tree; of each column it asks for a word on its
values, and takes "none".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from treeleak.core.errors import BadModel
from treeleak.core.output import read_text
from treeleak.core.private import dataclass
from treeleak.hardening.files.document import NOTHING, Step
from treeleak.release.bounds import MOST_JSON_BYTES
from treeleak.release.readers.lightgbm_text import (
    BLANK,
    END,
    IMPORTANCES,
    booster_from_text,
    odd_lines,
)

_SEEDS = r"[a-z_]*seed"


@dataclass(frozen=True, eq=False)
class Text:
    """The lines of a file."""

    head: tuple[str, ...]
    trees: tuple[tuple[str, ...], ...]
    tail: tuple[str, ...]
    """From the end of the trees on."""

    @classmethod
    def read(cls, path: Path) -> Text:
        """Read a file.

        Raises
        ------
        BadModel
        """
        text = read_text(path, MOST_JSON_BYTES)
        try:
            booster_from_text(text)
        except BadModel as error:
            raise BadModel(f"{path}: {error}") from error
        return cls.of(text.split("\n"))

    @classmethod
    def of(cls, lines: list[str]) -> Text:
        """Part the lines of a file."""
        begins = [i for i, line in enumerate(lines) if line.startswith("Tree=")]
        # Versions 2.0 and 2.1 go on with the importance of columns.
        end = next(i for i, line in enumerate(lines) if line in (END, *IMPORTANCES))
        bounds = [*(i for i in begins if i < end), end]
        blocks = pairwise(bounds)
        return cls(
            tuple(lines[: bounds[0]]), tuple(tuple(lines[a:b]) for a, b in blocks),
            tuple(lines[end:]),
        )  # fmt: skip

    def to_bytes(self) -> bytes:
        """Write the file, with the sizes of the trees in its head."""
        sizes = [BLANK + sum(len(x.encode()) + 1 for x in tree if x) for tree in self.trees]
        tree_sizes = f"tree_sizes={' '.join(map(str, sizes))}"
        head = [tree_sizes if line.startswith("tree_sizes=") else line for line in self.head]
        lines = [*head, *(line for tree in self.trees for line in tree), *self.tail]
        return "\n".join(lines).encode()


def _changing(
    head: Callable[[str], str | None] | None = None,
    tree: Callable[[str], str | None] | None = None,
    tail: Callable[[tuple[str, ...]], tuple[str, ...]] | None = None,
) -> Callable[[Text], Text]:
    """Make a change of lines: each becomes another, or goes."""

    def change(text: Text) -> Text:
        new = replace(
            text,
            head=_lines(text.head, head),
            trees=tuple(_lines(lines, tree) for lines in text.trees),
            tail=text.tail if tail is None else tail(text.tail),
        )
        same = (new.head, new.trees, new.tail) == (text.head, text.trees, text.tail)
        return text if same else new

    return change


def _lines(lines: tuple[str, ...], change: Callable[[str], str | None] | None) -> tuple[str, ...]:
    if change is None:
        return lines
    changed = (change(line) for line in lines)
    return tuple(line for line in changed if line is not None)


def _without(*keys: str) -> Callable[[str], str | None]:
    return lambda line: None if line.partition("=")[0] in keys else line


def _no_ranges(line: str) -> str:
    key, _, value = line.partition("=")
    return line if key != "feature_infos" else f"{key}={' '.join('none' for _ in value.split())}"


def _section(lines: tuple[str, ...], begin: str, end: str) -> tuple[int, int]:
    """Find a section: where it begins, and where behind it something else does."""
    if begin not in lines:
        return 0, 0
    start = lines.index(begin)
    return start, next((i + 1 for i in range(start, len(lines)) if lines[i] == end), len(lines))


def _no_importances(lines: tuple[str, ...]) -> tuple[str, ...]:
    if END not in lines:
        # In versions 2.0 and 2.1 what goes marks the end.
        lines = (END, "", *lines)
    for begin in IMPORTANCES:
        start, stop = _section(lines, begin, "")
        lines = lines[:start] + lines[stop:]
    return lines


def _no_seeds(lines: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(line for line in lines if not re.match(rf"\[{_SEEDS}:", line))


def _no_parameters(lines: tuple[str, ...]) -> tuple[str, ...]:
    start, stop = _section(lines, "parameters:", "end of parameters")
    return lines[:start] + lines[stop:]


def _known_lines(text: Text) -> Text:
    """Keep what LightGBM writes; write anew what it writes otherwise."""
    lines = text.to_bytes().decode().split("\n")
    odd = {one.number: one.anew for one in odd_lines(lines)}
    if not odd:
        return text
    known = (odd.get(number, line) for number, line in enumerate(lines))
    return Text.of([line for line in known if line is not None])


STEPS: tuple[Step, ...] = (
    Step("counts", "numbers of rows in each node", "SHAP values (pred_contrib)",
         _changing(tree=_without("leaf_count", "internal_count"))),
    Step("hessians", "sums of hessians in each node", "fitting leaves anew (refit)",
         _changing(tree=_without("leaf_weight", "internal_weight"))),
    Step("gains", "gain of each split, and the importance of columns", "importance by gain",
         _changing(tree=_without("split_gain"), tail=_no_importances)),
    Step("inner", "values of inner nodes", "pictures of trees show them empty",
         _changing(tree=_without("internal_value"))),
    Step("ranges", "smallest and largest value, or the categories, of each column",
         "checks of other programs against them", _changing(head=_no_ranges)),
    Step("seeds", "seeds of the training", "training the same model again",
         _changing(tail=_no_seeds)),
    Step("parameters", "all other parameters of the training", "training on from this model",
         _changing(tail=_no_parameters)),
    Step("unknown", "lines that no rule knows", NOTHING, _known_lines),
)  # fmt: skip
