"""Old phrases that readers stumbled over: no document and no message has them again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOME = ROOT / "src/treeleak"

FORBIDDEN = {
    "neither leak nor safety": "inconclusive: this neither shows nor rules out a leak",
    "far as the trees tell": "on every value that the model's splits distinguish",
    "far as trees tell": "on every value that the model's splits distinguish",
    "may be wrong, as expected": "expected error (the attack's own estimate)",
    "laid beside": "after optimal one-to-one matching",
    "whoever is answerable": "the accountable person decides",
    "few rows stand behind": "small leaves",
    "whom it concerns": "results by group",
    "share their place with nobody": "unique within their class",
    "the model told": "attributable to the model",
    "compared with the model first": "training file verified against the leaf counts",
    "thresholds midway": "thresholds explained by the rebuilt rows",
    "rows so far miss counts": "not converged; raise --time-limit",
    "they bound nothing": "not an upper bound on the risk",
    "gives away": "discloses",
    "give away": "disclose",
    "gave away": "disclosed",
    "somebody": "an adversary",
    "left to know": "residual uncertainty (entropy)",
    "leaves to know": "residual uncertainty (entropy)",
    "random guess": "random baseline",
    "rows that stand apart": "outliers",
    "nobody can say": "not known",
}
"""What was written, in small letters, and what to write in its place."""

DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.py")]
SHOWN = [p for p in HOME.rglob("*") if p.suffix in {".html", ".js", ".json"}]
# The page of results quotes the captions of papers.
TEXTS = [p for p in (*DOCUMENTS, *SHOWN) if p.name != "reproduction.md"]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def found_in(text: str) -> list[str]:
    """Forbidden phrases in a text, whatever its lines and letters."""
    flat = " ".join(text.lower().split())
    return [phrase for phrase in FORBIDDEN if re.search(rf"\b{re.escape(phrase)}\b", flat)]


def messages(source: str) -> Iterator[str]:
    """Texts of a module, docstrings among them, with a gap for each field."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts = (p.value if isinstance(p, ast.Constant) else " … " for p in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("path", TEXTS, ids=relative)
def test_documents_have_no_old_phrase(path):
    assert found_in(path.read_text(encoding="utf-8")) == []


@pytest.mark.slow
def test_messages_and_docstrings_have_no_old_phrase():
    modules = sorted(HOME.rglob("*.py"))
    assert len(modules) > 300
    found = {
        f"{relative(path)}: {text[:80]}": phrases
        for path in modules
        for text in messages(path.read_text(encoding="utf-8"))
        if (phrases := found_in(text))
    }
    assert found == {}


def test_old_phrases_are_found_where_they_are():
    assert found_in("The file\n  Gives away its rows.") == ["gives away"]
    assert found_in("It discloses its rows; forgive awaybreaks.") == []
    module = '"""A random\n    guess."""\nx = f"{x} gives " "away {y} to somebody"\n'
    assert found_in(" ".join(messages(module))) == ["gives away", "somebody", "random guess"]
