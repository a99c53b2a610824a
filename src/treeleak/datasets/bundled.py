"""The tables that travel with the package; ``data/LICENCES.md`` says whose they are.

``tools/build_datasets.py`` made the files, from the raw tables as published.

From raw columns to 0/1 columns: one recipe for each bundled table.

COMPAS and Adult get the columns of DRAFT's binarised tables, under the same names and in the
same order. Cut points are constants (the medians of the full tables, where a column is called
high), so that what becomes of a row does not depend on the rows beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import resources

import pandas as pd

from treeleak.core.private import dataclass
from treeleak.schema import Attribute, Binary, OneHot, Schema


def load_compas() -> Dataset:
    """Load ProPublica's COMPAS table: 7,214 rows, 14 binary columns.

    Returns
    -------
    Dataset
        The label says whether a person was charged again within two years. ``raw`` holds seven
        modelling columns, in shuffled order; nothing that names a person or a case.
    """
    return _load(COMPAS)


def load_adult() -> Dataset:
    """Load UCI Adult: 48,842 rows (the published parts joined), 19 binary columns.

    Returns
    -------
    Dataset
        The label says whether the income exceeds 50,000 dollars. ``raw`` holds all 14
        attributes; ``?`` marks an unknown value, as in the published file.
    """
    return _load(ADULT)


def load_german_credit() -> Dataset:
    """Load UCI German credit: 1,000 rows, 23 binary columns.

    Returns
    -------
    Dataset
        The label is 1 for a bad risk. ``raw`` holds all 20 attributes, in UCI's codes.
    """
    return _load(GERMAN_CREDIT)


def _load(recipe: Recipe) -> Dataset:
    file = resources.files(__package__).joinpath("data", f"{recipe.name}.csv.xz")
    with file.open("rb") as stream:
        raw = pd.read_csv(stream, compression="xz", keep_default_na=False)
    y = raw.pop(recipe.label)
    X = recipe.binarise(raw)
    return Dataset(recipe.name, X, y, recipe.schema, recipe.source, recipe.licence, raw)


Test = Callable[[pd.DataFrame], "pd.Series[bool]"]
"""Says for each raw row whether a column is 1."""


@dataclass(frozen=True)
class Recipe:
    """How one raw table becomes one that can be trained on, and whose it is."""

    name: str
    label: str
    source: str
    licence: str
    parts: tuple[tuple[Attribute, tuple[Test, ...]], ...]
    """Attributes, and the test behind each of their columns, in the order of the columns."""

    @cached_property
    def schema(self) -> Schema:
        """What a row of the table can be."""
        return Schema([attribute for attribute, _ in self.parts])

    def binarise(self, raw: pd.DataFrame) -> pd.DataFrame:
        """Turn raw columns into the columns of the schema, whole numbers 0 and 1."""
        tests = (test for _, tests_of_part in self.parts for test in tests_of_part)
        columns = dict(zip(self.schema.columns, tests, strict=True))
        return pd.DataFrame({c: test(raw) for c, test in columns.items()}).astype("int64")


def _binary(name: str, test: Test) -> tuple[Attribute, tuple[Test, ...]]:
    return Binary(name), (test,)


def _group(
    name: str, tests: Mapping[str, Test], at_most_one: bool = False
) -> tuple[Attribute, tuple[Test, ...]]:
    return OneHot(name, tuple(tests), at_most_one), tuple(tests.values())


def _is(column: str, *values: str) -> Test:
    return lambda raw: raw[column].isin(values)


def _between(column: str, low: int, high: int) -> Test:
    return lambda raw: raw[column].between(low, high)


def _from(column: str, low: int) -> Test:
    return lambda raw: raw[column] >= low


COMPAS = Recipe(
    name="compas",
    label="recidivate-within-two-years:1",
    source="ProPublica, https://github.com/propublica/compas-analysis",
    licence="none stated; facts from public court records",
    parts=(
        _binary("sex:Male", _is("sex", "Male")),
        _group(
            "age",
            {
                "age:18-20": _between("age", 18, 20),
                "age:21-22": _between("age", 21, 22),
                "age:23-25": _between("age", 23, 25),
                "age:26-45": _between("age", 26, 45),
                "age:>45": _from("age", 46),
            },
        ),
        _binary("juvenile-felonies:>0", _from("juv_fel_count", 1)),
        _binary("juvenile-misdemeanors:>0", _from("juv_misd_count", 1)),
        _binary(
            "juvenile-crimes:>0",
            lambda raw: (raw[["juv_fel_count", "juv_misd_count", "juv_other_count"]] > 0).any(
                axis=1
            ),
        ),
        _group(
            "priors",
            {
                "priors:2-3": _between("priors_count", 2, 3),
                "priors:=0": _between("priors_count", 0, 0),
                "priors:=1": _between("priors_count", 1, 1),
                "priors:>3": _from("priors_count", 4),
            },
        ),
        _binary("current-charge-degree:Misdemeanor", _is("c_charge_degree", "M")),
    ),
)

ADULT = Recipe(
    name="adult",
    label="income",
    source="Becker and Kohavi (1996), UCI, https://doi.org/10.24432/C5XW20",
    licence="CC BY 4.0",
    parts=(
        _binary("age_high", _from("age", 37)),
        _binary("capital_gain_>0", _from("capital_gain", 1)),
        _binary("capital_loss_>0", _from("capital_loss", 1)),
        _group(
            "education",
            {
                "education_Assoc": _is("education", "Assoc-acdm", "Assoc-voc"),
                "education_Bachelors": _is("education", "Bachelors"),
                "education_HS-grad": _is("education", "HS-grad"),
                "education_Masters_Doctorate": _is("education", "Masters", "Doctorate"),
                "education_School_Prof-School": _is(
                    *("education", "Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th"),
                    *("11th", "12th", "Prof-school"),
                ),
                "education_Some-college": _is("education", "Some-college"),
            },
        ),
        _binary("gender_Female", _is("sex", "Female")),
        _binary("hours_per_week_high", _from("hours_per_week", 40)),
        # Occupations and work classes that are unknown or rare have no column of their own.
        _group(
            "occupation",
            {
                "occupation_Blue-Collar": _is(
                    *("occupation", "Craft-repair", "Farming-fishing", "Handlers-cleaners"),
                    *("Machine-op-inspct", "Transport-moving"),
                ),
                "occupation_Professional": _is("occupation", "Prof-specialty"),
                "occupation_Sales": _is("occupation", "Sales"),
                "occupation_Service": _is(
                    *("occupation", "Other-service", "Priv-house-serv", "Protective-serv"),
                    "Tech-support",
                ),
                "occupation_White-Collar": _is("occupation", "Adm-clerical", "Exec-managerial"),
            },
            at_most_one=True,
        ),
        _group(
            "workclass",
            {
                "workclass_Government": _is("workclass", "Federal-gov", "Local-gov", "State-gov"),
                "workclass_Private": _is("workclass", "Private"),
                "workclass_Self-Employed": _is("workclass", "Self-emp-inc", "Self-emp-not-inc"),
            },
            at_most_one=True,
        ),
    ),
)

GERMAN_CREDIT = Recipe(
    name="german_credit",
    label="credit_bad",
    source="Hofmann (1994), UCI, https://doi.org/10.24432/C5NC77",
    licence="CC BY 4.0",
    parts=(
        _group(
            "checking",
            {
                "checking:none": _is("status", "A14"),
                "checking:<0": _is("status", "A11"),
                "checking:0-199": _is("status", "A12"),
                "checking:>=200": _is("status", "A13"),
            },
        ),
        _binary("duration_high", _from("duration", 18)),
        _group(
            "history",
            {
                "history:all-paid": _is("credit_history", "A30", "A31"),
                "history:paid-so-far": _is("credit_history", "A32"),
                "history:delayed-or-critical": _is("credit_history", "A33", "A34"),
            },
        ),
        _group(
            "purpose",
            {
                "purpose:car": _is("purpose", "A40", "A41"),
                "purpose:household": _is("purpose", "A42", "A43", "A44", "A45"),
                "purpose:other": _is("purpose", "A46", "A47", "A48", "A49", "A410"),
            },
        ),
        _binary("amount_high", _from("credit_amount", 2320)),
        _binary("savings:>=100", _is("savings", "A62", "A63", "A64")),
        _binary("employed:>=4-years", _is("employment", "A74", "A75")),
        _binary("sex:Female", _is("personal_status", "A92", "A95")),
        _binary("guarantor-or-co-applicant", _is("other_debtors", "A102", "A103")),
        _binary("real-estate", _is("property", "A121")),
        _binary("age_high", _from("age", 33)),
        _binary("other-instalments", _is("other_installment_plans", "A141", "A142")),
        _group(
            "housing",
            {
                "housing:rent": _is("housing", "A151"),
                "housing:own": _is("housing", "A152"),
                "housing:free": _is("housing", "A153"),
            },
        ),
        _binary("skilled", _is("job", "A173", "A174")),
    ),
)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table to train on, with all that an auditor may want to know about it.

    Parameters
    ----------
    name : str
        Short name of the table.
    X : DataFrame
        Features, whole numbers.
    y : Series
        Labels, 0 or 1; row k belongs to row k of ``X``.
    schema : Schema
        What a row of ``X`` can be.
    source : str
        Where the table was published.
    licence : str
        Under which terms.
    raw : DataFrame or None
        The columns from which ``X`` was made, row by row, where they are known.
    """

    name: str
    X: pd.DataFrame
    y: pd.Series
    schema: Schema
    source: str
    licence: str
    raw: pd.DataFrame | None = None
