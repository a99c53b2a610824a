"""What the documents say is so: code runs, commands exist, links lead somewhere."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import math
import pkgutil
import re
import runpy
import shlex
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import treeleak
from experiments.__main__ import app as experiments
from experiments.catalogue import BENCHMARKS, STUDIES
from helpers.hurried import SECONDS, hurried
from treeleak import schema
from treeleak.cli import app
from treeleak.release import bounds

ROOT = Path(__file__).parents[1]
PICTURES = sorted(p for p in ROOT.glob("docs/**/*.svg") if "_build" not in p.parts)
REFERENCE = (
    "auditing", "datasets", "errors", "learn", "metrics", "release", "uncertainty",
)  # fmt: skip
IN_TREELEAK = set(treeleak.__all__)
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
LONG = {
    "before-training",
    "boosted",
    "bootstrap",
    "dp-forests",
    "plug-ins",
    "quickstart",
    "raw-data",
    "researcher",
}
"""Pages whose code takes more than two seconds."""
COMMANDS = typer.main.get_command(app)
POLICY = re.compile(r"save it as\s+`([\w.]+)`:\n\n```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A file that a page tells its reader to write."""


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    fence = re.compile(rf"^```{language}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return fence.findall(page.read_text(encoding="utf-8"))


def with_blocks(language: str) -> Any:
    pages = [
        pytest.param(p, marks=pytest.mark.slow if p.stem in LONG else (), id=relative(p))
        for p in PAGES
        if blocks(p, language)
    ]
    return pytest.mark.parametrize("page", pages)


def claims(source: str) -> Iterator[tuple[str, Any]]:
    """Expressions that stand on a line of their own with their value as a comment."""
    lines = source.splitlines()
    for node in ast.parse(source).body:
        if isinstance(node, ast.Expr) and "  # " in (line := lines[node.end_lineno - 1]):
            try:
                yield ast.unparse(node.value), ast.literal_eval(line.rpartition("  # ")[2])
            except (SyntaxError, ValueError):
                continue


@with_blocks("python")
@pytest.mark.each
@pytest.mark.usefixtures("short_walks")
def test_python_blocks_run_and_give_what_they_say(page, tmp_path, monkeypatch, instead):
    monkeypatch.chdir(tmp_path)
    # No page says what an audit finds in Python, only how to ask for one.
    instead("audit", hurried(treeleak.audit))
    names: dict[str, Any] = {}
    for source in blocks(page, "python"):
        for extra in re.findall(
            r"^import (xgboost|lightgbm|catboost|mlflow)$", source, re.MULTILINE
        ):
            pytest.importorskip(extra, reason=f"needs treeleak[{extra}]")
        exec(compile(source, relative(page), "exec"), names)
        for expression, value in claims(source):
            assert eval(expression, names) == value, expression


def words(text: str) -> str:
    """A text without what changes with versions, widths and speed: numbers, frames, blanks."""
    return re.sub(r"[\d.,]+", "0", re.sub(r"[\s─╭╮╰╯│]+", " ", text)).strip()


def dialogues(page: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Commands of a page, and the pieces of output that it shows; an ellipsis parts pieces."""
    for block in blocks(page, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield shlex.split(command), [w for w in map(words, shown.split("…")) if w]


@with_blocks("console")
@pytest.mark.slow
@pytest.mark.each
@pytest.mark.usefixtures("short_walks")
def test_console_blocks_run_and_print_what_they_show(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in POLICY.findall(page.read_text(encoding="utf-8")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    for (program, *arguments), shown in dialogues(page):
        assert program == "treeleak"
        if "--time-limit" in arguments:  # What is printed says the same after less time.
            arguments[arguments.index("--time-limit") + 1] = str(SECONDS)
        result = CliRunner().invoke(app, arguments, env={"COLUMNS": "80"})
        refused = "Does not meet the policy" in " ".join(shown)
        assert result.exit_code == (4 if refused else 0), result.output
        for piece in shown:
            assert piece in words(result.output), arguments


@pytest.mark.slow
def test_output_shown_in_prose_is_what_the_audit_prints(tmp_path, monkeypatch):
    """The guide's examples: ten trees, at least ten rows in every leaf; and one tree."""
    import skops.io
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    monkeypatch.chdir(tmp_path)
    data = treeleak.datasets.load_compas()
    X = data.X.sample(100, random_state=0)
    y = data.y[X.index].rename("label")
    forest = RandomForestClassifier(10, min_samples_leaf=10, bootstrap=False, random_state=0)
    skops.io.dump(forest.fit(X, y), "model.skops")
    Path("schema.toml").write_text(data.schema.to_toml(), encoding="utf-8")
    X.assign(label=y).to_csv("train.csv", index=False)
    alone = ["audit", "model.skops", "--schema", "schema.toml"]
    measured = [*alone, "--train", "train.csv", "--label", "label"]
    printed = [
        words(CliRunner().invoke(app, arguments, env={"COLUMNS": "80"}).output)
        for arguments in (measured, alone)
    ]
    tree = DecisionTreeClassifier(max_depth=3, min_samples_leaf=5, random_state=0)
    skops.io.dump(tree.fit(X, y), "tree.skops")
    single = ["audit", "tree.skops", *measured[2:], "--internal"]
    printed.insert(1, words(CliRunner().invoke(app, single, env={"COLUMNS": "80"}).output))
    printed = [printed[0], *printed, printed[0]]  # The first is shown in three parts.
    page = ROOT / "docs/how-to-read-an-audit.md"
    for shown, text in zip(blocks(page, "text"), printed, strict=True):
        for line in filter(None, map(words, shown.replace("…", "").splitlines())):
            assert line in text


@pytest.mark.parametrize(
    ("page", "head"),
    [
        ("docs/report.md", "## Results"),
        ("README.md", "## How well it works"),
        ("docs/results.md", "# How well it works"),
    ],
)
def test_tables_of_results_are_made_from_stored_runs(page, head):
    """What stands between the marks, another test makes anew; beside it, no share is typed."""
    text = (ROOT / page).read_text(encoding="utf-8").partition(head)[2].partition("\n## ")[0]
    parts = re.split(r"<!-- made by .*? -->.*?<!-- end -->", text, flags=re.DOTALL)
    assert len(parts) > 1
    assert not [line for part in parts for line in part.splitlines() if line.startswith("|")]
    assert not re.findall(r"[\d.]+ %", "".join(parts))


def command_lines(page: Path) -> list[list[str]]:
    text = page.read_text(encoding="utf-8")
    code = [
        *re.findall(r"`([^`\n]+)`", text),
        *(x for b in blocks(page, r"\w*") for x in b.split("\n")),
    ]
    cleaned = (c.strip().removeprefix("$ ").partition("  #")[0] for c in code)
    named = ("treeleak ", "make ", "python -m ", "python ")
    return [c.split() for c in cleaned if c.startswith(named)]


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_named_commands_exist(page):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for program, first, *rest in command_lines(page):
        if program == "make":
            assert first in targets
        elif program == "python" and first == "-m":
            if rest[0] == "experiments":
                check_experiment(*rest[1:])
            else:
                assert (ROOT / "src" / f"{rest[0].replace('.', '/')}.py").exists(), rest[0]
        elif program == "python":
            assert (ROOT / first).exists()
        else:
            command, words = COMMANDS, [first, *rest]
            while words and not words[0].startswith("--") and hasattr(command, "commands"):
                command = command.commands[words.pop(0)]
            assert {word for word in words if word.startswith("--")} <= options_of(command)


def check_experiment(asked: str = "list", name: str = "", *more: str) -> None:
    """``python -m experiments`` knows a command, what it runs, and the options of a study."""
    known = typer.main.get_command(experiments).commands
    one, *others = asked.split("|")
    assert {one, *others} <= set(known)
    if asked in ("run", "show"):
        assert name in {*STUDIES, *BENCHMARKS, "NAME", *["all"] * (asked == "run")}
    if name not in BENCHMARKS:
        assert {word for word in more if word.startswith("--")} <= options_of(known[one])


def options_of(command: Any) -> set[str]:
    """Options of a command, and of the commands in it."""
    own = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
    return own.union(*map(options_of, getattr(command, "commands", {}).values()))


def test_named_options_exist():
    options = options_of(COMMANDS) | options_of(typer.main.get_command(experiments))
    for page in [ROOT / "README.md", *ROOT.glob("docs/*.md")]:
        named = re.findall(r"`(--[a-z-]+)", page.read_text(encoding="utf-8"))
        assert set(named) <= options, relative(page)


def test_every_folder_is_a_room_and_named_modules_exist():
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rooms = text[text.index("## The rooms") : text.index("## The exact attack")]
    home = ROOT / "src/treeleak"
    named = set()
    for folders, begin in re.findall(r"^\| (`[a-z_/`, ]+) \|.*\| (.+) \|$", rooms, re.MULTILINE):
        own = re.findall(r"[a-z_/]+", folders)
        named |= set(own)
        for module in re.findall(r"`([\w.]+)`", begin):
            path = f"{module.replace('.', '/')}.py"
            assert any((home / folder / path).exists() for folder in own), (own, module)
    assert named >= {p.parent.name for p in home.glob("*/__init__.py")}
    for name in set(re.findall(r"`(treeleak(?:\.[a-z_]+)+)`", text)):
        pkgutil.resolve_name(name)


def test_stated_bounds_are_the_code_s():
    text = (ROOT / "docs/limits.md").read_text(encoding="utf-8")
    rows = re.findall(r"\| `([A-Z_]+)` \| ([\d,^]+) \|.*\| `([\w.]+)` \|", text)
    assert len(rows) == len(re.findall(r"^\| `[A-Z_]+` \|", text, re.MULTILINE)) > 5
    sizes = text[text.index("## How large a model may be") : text.index("## Memory")]
    stated = {
        f"{bounds.MOST_JSON_BYTES >> 20} MiB", f"{bounds.MOST_TEXT_BYTES >> 20} MiB",
        f"{schema.MOST_BYTES >> 20} MiB", f"| trees | {bounds.MOST_TREES:,} |",
        f"| levels of a tree | {bounds.MOST_LEVELS:,} |", f"| columns | {bounds.MOST_COLUMNS:,} |",
        f"| classes | {bounds.MOST_CLASSES:,} |", f"{bounds.MOST_CONDITIONS:,} conditions",
        f"| rules | {bounds.MOST_RULES:,}", f"2^{bounds.MOST_NODES.bit_length() - 1},",
        f"2^{bounds.MOST_COUNTS.bit_length() - 1} counts",
        f"2^{bounds.MOST_JSON_VALUES.bit_length() - 1} values",
        f"2^{bounds.MOST_JSON_LISTS.bit_length() - 1} lists",
        f"10^{round(math.log10(bounds.MOST_ROWS))}",
    }  # fmt: skip
    assert {words for words in stated if words not in sizes} == set()
    for name, value, module in rows:
        base, _, power = value.replace(",", "").partition("^")
        assert getattr(importlib.import_module(module), name) == int(base) ** int(power or 1)


def test_stated_seeds_and_candidates_are_the_code_s():
    from treeleak.attacks.known_draws.candidates import MAX_CANDIDATES

    functions = (treeleak.audit, treeleak.reconstruct)
    defaults = {inspect.signature(f).parameters["seed_search"].default for f in functions}
    for command in ("audit", "reconstruct"):
        options = {p.name: p for p in COMMANDS.commands[command].params}
        defaults.add(options["seed_search"].default)
    (default,) = defaults
    limits, bootstrap = ((ROOT / f"docs/{p}.md").read_text() for p in ("limits", "bootstrap"))
    assert f"0 to {default - 1:,}" in limits
    assert f"{MAX_CANDIDATES:,} pairs of row and candidate" in limits
    assert f"found by search among the first {default:,}" in bootstrap


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_between_files_resolve(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"https?://", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (page.parent / file).resolve() if file else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


@pytest.mark.parametrize("picture", PICTURES, ids=relative)
def test_pictures_are_well_formed_and_told_in_words_too(picture):
    assert ET.parse(picture).getroot().tag.endswith("svg")
    name = picture.relative_to(ROOT / "docs").as_posix()
    texts = "".join(p.read_text(encoding="utf-8") for p in PAGES)
    (alt,) = re.findall(rf"!\[([^]]*)\]\({re.escape(name)}\)", texts)
    assert len(alt.split()) > 10


def test_the_reference_has_all_public_names():
    for module in ("treeleak", *(f"treeleak.{m}" for m in REFERENCE)):
        page = ROOT / "docs" / "api" / f"{module.rpartition('.')[2]}.rst"
        text = page.read_text(encoding="utf-8")
        if f"automodule:: {module}\n" in text:
            continue
        named = set(re.findall(rf"auto\w+:: {re.escape(module)}[\w.]*\.(\w+)$", text, re.MULTILINE))
        missing = set(importlib.import_module(module).__all__) - IN_TREELEAK - named
        assert not missing, module


def test_the_reference_names_what_is_there():
    for page in (ROOT / "docs" / "api").glob("*.rst"):
        for name in re.findall(r"auto\w+:: ([\w.]+)$", page.read_text(), re.MULTILINE):
            pkgutil.resolve_name(name)


def test_the_public_names_are_those_of_the_page_and_are_typed_and_documented():
    """What docs/stability.md promises is what ``treeleak.__all__`` has."""
    page = (ROOT / "docs/stability.md").read_text(encoding="utf-8")
    table = page[page.index("| kind | names") : page.index("## Deprecation")]
    assert sorted(re.findall(r"`(\w+)`", table.replace("`treeleak`", ""))) == sorted(IN_TREELEAK)
    for name in sorted(IN_TREELEAK - {"__version__"}):
        public = getattr(treeleak, name)
        assert (inspect.getdoc(public) or "").strip(), name
        parts = [public] if inspect.isfunction(public) else []
        if inspect.isclass(public):
            assert public.__doc__, name
            parts = [f for n, f in inspect.getmembers(public, inspect.isfunction) if n[0] != "_"]
            parts = [f for f in parts if f.__module__.startswith("treeleak")]
        for function in parts:
            told = f"{name}: {function.__qualname__}"
            hints = inspect.signature(function)
            assert inspect.getdoc(function), told
            assert hints.return_annotation is not inspect.Signature.empty, told
            for parameter in hints.parameters.values():
                typed = parameter.annotation is not inspect.Parameter.empty
                assert typed or parameter.name == "self", f"{told}({parameter.name})"


def test_names_commands_and_options_of_1_0_stay():
    """What is missing must be deprecated first (docs/stability.md); what is new is added here."""
    frozen = json.loads((ROOT / "tests/frozen.json").read_text(encoding="utf-8"))
    now = {name: sorted(options_of(own)) for name, own in COMMANDS.commands.items()}
    assert frozen == {"names": sorted(IN_TREELEAK), "commands": now}


def test_the_reference_of_commands_and_files_is_whole():
    """It is made for each build of the site: every option, and every key of every file."""
    made = runpy.run_path(str(ROOT / "tools" / "write_reference.py"))
    commands, files = made["commands"](), made["files"]()
    named = set(re.findall(r"--?[\w-]+", commands))
    assert {o for o in options_of(COMMANDS) if o.startswith("-")} <= named
    for path in (ROOT / "src/treeleak/formats").glob("*.schema.json"):
        schema = json.loads(path.read_text(encoding="utf-8"))
        parts = [schema, *schema.get("$defs", {}).values()]
        keys = {key for part in parts for key in part.get("properties", {})}
        assert keys
        assert {key for key in keys if f"| `{key}` |" not in files} == set()


def test_citation_names_this_version_and_the_four_papers():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    licence = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]
    assert f"version: {treeleak.__version__}" in text
    assert f"license: {licence}" in text
    for paper in ("978-3-642-31540-4_21", "2308.15099", "2402.19232", "2502.05307"):
        assert paper in text
        assert paper in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900
