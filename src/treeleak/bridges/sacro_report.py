"""An audit as a report in SACRO-ML's layout: one entry of a JSON file that holds many attacks.

Only what the releasable edition says goes in: such reports are passed on. Figures that SACRO-ML
has, too, bear its names.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from treeleak._version import __version__
from treeleak.auditing import Audit
from treeleak.auditing.inventory.rule import fits
from treeleak.auditing.inventory.rules import SEED_NAMES
from treeleak.core.errors import BadInput, cause
from treeleak.core.output import write_file
from treeleak.core.plain import plain
from treeleak.core.text_files import read_text
from treeleak.reconstruction import as_json

ATTACK_NAME = "treeleak reconstruction"
MOST_BYTES = 64 << 20
_PLAIN = (str, int, float, bool, type(None))


def report_entry(audit: Audit, about: Mapping[str, Any] | None) -> dict[str, Any]:
    """Describe an audit as one attack.

    Parameters
    ----------
    audit : Audit
    about : mapping, optional
        What a target folder says of the model (:attr:`Target.about`).

    Returns
    -------
    dict
        ``log_id``, ``log_time``, ``metadata`` and ``attack_experiment_logger``.
    """
    told = audit.document("releasable")
    own = about or {}
    return {
        "log_id": str(uuid.uuid4()),
        "log_time": datetime.now().astimezone().strftime("%d/%m/%Y %H:%M:%S"),
        "metadata": {
            "treeleak_version": __version__,
            "attack_name": ATTACK_NAME,
            "attack_params": {
                "seed": audit.provenance.seed,
                "safe_threshold": None
                if told["structure"] is None
                else told["structure"]["threshold"],
                "safe_dof_threshold": None
                if told["structure"] is None
                else told["structure"]["fewest_degrees"],
            },
            "global_metrics": global_metrics(told),
            "target_model": _text(own.get("model_name")) or told["provenance"]["origin"],
            "target_model_params": _parameters(own.get("model_params")),
            "target_train_params": _parameters(own.get("train_params")),
        },
        "attack_experiment_logger": {
            "attack_instance_logger": {"instance_0": global_metrics(told) | structural(told)}
        },
    }


def entries_in(path: Path) -> dict[str, Any]:
    """Read what a report file holds; nothing where there is none.

    Raises
    ------
    BadInput
        If the file is there and is no such report.
    """
    held: Any = {}
    if path.exists() and path.stat().st_size:
        try:
            held = json.loads(read_text(path, MOST_BYTES, BadInput))
        except (ValueError, RecursionError) as error:
            why = str(error) if isinstance(error, BadInput) else f"{path}: {cause(error)}"
            raise BadInput(
                f"{why}: not a report that treeleak can add to; name another file"
            ) from error
    if not isinstance(held, dict) or not all(isinstance(v, dict) for v in held.values()):
        raise BadInput(
            f"{path}: not a report of attacks that treeleak can add to; name another file"
        )
    return held


def add_report(path: Path, entry: Mapping[str, Any]) -> None:
    """Put an entry into a report file, beside those that are there.

    Raises
    ------
    BadInput
        If the file is there and is no such report.
    """
    held = entries_in(path)
    own = json.loads(as_json(entry))
    held[f"{entry['metadata']['attack_name']}_{entry['log_id']}"] = own
    write_file(path, json.dumps(held, indent=4) + "\n")


def global_metrics(told: Mapping[str, Any]) -> dict[str, Any]:
    """Say what the attack found, from an audit's document: names are treeleak's."""
    rebuilt, measured = told["reconstruction"], told["measurement"]
    exposed = told["exposure"]
    figures: dict[str, Any] = {
        "verdict": told["verdict"],
        "leak_shown": told["verdict"] == "leak shown",
        "status": None if rebuilt is None else rebuilt["status"],
        "n_rows": None if rebuilt is None else rebuilt["n_rows"],
        "expected_error": None if rebuilt is None else rebuilt["expected_error"],
        "share_proved_rows": None if exposed is None else exposed["recovered"]["proved"],
        "exact_rows": None if measured is None else measured["exact_rows"],
        "error": None if measured is None else measured["error"],
    }
    if told.get("ruling") is not None:
        figures |= {"policy": told["ruling"]["policy"], "passed": told["ruling"]["passed"]}
    # NaN is not JSON.
    return {key: value if value == value else None for key, value in figures.items()}


def structural(told: Mapping[str, Any]) -> dict[str, Any]:
    """Give the figures of a structural attack; None where they were not assessed.

    Groups are those of rows with the same answer, as in SACRO-ML; those of rows with the same leaf
    in every tree, which the file shows, stand beside them.
    """
    found = told["structure"]
    if found is None:
        return {}
    groups = {group["by"]: group for group in found["groups"]}
    own = groups.get("answer", groups.get("leaf"))
    left = found["residual_degrees"]
    return {
        "dof_risk": None if left is None else left < found["fewest_degrees"],
        "k_anonymity_risk": None if own is None else own["small"] > 0,
        "class_disclosure_risk": _any(own, "lack_a_class"),
        "smallgroup_risk": _any(own, "few_of_a_class"),
        "details": {"parameters": found["parameters"], "residual_dof": left,
                    "by_leaf_of_every_tree": groups.get("cell", groups.get("leaf"))},
    }  # fmt: skip


def _any(group: Mapping[str, Any] | None, key: str) -> bool | None:
    return None if group is None or group[key] is None else group[key] > 0


def _text(value: Any) -> str:
    return plain(value) if isinstance(value, str) else ""


def _parameters(told: Any) -> dict[str, Any]:
    """Keep parameters that are plain values: others are code, or objects."""
    if not isinstance(told, Mapping):
        return {}
    return {
        plain(str(key)): plain(value) if isinstance(value, str) else value
        for key, value in told.items()
        # A seed tells which rows each tree drew.
        if isinstance(value, _PLAIN) and not fits(SEED_NAMES, str(key)) and value == value
    }
