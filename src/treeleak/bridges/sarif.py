"""Audits as SARIF 2.1.0, which code hosts show beside the files of a repository.

One result for each finding, and one for each limit of a policy that is not met. Limits that are met
are left out: hosts show every result as a problem.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from treeleak._version import __version__
from treeleak.auditing.findings.finding import LEAK, OPEN, POSSIBLE
from treeleak.bridges.summary import Summary
from treeleak.core.private import dataclass
from treeleak.report.facts import capital
from treeleak.report.sections import PARTS

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_LEVELS: Mapping[str | None, str] = {LEAK: "error", POSSIBLE: "warning", OPEN: "warning"}
"""Of findings; others are notes."""


@dataclass(frozen=True)
class _Result:
    """A finding of an audit, or a limit that is not met."""

    audit: Summary
    rule: str
    about: str
    level: str
    text: str


def render(audits: Sequence[Summary], _: str = "") -> str:
    """Write audits as one run of one tool."""
    results = [result for audit in audits for result in _results(audit)]
    rules: dict[str, list[_Result]] = {}
    for result in results:
        rules.setdefault(result.rule, []).append(result)
    driver = {
        "name": "treeleak",
        "version": __version__,
        "rules": [_rule(rule, of_rule) for rule, of_rule in rules.items()],
    }
    order = {rule: k for k, rule in enumerate(rules)}
    places: Counter[str] = Counter()
    run = {
        "tool": {"driver": driver},
        "invocations": [_invocation(audit) for audit in audits],
        "results": [_described(result, order[result.rule], places) for result in results],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _results(audit: Summary) -> Iterator[_Result]:
    for f in audit.findings:
        about = f"{PARTS[f.part]}: {f.code.replace('_', ' ')}"
        yield _Result(audit, f.code, about, _LEVELS.get(f.verdict, "note"), f.text)
    if audit.verdict == OPEN and all(f.verdict != OPEN for f in audit.findings):
        yield _Result(audit, "not_assessed", capital(OPEN), _LEVELS[OPEN], audit.headline)
    checks = () if audit.ruling is None else audit.ruling.checks
    for check in (check for check in checks if check.state != "met"):
        key = check.key.partition(".")[0]
        text = f"{capital(check.what)}: {check.found} (asked for: {check.bound}): {check.state}."
        yield _Result(audit, f"policy/{key}", f"Policy: {key.replace('_', ' ')}", "error", text)


def _rule(rule: str, results: Sequence[_Result]) -> dict[str, Any]:
    about = results[0].about
    changes = dict.fromkeys(text for result in results for text in result.audit.changes)
    helps = f"What would help: {' '.join(changes)}" if changes else "The audit names no change."
    full = f"{about}. The messages say what treeleak's audits of these models say of it."
    texts = {"shortDescription": about, "fullDescription": full, "help": helps}
    return {"id": rule, **{key: _text(said) for key, said in texts.items()}}


def _text(said: str) -> dict[str, str]:
    """Write a text in which no link begins, be it in the name of a column or of a file."""
    return {"text": said.replace("](", "] (")}


def _described(result: _Result, index: int, places: Counter[str]) -> dict[str, Any]:
    uri = _uri(result.audit)
    key = hashlib.sha256(f"{uri} {result.rule}".encode()).hexdigest()[:16]
    places[key] += 1
    place = {"artifactLocation": {"uri": uri}, "region": {"startLine": 1}}
    return {
        "ruleId": result.rule,
        "ruleIndex": index,
        "level": result.level,
        "message": _text(f"{result.audit.name}: {result.text}"),
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"primaryLocationLineHash": f"{key}:{places[key]}"},
    }


def _invocation(audit: Summary) -> dict[str, Any]:
    notes = [f"{audit.name}: not assessed: {text}" for text in audit.open_parts]
    return {
        "executionSuccessful": True,
        "endTimeUtc": audit.provenance.time,
        "toolExecutionNotifications": [{"level": "note", "message": _text(n)} for n in notes],
    }


def _uri(audit: Summary) -> str:
    return quote(audit.path.encode("utf-8", "surrogatepass")) or "model-in-memory"
