"""A policy: what a model must meet to be released."""

from __future__ import annotations

import datetime
import difflib
import os
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from treeleak.auditing.assessors.counts import THRESHOLD
from treeleak.auditing.inventory.vocabulary import KINDS, parts_of_family
from treeleak.auditing.limits import LIMITS
from treeleak.core.errors import BadInput, cause
from treeleak.core.output import read_text
from treeleak.core.private import dataclass
from treeleak.release.checked_json import is_finite
from treeleak.schema import MOST_BYTES

MOST_LETTERS = 500
"""Of a text that a policy states."""

OTHERS = "*"
"""In the table of bounds on sensitive columns: every other column that was called sensitive."""


@dataclass(frozen=True)
class Attacker:
    """Against whom a policy is meant to protect.

    Attributes
    ----------
    who, knowledge, access : str
        Who it is, what they know beside the model, and how they get at it; empty where the policy
        does not say.
    """

    who: str = ""
    knowledge: str = ""
    access: str = ""

    def __post_init__(self) -> None:
        """Check what a file may have said."""
        for name in _names(Attacker):
            _check_text(f"attacker.{name}", getattr(self, name))

    def __str__(self) -> str:
        parts = (self.who, self.knowledge and f"knows {self.knowledge}", self.access)
        return "; ".join(text for text in parts if text)


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
    inference_of : mapping of str to float
        Bounds on attribute inference of single sensitive columns, beside the limit ``inference`` on
        all of them.
    forbidden_parts : tuple of str
        Kinds of parts that may not be in the file: of
        :data:`~treeleak.auditing.inventory.vocabulary.KINDS`, or as the inventory names them.
    allow_possible_leak : bool
        Whether a model may pass whose verdict is "possible leak".
    attacker : Attacker
    recipient, purpose : str
        Who gets the model, and what for.
    review : date or None
        Until when a decision by this policy holds.
    """

    name: str
    limits: Mapping[str, float] = field(default_factory=dict)
    threshold: int = THRESHOLD
    allow_possible_leak: bool = False
    inference_of: Mapping[str, float] = field(default_factory=dict)
    forbidden_parts: tuple[str, ...] = ()
    attacker: Attacker = field(default_factory=Attacker)
    recipient: str = ""
    purpose: str = ""
    review: datetime.date | None = None

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
        if not isinstance(self.limits, Mapping) or not (
            self.limits or self.inference_of or self.forbidden_parts
        ):
            raise BadInput(
                f"limits: none, so the policy checks nothing; known: {', '.join(LIMITS)}"
            )
        for key, bound in self.limits.items():
            _check_limit(key, bound)
        for column, bound in self.inference_of.items():
            _check_bound(f"limits.inference.{column}", bound, "share")
        for text in ("recipient", "purpose"):
            _check_text(text, getattr(self, text))
        if self.review is not None and type(self.review) is not datetime.date:
            raise BadInput(f"review: must be a day, such as 2027-05-01, not {self.review!r:.40}")
        parts = self.forbidden_parts
        if isinstance(parts, str) or not isinstance(parts, Sequence):
            raise BadInput(f"limits.forbidden_parts: must be a list of kinds, not {parts!r:.40}")
        for kind in parts:
            if not isinstance(kind, str) or not parts_of_family(kind):
                known = (*KINDS, *sorted(parts_of_family()))
                raise BadInput(f"limits.forbidden_parts: {_unknown(kind, known, KINDS)}")
        object.__setattr__(self, "forbidden_parts", tuple(parts))
        object.__setattr__(self, "limits", MappingProxyType(dict(self.limits)))
        object.__setattr__(self, "inference_of", MappingProxyType(dict(self.inference_of)))

    @property
    def stated(self) -> dict[str, str]:
        """Attacker, recipient, purpose and date of review, as far as the policy states them."""
        day = "" if self.review is None else self.review.isoformat()
        texts = {
            "attacker": str(self.attacker), "recipient": self.recipient, "purpose": self.purpose,
            "review": day,
        }  # fmt: skip
        return {key: text for key, text in texts.items() if text}


def read_policy(path: str | os.PathLike[str]) -> Policy:
    """Read a policy file (TOML): ``name``, ``threshold`` and the table ``limits``.

    Raises
    ------
    BadInput
        Naming the file and the key.
    """
    text = read_text(path, MOST_BYTES, BadInput)
    try:
        return _policy(tomllib.loads(text), Path(path).stem)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: no TOML: {cause(error)}") from error


def _policy(document: dict[str, Any], stem: str) -> Policy:
    known = tuple(n for n in _names(Policy) if n not in ("inference_of", "forbidden_parts"))
    _check_keys(document, known)
    document.setdefault("name", stem)
    if isinstance(limits := document.get("limits"), dict):
        if isinstance(inference := limits.get("inference"), dict):
            of_all = {"inference": inference.pop(OTHERS)} if OTHERS in inference else {}
            document["inference_of"] = inference
            del limits["inference"]
            limits.update(of_all)
        if "forbidden_parts" in limits:
            document["forbidden_parts"] = limits.pop("forbidden_parts")
    if isinstance(attacker := document.get("attacker", {}), str):
        attacker = {"who": attacker}
    if not isinstance(attacker, dict):
        raise BadInput(f"attacker: must be a text or a table, not {attacker!r:.40}")
    _check_keys(attacker, _names(Attacker), "attacker: ")
    document["attacker"] = Attacker(**attacker)
    return Policy(**document)


def _names(of: type[Policy | Attacker]) -> tuple[str, ...]:
    return tuple(f.name for f in fields(of))


def _check_keys(document: Mapping[str, Any], known: Collection[str], where: str = "") -> None:
    if other := set(document) - set(known):
        raise BadInput(f"{where}{_unknown(min(other), known)}")


def _unknown(key: Any, known: Collection[str], named: Collection[str] = ()) -> str:
    """Say that nothing is called so, and what may be meant; ``named``: the known ones to list."""
    near = difflib.get_close_matches(str(key), known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(named or known)}"
    return f"nothing is called {key!r:.80}; {hint}"


def _check_limit(key: str, bound: Any) -> None:
    if key not in LIMITS:
        known = (*LIMITS, "forbidden_parts")
        raise BadInput(f"limits: {_unknown(key, known)}")
    if LIMITS[key].kind == "flag":
        if bound is not False:
            raise BadInput(f"limits.{key}: must be false, not {bound!r:.40}")
    else:
        _check_bound(f"limits.{key}", bound, LIMITS[key].kind)


def _check_bound(key: str, bound: Any, kind: str) -> None:
    if not is_finite(bound) or bound < 0:
        raise BadInput(f"{key}: must be a number from 0 on, not {bound!r:.40}")
    if kind == "share" and bound > 1:
        raise BadInput(f"{key}: a share is 1 at most, not {bound!r:.40}")


def _check_text(key: str, text: Any) -> None:
    if not isinstance(text, str) or len(text) > MOST_LETTERS:
        raise BadInput(f"{key}: must be a text of at most {MOST_LETTERS} letters")
