"""Tables that come with scikit-learn, each column 1 above its median."""

from __future__ import annotations

from sklearn.datasets import load_iris, load_wine

from experiments.draft_tables import load_draft
from treeleak.datasets.bundled import Dataset
from treeleak.schema import Binary, Schema

BINNED = {"iris": load_iris, "wine": load_wine}


def table(name: str) -> Dataset:
    """One of these tables, or one of the DRAFT papers.

    Raises BadInput if that table is not there.
    """
    if name not in BINNED:
        return load_draft(name)
    # Such names as iris has, with brackets, not every library takes.
    X, y = BINNED[name](return_X_y=True, as_frame=True)
    X.columns = [f"column_{k}" for k in range(X.shape[1])]
    above = X.gt(X.median()).astype(int)
    schema = Schema([Binary(c) for c in above.columns])
    return Dataset(name, above, y, schema, "scikit-learn", "CC BY 4.0")
