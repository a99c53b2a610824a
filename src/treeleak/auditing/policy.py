"""A policy: what a model must meet to be released."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from treeleak.auditing.assessors.counts import THRESHOLD
from treeleak.auditing.limits import LIMITS
from treeleak.core.errors import BadInput, cause
from treeleak.core.private import dataclass
from treeleak.core.text_files import read_text
from treeleak.release.checked_json import is_finite
from treeleak.schema import MOST_BYTES


@dataclass(frozen=True)
class Policy:
    """What a model must meet to be released.

    Attributes
    ----------
    name : str
    threshold : int
        A leaf or a group with fewer rows is small: groups are then not shown in a releasable
        report.
    limits : mapping of str to float
        What is bounded (:data:`LIMITS`), and by how much.
    allow_possible_leak : bool
        Whether a model may pass whose verdict is "possible leak".
    """

    name: str
    limits: Mapping[str, float]
    threshold: int = THRESHOLD
    allow_possible_leak: bool = False

    def __post_init__(self) -> None:
        """Check what a file may have said.

        Raises
        ------
        BadInput
            Naming the key.
        """
        if not isinstance(self.name, str) or not self.name.strip():
            raise BadInput("name: the policy needs one")
        if type(self.threshold) is not int or self.threshold < 1:
            raise BadInput(f"threshold: must be a whole number from 1 on, not {self.threshold!r}")
        if type(self.allow_possible_leak) is not bool:
            raise BadInput(
                f"allow_possible_leak: must be true or false, not {self.allow_possible_leak!r}"
            )
        if not isinstance(self.limits, Mapping) or not self.limits:
            raise BadInput(f"limits: none, so nothing would be checked; known: {', '.join(LIMITS)}")
        for key, bound in self.limits.items():
            if key not in LIMITS:
                near = difflib.get_close_matches(key, LIMITS, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(LIMITS)}"
                raise BadInput(f"limits: nothing is called {key!r}; {hint}")
            if LIMITS[key].kind == "flag":
                if bound is not False:
                    raise BadInput(f"limits.{key}: must be false, not {bound!r:.40}")
            elif not is_finite(bound) or bound < 0:
                raise BadInput(f"limits.{key}: must be a number from 0 on, not {bound!r:.40}")
            elif LIMITS[key].kind == "share" and bound > 1:
                raise BadInput(f"limits.{key}: a share is 1 at most, not {bound!r:.40}")
        object.__setattr__(self, "limits", MappingProxyType(dict(self.limits)))


def read_policy(path: str | os.PathLike[str]) -> Policy:
    """Read a policy file (TOML): ``name``, ``threshold`` and the table ``limits``.

    Raises
    ------
    BadInput
        Naming the file and the key.
    """
    text = read_text(path, MOST_BYTES, BadInput)
    try:
        document = tomllib.loads(text)
        if other := set(document) - {"name", "threshold", "limits", "allow_possible_leak"}:
            raise BadInput(
                f"nothing is called {min(other)!r}; known: name, threshold, allow_possible_leak, "
                "the table limits"
            )
        return Policy(
            document.get("name", Path(path).stem),
            document.get("limits", {}),
            document.get("threshold", THRESHOLD),
            document.get("allow_possible_leak", False),
        )
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: no TOML: {cause(error)}") from error
