"""From raw columns to 0/1 columns: one recipe for each bundled table.

COMPAS and Adult get the columns of DRAFT's binarised tables, under the same names and in the
same order. Cut points are constants (the medians of the full tables, where a column is called
high), so that what becomes of a row does not depend on the rows beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from treeleak.core.private import dataclass
from treeleak.schema import Binary, OneHot, Schema

__all__ = [
    "ADULT",
    "COMPAS",
    "GERMAN_CREDIT",
    "Recipe",
    "binarise_adult",
    "binarise_compas",
    "binarise_german_credit",
]

Levels = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Recipe:
    """How one raw table becomes one that can be trained on, and whose it is.

    ``binarise`` turns raw columns into the columns of ``schema``, whole numbers 0 and 1.
    """

    name: str
    label: str
    binarise: Callable[[pd.DataFrame], pd.DataFrame]
    schema: Schema
    source: str
    licence: str


_EDUCATION: Levels = {
    "education_Assoc": ("Assoc-acdm", "Assoc-voc"),
    "education_Bachelors": ("Bachelors",),
    "education_HS-grad": ("HS-grad",),
    "education_Masters_Doctorate": ("Masters", "Doctorate"),
    "education_School_Prof-School": (
        *("Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th"),
        "Prof-school",
    ),
    "education_Some-college": ("Some-college",),
}
_OCCUPATION: Levels = {
    "occupation_Blue-Collar": (
        *("Craft-repair", "Farming-fishing", "Handlers-cleaners"),
        *("Machine-op-inspct", "Transport-moving"),
    ),
    "occupation_Professional": ("Prof-specialty",),
    "occupation_Sales": ("Sales",),
    "occupation_Service": ("Other-service", "Priv-house-serv", "Protective-serv", "Tech-support"),
    "occupation_White-Collar": ("Adm-clerical", "Exec-managerial"),
}
_WORKCLASS: Levels = {
    "workclass_Government": ("Federal-gov", "Local-gov", "State-gov"),
    "workclass_Private": ("Private",),
    "workclass_Self-Employed": ("Self-emp-inc", "Self-emp-not-inc"),
}

_CHECKING: Levels = {
    "checking:none": ("A14",),
    "checking:<0": ("A11",),
    "checking:0-199": ("A12",),
    "checking:>=200": ("A13",),
}
_HISTORY: Levels = {
    "history:all-paid": ("A30", "A31"),
    "history:paid-so-far": ("A32",),
    "history:delayed-or-critical": ("A33", "A34"),
}
_PURPOSE: Levels = {
    "purpose:car": ("A40", "A41"),
    "purpose:household": ("A42", "A43", "A44", "A45"),
    "purpose:other": ("A46", "A47", "A48", "A49", "A410"),
}
_HOUSING: Levels = {
    "housing:rent": ("A151",),
    "housing:own": ("A152",),
    "housing:free": ("A153",),
}


def _indicators(values: pd.Series, levels: Levels) -> dict[str, pd.Series]:
    return {column: values.isin(members) for column, members in levels.items()}


def _table(columns: Mapping[str, pd.Series]) -> pd.DataFrame:
    return pd.DataFrame(columns).astype("int64")


def binarise_compas(raw: pd.DataFrame) -> pd.DataFrame:
    """Turn ProPublica's columns into the 14 binary columns of DRAFT."""
    age, priors = raw["age"], raw["priors_count"]
    felonies, misdemeanors = raw["juv_fel_count"] > 0, raw["juv_misd_count"] > 0
    return _table(
        {
            "sex:Male": raw["sex"] == "Male",
            "age:18-20": age.between(18, 20),
            "age:21-22": age.between(21, 22),
            "age:23-25": age.between(23, 25),
            "age:26-45": age.between(26, 45),
            "age:>45": age > 45,
            "juvenile-felonies:>0": felonies,
            "juvenile-misdemeanors:>0": misdemeanors,
            "juvenile-crimes:>0": felonies | misdemeanors | (raw["juv_other_count"] > 0),
            "priors:2-3": priors.between(2, 3),
            "priors:=0": priors == 0,
            "priors:=1": priors == 1,
            "priors:>3": priors > 3,
            "current-charge-degree:Misdemeanor": raw["c_charge_degree"] == "M",
        }
    )


COMPAS = Recipe(
    name="compas",
    label="recidivate-within-two-years:1",
    binarise=binarise_compas,
    schema=Schema(
        [
            Binary("sex:Male"),
            OneHot("age", ("age:18-20", "age:21-22", "age:23-25", "age:26-45", "age:>45")),
            Binary("juvenile-felonies:>0"),
            Binary("juvenile-misdemeanors:>0"),
            Binary("juvenile-crimes:>0"),
            OneHot("priors", ("priors:2-3", "priors:=0", "priors:=1", "priors:>3")),
            Binary("current-charge-degree:Misdemeanor"),
        ]
    ),
    source="ProPublica, https://github.com/propublica/compas-analysis",
    licence="none stated; facts from public court records",
)


def binarise_adult(raw: pd.DataFrame) -> pd.DataFrame:
    """Turn UCI Adult's columns into the 19 binary columns of DRAFT."""
    return _table(
        {
            "age_high": raw["age"] >= 37,
            "capital_gain_>0": raw["capital_gain"] > 0,
            "capital_loss_>0": raw["capital_loss"] > 0,
            **_indicators(raw["education"], _EDUCATION),
            "gender_Female": raw["sex"] == "Female",
            "hours_per_week_high": raw["hours_per_week"] >= 40,
            **_indicators(raw["occupation"], _OCCUPATION),
            **_indicators(raw["workclass"], _WORKCLASS),
        }
    )


# Occupations and work classes that are unknown or rare have no column of their own.
ADULT = Recipe(
    name="adult",
    label="income",
    binarise=binarise_adult,
    schema=Schema(
        [
            Binary("age_high"),
            Binary("capital_gain_>0"),
            Binary("capital_loss_>0"),
            OneHot("education", tuple(_EDUCATION)),
            Binary("gender_Female"),
            Binary("hours_per_week_high"),
            OneHot("occupation", tuple(_OCCUPATION), at_most_one=True),
            OneHot("workclass", tuple(_WORKCLASS), at_most_one=True),
        ]
    ),
    source="Becker and Kohavi (1996), UCI, https://doi.org/10.24432/C5XW20",
    licence="CC BY 4.0",
)


def binarise_german_credit(raw: pd.DataFrame) -> pd.DataFrame:
    """Turn the German credit columns (UCI's codes) into 23 binary columns."""
    return _table(
        {
            **_indicators(raw["status"], _CHECKING),
            "duration_high": raw["duration"] >= 18,
            **_indicators(raw["credit_history"], _HISTORY),
            **_indicators(raw["purpose"], _PURPOSE),
            "amount_high": raw["credit_amount"] >= 2320,
            "savings:>=100": raw["savings"].isin(("A62", "A63", "A64")),
            "employed:>=4-years": raw["employment"].isin(("A74", "A75")),
            "sex:Female": raw["personal_status"].isin(("A92", "A95")),
            "guarantor-or-co-applicant": raw["other_debtors"].isin(("A102", "A103")),
            "real-estate": raw["property"] == "A121",
            "age_high": raw["age"] >= 33,
            "other-instalments": raw["other_installment_plans"].isin(("A141", "A142")),
            **_indicators(raw["housing"], _HOUSING),
            "skilled": raw["job"].isin(("A173", "A174")),
        }
    )


GERMAN_CREDIT = Recipe(
    name="german_credit",
    label="credit_bad",
    binarise=binarise_german_credit,
    schema=Schema(
        [
            OneHot("checking", tuple(_CHECKING)),
            Binary("duration_high"),
            OneHot("history", tuple(_HISTORY)),
            OneHot("purpose", tuple(_PURPOSE)),
            Binary("amount_high"),
            Binary("savings:>=100"),
            Binary("employed:>=4-years"),
            Binary("sex:Female"),
            Binary("guarantor-or-co-applicant"),
            Binary("real-estate"),
            Binary("age_high"),
            Binary("other-instalments"),
            OneHot("housing", tuple(_HOUSING)),
            Binary("skilled"),
        ]
    ),
    source="Hofmann (1994), UCI, https://doi.org/10.24432/C5NC77",
    licence="CC BY 4.0",
)
