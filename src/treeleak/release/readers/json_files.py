"""JSON files that hold a model: which kind one is, its "format" says."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from treeleak.core.output import read_text
from treeleak.release.bounds import MOST_JSON_BYTES
from treeleak.release.checked_json import read_json
from treeleak.release.readers import rule_file
from treeleak.release.readers.catboost_json import is_catboost, model_from_dict
from treeleak.release.readers.ebm_json import is_ebm
from treeleak.release.readers.ebm_json import model_from_dict as ebm_from_dict
from treeleak.release.readers.json_layout import odd_layout
from treeleak.release.readers.lightgbm_dump import booster_from_dump, is_dump
from treeleak.release.readers.ohdsi import is_ohdsi, model_from_ohdsi
from treeleak.release.readers.release_file import release_from_dict
from treeleak.release.readers.xgboost_json import booster_from_dict, is_booster
from treeleak.release.registry import describe_format, reader
from treeleak.release.release import Release
from treeleak.release.rule_list import RuleList
from treeleak.release.stored import StoredObject

__all__: list[str] = []


describe_format(
    "release.json", ".json", "trees and counts that anybody wrote down (docs/release-format.md)"
)
describe_format("rules.json", ".json", "rows that each rule captures (docs/rule-file.md)")
describe_format(
    "CatBoost JSON",
    ".json",
    "rows of each leaf, borders between values of all columns, settings, seeds",
)
describe_format(
    "OHDSI JSON", ".json", "rows of each class in each node, seeds of the draws, thresholds"
)
describe_format("EBM JSON", ".json", "rows in each bin of each term, ends of all columns")
describe_format(
    "trees that LightGBM printed", ".json", "rows, sums of hessians and gain of each node"
)


@reader("release.json", lambda head: head.removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"{")
def _read_file(path: Path, trust_pickle: bool) -> StoredObject | Release | RuleList:  # noqa: ARG001
    text = read_text(path, MOST_JSON_BYTES)
    made = read_json(text, _made)
    if isinstance(made, StoredObject):
        return replace(made, leftovers=(*made.leftovers, *odd_layout(text)))
    return made


def _made(data: Any) -> StoredObject | Release | RuleList:
    if isinstance(data, Mapping) and data.get("format") == rule_file.FORMAT:
        return rule_file.rules_from_dict(data)
    if is_booster(data):
        return booster_from_dict(data)
    if is_catboost(data):
        return model_from_dict(data)
    if is_ebm(data):
        return ebm_from_dict(data)
    if is_dump(data):
        return booster_from_dump(data)
    if is_ohdsi(data):
        return model_from_ohdsi(data)
    return release_from_dict(data)
