"""The small commands, from ``schema`` to ``warm-up``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from treeleak.cli import options as opt
from treeleak.cli.application import app
from treeleak.cli.files import check_free, check_place, console, open_page, progress_shown, say
from treeleak.cli.tables import Tables, training_rows
from treeleak.core.errors import BadInput
from treeleak.core.output import read_text, write_file
from treeleak.core.text import did_you_mean, plain


@app.command()
def schema(
    model: opt.Audited,
    train: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV", help="Training rows: the schema then rests on their values, too."
        ),
    ] = None,
    label: opt.Label = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write it, if not to the terminal.")
    ] = None,
    trust_pickle: opt.TrustPickle = False,
    force: opt.Force = False,
    quiet: opt.Quiet = False,
) -> None:
    """Write a starting schema, for you to correct: what a row can be."""
    from treeleak.release import RuleList
    from treeleak.release.infer_schema import suggest_rule_schema, suggest_schema

    if out is not None:
        check_free(out, force, model, train)
    tables = Tables(model, None, label, trust_pickle)
    rows, _ = training_rows(tables, train, ())
    content = tables.content
    try:
        if isinstance(content, RuleList):
            suggested, notes = suggest_rule_schema(content, rows)
        else:
            suggested, notes = suggest_schema(content, rows)
    except BadInput as error:
        raise (error if train is None else BadInput(f"{train}: {error}")) from error
    basis = "the model" if rows is None else "the model and training rows"
    comments = [
        f"Inferred from {basis}. Check it: treeleak takes its statements as true.",
        *notes,
    ]
    text = "".join(f"# {plain(' '.join(c.splitlines()))}\n" for c in comments) + suggested.to_toml()
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_file(out, text, overwrite=force)
        for remark in () if quiet else notes:
            say(remark)


@app.command()
def export(
    model: opt.Model,
    out: Annotated[Path, typer.Argument(metavar="RELEASE.JSON", help="Where to write it.")],
    trust_pickle: opt.TrustPickle = False,
    force: opt.Force = False,
) -> None:
    """Write trees and counts to a file that needs no library to read."""
    from treeleak.release import to_release
    from treeleak.release.readers.release_file import write_release

    check_free(out, force, model)
    release = to_release(model, trust_pickle)
    write_release(release, out, overwrite=force)


@app.command()
def convert(
    audits: Annotated[
        list[Path],
        typer.Argument(
            metavar="AUDIT...",
            help="What treeleak audit --json wrote, or a folder that --report FOLDER made.",
        ),
    ],
    to: Annotated[
        str,
        typer.Option(
            metavar="sarif|model-card|cyclonedx",
            help="SARIF for code hosts, a section of a model card, or a bill of materials.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where to write it, if not to the terminal. A model card that is there is "
            "added to: an earlier section of treeleak is replaced, the rest stays. Other files "
            "need --force.",
        ),
    ] = None,
    folder: Annotated[
        str,
        typer.Option(
            metavar="FOLDER",
            help="Where the models lie in the repository: audits leave folders out, and code "
            "hosts need them.",
        ),
    ] = "",
    force: opt.Force = False,
) -> None:
    """Write audits for other tools: what the releasable edition says, and no more."""
    from treeleak.batch.index import MOST_BYTES
    from treeleak.bridges.formats import ADDING, FORMATS
    from treeleak.bridges.model_card import is_card
    from treeleak.bridges.summary import read_summaries

    if to not in FORMATS:
        raise BadInput(f"--to must be one of {', '.join(FORMATS)}{did_you_mean(to, FORMATS)}")
    before = ""
    if out is not None and to in ADDING:
        check_place(out, *audits)
        before = read_text(out, MOST_BYTES, BadInput) if out.exists() else ""
        if before.strip() and not (force or is_card(before)):
            raise BadInput(
                f"{out}: is no model card: it has neither front matter nor a section of treeleak; "
                "name another file, or add them with --force"
            )
    elif out is not None:
        check_free(out, force, *audits)
    found = [summary for place in audits for summary in read_summaries(place, folder)]
    text = FORMATS[to](found, before)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_file(out, text, overwrite=force or to in ADDING)


@app.command()
def check(
    model: Annotated[
        str, typer.Option(metavar="CLASS", help="For example RandomForestClassifier.")
    ],
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A setting. Repeat it as needed."),
    ] = None,
    rows: Annotated[int | None, typer.Option(metavar="N", help="Number of training rows.")] = None,
    columns: Annotated[int | None, typer.Option(metavar="N", help="Number of columns.")] = None,
) -> None:
    """Check before training which settings will disclose rows, and what to change."""
    from treeleak.hardening.before_training import check as checked

    found = checked(model, n_rows=rows, n_columns=columns, params=dict(map(_setting, param or ())))
    lines = [f"{found.kind}, before training:"]
    for point in found.points:
        lines += ["", f"{'!' if point.leaks else '-'} {point.setting}", f"    {point.says}"]
        lines += [f"    Change: {point.change}"] * bool(point.change)
    for line in [*lines, "", "This is not an audit. Train, then: treeleak audit, treeleak harden."]:
        say(line, err=False)


def _setting(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE: numbers, true, false and none, or text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise BadInput(f"--param {text!r:.80}: must be NAME=VALUE")
    if value.lower() in ("true", "false", "none", "null"):
        return name, {"true": True, "false": False}.get(value.lower())
    try:
        found = json.loads(value)
    except ValueError:
        return name, value
    return name, found if isinstance(found, (int, float)) else value


@app.command()
def formats() -> None:
    """List what treeleak reads: formats of files, what each discloses, and kinds of models."""
    import treeleak.release  # noqa: F401  Registers them.
    from treeleak.hardening.formats import FORMATS, INSTEAD
    from treeleak.release.registry import formats_read, kinds_read

    steps = {known.name: ", ".join(step.name for step in known.steps) for known in FORMATS}
    steps |= {name: f"not by treeleak; {how}" for name, (_, how) in INSTEAD.items()}
    for known in formats_read():
        lines = [f"{known.name} ({known.endings})" if known.endings else known.name]
        about = {"discloses": known.discloses, "needs": known.needs,
                 "harden": steps.get(known.name, "")}  # fmt: skip
        lines += [f"    {what}: {text}" for what, text in about.items() if text]
        for line in lines:
            say(line, err=False)
    say("", err=False)
    say("Kinds of models, in any of these, in pipelines and around each other:", err=False)
    for package, names in kinds_read().items():
        say(f"    {package}: {', '.join(names)}", err=False)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to put the files.")] = Path(
        "demo"
    ),
    open_report: Annotated[
        bool,
        typer.Option(
            "--open/--no-open", help="Open the report in a browser, where there is a screen."
        ),
    ] = True,
    quiet: opt.Quiet = False,
) -> None:
    """Train models on public data, then get the training rows back from their files."""
    from treeleak.demo import REPORT, run

    with progress_shown(quiet) as progress:
        shown = run(out, progress)
    terminal = console()
    for part in shown:
        terminal.print(part)
    if open_report:
        open_page(out / REPORT)


_NONE = (
    "treeleak: nothing was kept, as no folder can be written: let NUMBA_CACHE_DIR name one that can"
)


@app.command("warm-up")
def warm_up() -> None:
    """Compile the loops of all attacks, so that no later command has to."""
    from treeleak.core.compiled import stored_in
    from treeleak.warm_up import compile_all_loops

    say("treeleak: compiling: about 80 s of processor time, unless it was done before")
    compile_all_loops()
    say(
        f"treeleak: what was compiled is kept in folders like {stored_in()}"
        if stored_in()
        else _NONE
    )
