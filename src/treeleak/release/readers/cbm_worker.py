"""Turn CatBoost's binary model into its JSON; run as a process of its own.

Arguments: FILE OUT. The file is opened by CatBoost's own code, which is not made for hostile files:
:mod:`.bounded` runs it, within bounds, and whatever goes wrong is one line.
"""

from __future__ import annotations

import sys


def main(path: str, out: str) -> None:
    """Read the model at ``path`` and write ``out``."""
    from catboost import CatBoost

    model = CatBoost()
    model.load_model(path, format="cbm")
    model.save_model(out, format="json")
    # What is longer than that holds bytes that CatBoost does not read.
    model.save_model(f"{out}.cbm", format="cbm")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except BaseException as error:
        # Whatever a hostile file provokes, the answer is one line.
        sys.exit(f"{type(error).__name__}: {error}".replace("\n", " ")[:300])
