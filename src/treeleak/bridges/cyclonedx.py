"""Audits as a bill of materials: machine-learning models of CycloneDX 1.6, with what they disclose.

Fields are those that 1.5 has, too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from treeleak._version import __version__
from treeleak.bridges.summary import Summary

SPEC = "1.6"


def render(audits: Sequence[Summary], _: str = "") -> str:
    """Write audits as the components of one document."""
    tool = {"type": "application", "name": "treeleak", "version": __version__}
    document = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "version": 1,
        "metadata": {
            "timestamp": max(audit.provenance.time for audit in audits),
            "tools": {"components": [tool]},
        },
        "components": [_component(audit, k) for k, audit in enumerate(audits, 1)],
    }
    return json.dumps(document, indent=2) + "\n"


def _component(audit: Summary, number: int) -> dict[str, Any]:
    """Describe a model: hash, figures, and what to think of before it goes out."""
    limits = [f"Not assessed: {text}" for text in audit.open_parts]
    risk = {"name": audit.headline, "mitigationStrategy": " ".join(audit.changes)}
    component: dict[str, Any] = {
        "type": "machine-learning-model",
        "bom-ref": f"model-{number}",
        "name": audit.name,
        "description": audit.provenance.origin,
    }
    if audit.provenance.sha256:
        component["hashes"] = [{"alg": "SHA-256", "content": audit.provenance.sha256}]
    figures = {"verdict": audit.verdict, **audit.figures}
    if audit.ruling is not None:
        figures["ruling"] = audit.ruling.headline
    return component | {
        "properties": [
            {"name": f"treeleak:{key}", "value": _value(value)}
            for key, value in figures.items()
            if value is not None
        ],
        "modelCard": {
            "considerations": {"technicalLimitations": limits, "ethicalConsiderations": [risk]}
        },
    }


def _value(value: str | bool | int | float) -> str:
    return value if isinstance(value, str) else json.dumps(value)
