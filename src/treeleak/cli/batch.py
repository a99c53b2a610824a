"""``treeleak audit`` of several models: each a process of its own, and a page that lists them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from treeleak.cli.files import check_place, say
from treeleak.core.errors import BadInput
from treeleak.core.output import write_file
from treeleak.core.private import dataclass
from treeleak.core.signals import private_folder

_OWN = {"models", "report", "json", "sacro_report", "jobs", "cluster", "again", "quiet"}
"""Options that are the batch's own, or that each audit gets otherwise."""


def wanted(models: Sequence[Path], report: Path | None, cluster: str | None) -> bool:
    """Whether a command asks for a folder of audits."""
    return len(models) > 1 or cluster is not None or (report is not None and report.is_dir())


@dataclass(frozen=True)
class Running:
    """How a batch is run."""

    jobs: int
    cluster: str | None
    again: bool
    quiet: bool
    listed: bool = True
    """Whether the reports are kept."""


def audit_all(ctx: typer.Context, how: Running) -> int:
    """Audit the models of a command, and write pages, documents and index; give the exit status."""
    from treeleak.batch import index
    from treeleak.batch.index import run_all
    from treeleak.report.page import headline, verdict_of

    params = ctx.params
    models, internal = list(dict.fromkeys(params["models"])), params["internal"]
    if params["report"] is None and params["policy"] is not None:
        # Whoever asks whether models meet a policy, as a hook before a commit does, keeps no file.
        with private_folder() as place:
            params["report"] = place
            return audit_all(ctx, replace(how, listed=False))
    folder = _folder(params)
    words, files = options_of(ctx)
    names = index.names_for(models)
    keys = [index.key_of(model, words, files) for model in models]
    previous = index.read_index(folder)
    entries = {name: previous[name] for name in names if name in previous}
    todo = [
        k
        for k, (name, key) in enumerate(zip(names, keys, strict=True))
        if how.again or not index.is_done(previous.get(name), key, folder)
    ]
    pages = [folder / f"{names[k]}{ending}" for k in todo for ending in (".json", ".html")]
    _check_results([folder / "index.html", *pages], [*models, *files])
    if len(todo) < len(models) and not how.quiet:
        say(
            f"treeleak: {len(models) - len(todo)} of {len(models)} audits are done already "
            "(--again repeats them)"
        )
    commands = [_command(models[k], folder / names[k], words) for k in todo]
    with ExitStack() as stack:
        ended = run_all(commands, how.jobs, how.cluster, stack)
        for done, (number, end) in enumerate(ended, 1):
            k = todo[number]
            new_entry = index.entry_of(names[k], keys[k], end.status, end.errors, folder)
            # An error may name columns and values.
            entries[names[k]] = new_entry if internal else new_entry | {"said": ""}
            _write(folder, [*entries.values()], internal)
            if not how.quiet:
                line = f"{models[k]}: {verdict_of(new_entry)} ({end.seconds:.0f} s)"
                say(f"treeleak: [{done}/{len(todo)}] {line}")
    _write(folder, [*entries.values()], internal)
    say(headline(sorted(entries.values(), key=index.severity)), err=False)
    places = f"They are listed in {folder / 'index.html'}"
    say(places if how.listed else "For the reasons, audit one model alone.", err=False)
    return index.worst(entry["status"] for entry in entries.values())


def _write(folder: Path, entries: Sequence[dict[str, Any]], internal: bool) -> None:
    from treeleak.batch import index
    from treeleak.report.page import render_index

    index.write_index(folder, entries, internal)
    page = render_index(sorted(entries, key=index.severity), internal)
    write_file(folder / "index.html", page, private=internal)


def _folder(params: dict[str, Any]) -> Path:
    """Make the folder of a batch, or say what else is asked for that has no place in one."""
    for name in ("json", "sacro_report"):
        if params[name] is not None:
            option = name.replace("_", "-")
            raise BadInput(f"--{option}: for one model at a time; for several, --report has it all")
    folder: Path | None = params["report"]
    if folder is None:
        raise BadInput(
            "several models: name a folder for their reports (--report FOLDER), or a policy that "
            "they must meet (--policy FILE)"
        )
    if not folder.exists():
        if not folder.parent.is_dir():
            raise BadInput(f"{folder}: there is no folder {folder.parent}: make it first")
        folder.mkdir()
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput(f"{folder}: no folder, or you cannot write in it: name another")
    return folder


def _check_results(places: Sequence[Path], inputs: Sequence[Path]) -> None:
    """Refuse to overwrite what is no result of an audit: models are JSON files, too."""
    from treeleak.batch import index

    for place in places:
        check_place(place, *inputs)
        if place.exists() and not index.is_result(place):
            raise BadInput(
                f"{place}: is no result of treeleak, and would be overwritten: name another folder"
            )


def options_of(ctx: typer.Context) -> tuple[list[str], list[Path]]:
    """Write the options of a command as words again, and list the files among them."""
    words: list[str] = []
    files: list[Path] = []
    for option in ctx.command.params:
        name = option.name or ""
        value = ctx.params.get(name)
        if name in _OWN or value is None or value == option.default:
            continue
        if isinstance(value, bool):
            flags = option.opts if value else option.secondary_opts
            words += flags[:1]
            continue
        words += [option.opts[0], str(value)]
        if isinstance(value, Path):
            files.append(value)
    return words, files


def _command(model: Path, place: Path, words: Sequence[str]) -> list[str]:
    outputs = ["--json", f"{place}.json", "--report", f"{place}.html", "--quiet"]
    return ["audit", *words, *outputs, "--", str(model)]
