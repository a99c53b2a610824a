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
from treeleak.auditing.inventory.conditions import fits
from treeleak.auditing.inventory.rules import SEED_NAMES
from treeleak.batch.index import read_document
from treeleak.core.errors import BadInput
from treeleak.core.output import write_file
from treeleak.core.text import plain
from treeleak.reconstruction import as_json

ATTACK_NAME = "treeleak reconstruction"
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
    document = audit.document("releasable")
    target, structure = about or {}, document["structure"] or {}
    return {
        "log_id": str(uuid.uuid4()),
        "log_time": datetime.now().astimezone().strftime("%d/%m/%Y %H:%M:%S"),
        "metadata": {
            "treeleak_version": __version__,
            "attack_name": ATTACK_NAME,
            "attack_params": {
                "seed": audit.provenance.seed,
                "safe_threshold": structure.get("threshold"),
                "safe_dof_threshold": structure.get("fewest_degrees"),
            },
            "global_metrics": global_metrics(document),
            "target_model": _text(target.get("model_name")) or document["provenance"]["origin"],
            "target_model_params": _parameters(target.get("model_params")),
            "target_train_params": _parameters(target.get("train_params")),
        },
        "attack_experiment_logger": {
            "attack_instance_logger": {
                "instance_0": global_metrics(document) | structural(document)
            }
        },
    }


def entries_in(path: Path) -> dict[str, Any]:
    """Read what a report file holds; nothing where there is none.

    Raises
    ------
    BadInput
        If the file is there and is no such report.
    """
    why, held = str(path), {}
    try:
        held = read_document(path) if path.exists() and path.stat().st_size else {}
    except BadInput as error:
        why = str(error)
    if why != str(path) or not all(isinstance(entry, dict) for entry in held.values()):
        raise BadInput(f"{why}: not a report that treeleak can add to; name another file")
    return held


def add_report(path: Path, entry: Mapping[str, Any]) -> None:
    """Put an entry into a report file, beside those that are there.

    Raises
    ------
    BadInput
        If the file is there and is no such report.
    """
    held = entries_in(path)
    entry_parsed = json.loads(as_json(entry))
    held[f"{entry['metadata']['attack_name']}_{entry['log_id']}"] = entry_parsed
    write_file(path, json.dumps(held, indent=4) + "\n")


def global_metrics(document: Mapping[str, Any]) -> dict[str, Any]:
    """Say what the attack found, from an audit's document: names are treeleak's."""
    rebuilt, measured = document["reconstruction"], document["measurement"]
    exposed = document["exposure"]
    figures: dict[str, Any] = {
        "verdict": document["verdict"],
        "leak_shown": document["verdict"] == "leak shown",
        "status": None if rebuilt is None else rebuilt["status"],
        "n_rows": None if rebuilt is None else rebuilt["n_rows"],
        "expected_error": None if rebuilt is None else rebuilt["expected_error"],
        "share_proved_rows": None if exposed is None else exposed["recovered"]["proved"],
        "exact_rows": None if measured is None else measured["exact_rows"],
        "error": None if measured is None else measured["error"],
    }
    if document.get("ruling") is not None:
        figures |= {"policy": document["ruling"]["policy"], "passed": document["ruling"]["passed"]}
    # NaN is not JSON.
    return {key: value if value == value else None for key, value in figures.items()}


def structural(document: Mapping[str, Any]) -> dict[str, Any]:
    """Give the figures of a structural attack; None where they were not assessed.

    Groups are those of rows with the same answer, as in SACRO-ML; those of rows with the same leaf
    in every tree, which the file shows, stand beside them.
    """
    found = document["structure"]
    if found is None:
        return {}
    groups = {group["by"]: group for group in found["groups"]}
    groups_used = groups.get("answer", groups.get("leaf"))
    left = found["residual_degrees"]
    return {
        "dof_risk": None if left is None else left < found["fewest_degrees"],
        "k_anonymity_risk": None if groups_used is None else groups_used["small"] > 0,
        "class_disclosure_risk": _any(groups_used, "lack_a_class"),
        "smallgroup_risk": _any(groups_used, "few_of_a_class"),
        "details": {"parameters": found["parameters"], "residual_dof": left,
                    "by_leaf_of_every_tree": groups.get("cell", groups.get("leaf"))},
    }  # fmt: skip


def _any(group: Mapping[str, Any] | None, key: str) -> bool | None:
    return None if group is None or group[key] is None else group[key] > 0


def _text(value: Any) -> str:
    return plain(value) if isinstance(value, str) else ""


def _parameters(parameters: Any) -> dict[str, Any]:
    """Keep parameters that are plain values: others are code, or objects."""
    if not isinstance(parameters, Mapping):
        return {}
    return {
        plain(str(key)): plain(value) if isinstance(value, str) else value
        for key, value in parameters.items()
        # A seed tells which rows each tree drew.
        if isinstance(value, _PLAIN) and not fits(SEED_NAMES, str(key)) and value == value
    }
