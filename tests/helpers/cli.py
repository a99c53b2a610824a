"""Commands as a user runs them, on files as a user keeps them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import skops.io
from typer.testing import CliRunner

from treeleak.cli import app
from treeleak.schema import Schema


def run(*arguments, **how):
    result = CliRunner().invoke(app, [str(a) for a in arguments], **how)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def keep(
    folder: Path, model: Any, X: pd.DataFrame, y: Any, schema: Schema | None, label: str = "label"
) -> Path:
    """Write a model, its training rows and a schema into a folder."""
    skops.io.dump(model, folder / "model.skops")
    X.assign(**{label: np.asarray(y)}).to_csv(folder / "train.csv", index=False)
    if schema is not None:
        (folder / "schema.toml").write_text(schema.to_toml(), encoding="utf-8")
    return folder / "model.skops"
