"""Tables that commands read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treeleak.core.errors import BadInput, BadSchema, Mismatch, NotCovered, TreeleakError, cause
from treeleak.core.private import dataclass
from treeleak.core.text import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

    from treeleak.release import Release, RuleList
    from treeleak.release.registry import ModelFile
    from treeleak.schema import Schema

SHOWN = 5
"""Columns that an error names."""


@dataclass(frozen=True)
class Tables:
    """Reads CSV files about a model."""

    model: Path
    schema: Schema | None
    label: str | None
    trust_pickle: bool

    def read(self, path: Path) -> pd.DataFrame:
        """Read a table; empty, NA, None and their like are missing, unless they are texts.

        In a column of which model or schema name such a text, it is that text.
        """
        import pandas as pd

        from treeleak.core.spreadsheets import unmarked

        try:
            table = pd.read_csv(path)
            whole = bool(table.notna().all(axis=None))
            written = table if whole else pd.read_csv(path, dtype=str, keep_default_na=False)
        except (OSError, ValueError) as error:
            raise BadInput(f"{path}: {_table_cause(error)}") from error
        _check_finite(path, table)
        table = unmarked(table)
        if not table.columns.is_unique:
            raise BadInput(f"{path}: the names of two columns differ only in an apostrophe")
        if whole:
            return table
        written.columns = table.columns
        for column, texts in self.texts.items():
            if column in table:
                lost = table[column].isna() & written[column].isin(texts)
                if lost.any():
                    table[column] = table[column].astype(object).mask(lost, written[column])
        return table

    @cached_property
    def model_file(self) -> ModelFile:
        """The file of the model, read once for all that needs it."""
        from treeleak.release.registry import ModelFile

        return ModelFile.read(self.model, self.trust_pickle)

    @cached_property
    def content(self) -> Release | RuleList:
        """The model."""
        from treeleak.release import RuleList, to_release

        content = self.model_file.content
        return content if isinstance(content, RuleList) else to_release(self.model_file)

    @property
    def texts(self) -> dict[str, set[str]]:
        """Texts that the model or the schema name, of each column and of the labels."""
        from treeleak.release import RuleList
        from treeleak.schema import Categorical

        content: Release | RuleList | None = None
        # Of a model that is not covered, the command itself says so.
        with suppress(NotCovered):
            content = self.content
        named: dict[str, set[str]] = {}
        if isinstance(content, RuleList):
            for condition in (c for rule in content.rules for c in rule.conditions):
                texts = [v for v in condition.values or () if isinstance(v, str)]
                named.setdefault(condition.column, set()).update(texts)
        elif content is not None:
            named = {column: set(texts) for column, texts in content.levels.items()}
            for reading in () if content.inputs is None else content.inputs.readings.values():
                texts = [v for v in getattr(reading, "values", ()) if isinstance(v, str)]
                named.setdefault(reading.source, set()).update(texts)
        for attribute in () if self.schema is None else self.schema.attributes:
            if isinstance(attribute, Categorical):
                named.setdefault(attribute.name, set()).update(attribute.labels or ())
        if self.label is not None and content is not None:
            classes = {c for c in content.classes if isinstance(c, str)}
            named.setdefault(self.label, set()).update(classes)
        return named

    @property
    def columns(self) -> tuple[str, ...]:
        """The model's columns, and those of the input of its pipeline."""
        from treeleak.release import RuleList

        content = self.content
        if isinstance(content, RuleList):
            return content.columns
        came_in = () if content.inputs is None else content.inputs.names
        return (*content.feature_names, *came_in)

    def check_name(self) -> None:
        """Refuse a label of the name of a column, before any work."""
        # Of a model that is not covered, the command itself says so.
        with suppress(NotCovered):
            if self.label is not None and self.label in self.columns:
                raise BadInput(
                    f"{self.model}: the model itself has a column {self.label!r}: name another "
                    "one for the labels (--label)"
                )

    def check(self, path: Path, rows: pd.DataFrame, labels: Any = None) -> None:
        """Refuse training rows of other columns or labels than the model's, before any work."""
        from treeleak.release import RuleList
        from treeleak.verification.columns import check_gaps, columns_by_name, in_model_columns

        try:
            content = self.content
            if isinstance(content, RuleList):
                columns_by_name(content.columns, rows, "training rows")
            else:
                known = labels if content.classes else None
                check_gaps(content, in_model_columns(content, rows, known)[0], self.schema)
        except NotCovered:
            return  # The command itself says so.
        except Mismatch as error:
            raise Mismatch(f"{path}: {error}") from error


def training_rows(
    tables: Tables, path: Path | None, others: Sequence[Path]
) -> tuple[pd.DataFrame | None, pd.Series[Any] | None]:
    """Read training rows and their labels."""
    label = tables.label
    if path is None:
        if label is not None and not others:
            raise BadInput("--label names a column of the training rows: give --train, too")
        return None, None
    table = tables.read(path)
    if label is None:
        return table, None
    check_label(path, table, label)
    return table.drop(columns=label), table[label]


def read_records(path: Path, tables: Tables) -> pd.DataFrame:
    """Read records in the model's columns, and find what is wrong with them before any work."""
    from treeleak.release import to_release
    from treeleak.release.check_schema import read_columns

    table = tables.read(path)
    if "membership" in table:
        raise BadInput(f"{path}: column 'membership' is there already")
    read_columns(to_release(tables.model_file), table, str(path))
    return table


def check_label(path: Path, table: pd.DataFrame, label: str) -> None:
    """Refuse a table without the column of the labels."""
    if label in table:
        return
    names = list(map(str, table.columns))
    # Names may hold commas themselves: then such a table has several columns.
    marks = [m for m in ";\t|" if any(label in n.split(m) for n in names if m in n)]
    if len(names) == 1:
        marks += [m for m in ";\t|" if m in names[0]]
    if mark := next(iter(marks), None):
        raise BadInput(f"{path}: its values are separated by {mark!r}: save the table with commas")
    few = ", ".join(map(repr, names[:SHOWN]))
    more = f" and {len(names) - SHOWN} more" * (len(names) > SHOWN)
    hint = did_you_mean(label, names) or f"; its columns are {few}{more}"
    raise BadInput(f"{path}: no column {label!r} for the labels (--label){hint}")


@dataclass(frozen=True)
class Beside:
    """Files with what is known beside the model."""

    known_rows: Path | None
    known_columns: Path | None
    population: Path | None

    @property
    def files(self) -> tuple[Path, ...]:
        """All that were given."""
        return tuple(path for path in self.by_name.values() if path is not None)

    @property
    def by_name(self) -> dict[str, Path | None]:
        """All that may be given, by what they are."""
        return {
            "known_rows": self.known_rows, "known_columns": self.known_columns,
            "population": self.population,
        }  # fmt: skip

    def read(self, tables: Tables) -> dict[str, Any]:
        """Read them, as :func:`treeleak.reconstruct` takes them."""
        arguments: dict[str, Any] = {}
        names, label = tables.columns if self.files else (), tables.label
        if self.known_rows is not None:
            table = tables.read(self.known_rows)
            if "row" in table and "row" not in names:
                table = table.set_index("row")
            if label is not None and tables.content.classes:
                check_label(self.known_rows, table, label)
            arguments["known_rows"] = table
        if self.known_columns is not None:
            arguments["known_columns"] = tables.read(self.known_columns)
        if self.population is not None:
            json = self.population.suffix.lower() == ".json"
            read = _marginals if json else tables.read
            arguments["population"] = read(self.population)
        for path, key in zip(self.files, arguments, strict=True):
            other = [c for c in arguments[key] if c not in names and c != label]
            if other and (label is not None or path.suffix.lower() == ".json"):
                raise BadInput(
                    f"{path}: column {other[0]!r} is neither one of the model's nor that of the "
                    f"labels, which --label names{did_you_mean(other[0], names)}"
                )
            # Attacks take labels of known rows, and no targets.
            if label in arguments[key] and label not in names and not tables.content.classes:
                arguments[key].pop(label)
        return arguments

    def named(self) -> AbstractContextManager[None]:
        """Let errors name the files."""
        names = {
            "known_rows": self.known_rows,
            "known_columns": self.known_columns,
            "the population's rows": self.population,
            "the population's shares": self.population,
        }
        return named({name: path for name, path in names.items() if path is not None})


@contextmanager
def named(files: Mapping[str, Path]) -> Iterator[None]:
    """Put a file's name in place of what Python calls its table."""
    try:
        yield
    except TreeleakError as error:
        text = str(error)
        for name, path in files.items():
            text = text.replace(name, str(path))
        raise type(error)(text) from error


@contextmanager
def schema_named(path: Path | None) -> Iterator[None]:
    """Put the schema's file before what does not fit the model."""
    try:
        yield
    except BadSchema as error:
        text = str(error)
        if path is None or text.startswith(str(path)):
            raise
        raise type(error)(f"{path}: {text}") from error


def _marginals(path: Path) -> Any:
    """Read column -> {value: share}; JSON writes values that are numbers as texts."""
    import json

    from treeleak.core.output import read_text
    from treeleak.schema import MOST_BYTES

    text = read_text(path, MOST_BYTES, BadInput)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: {cause(error)}") from error
    if not isinstance(found, dict):
        raise BadInput(f"{path}: holds no mapping of columns to shares")
    return {
        column: {_number(v): share for v, share in shares.items()}
        if isinstance(shares, dict)
        else shares
        for column, shares in found.items()
    }


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _table_cause(error: Exception) -> str:
    from pandas.errors import EmptyDataError, ParserError

    if isinstance(error, EmptyDataError):
        return "the file is empty: the first line names the columns, each other line is a row"
    if isinstance(error, ParserError):
        return (
            f"not a table: {' '.join(str(error).split())}. Each line needs as many values as the "
            "first has names, with commas between"
        )
    return cause(error)


def _check_finite(path: Path, table: pd.DataFrame) -> None:
    """Refuse infinite values: no model was trained on any, and no schema allows them."""
    import numpy as np

    numbers = table.select_dtypes("number")
    infinite = np.isinf(numbers.to_numpy(dtype=float))
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise BadInput(
            f"{path}: column {numbers.columns[column]!r} is infinite in row {row}: correct it, "
            "or leave it empty if it is not known"
        )
