"""Words that an audit chooses from, as formats/audit.schema.json lists them."""

from __future__ import annotations

from typing import Literal

Edition = Literal["releasable", "internal"]
Part = Literal[
    "inventory", "counts", "noise", "reconstruction", "uncertainty", "membership"
]  # fmt: skip
State = Literal["met", "violated", "not assessed"]
Mark = Literal["leaks", "harmless", "not assessed"]
By = Literal["leaf", "answer", "cell"]
Knows = Literal["schema", "model", "people"]
Verdict = Literal[
    "leak shown",
    "possible leak",
    "no leak shown by these attacks (this is no proof of safety)",
    "not assessed",
]
