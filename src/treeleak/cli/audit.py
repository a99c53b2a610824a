"""``treeleak audit``."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from treeleak.cli import batch
from treeleak.cli import options as opt
from treeleak.cli.application import app, in_bounds
from treeleak.cli.files import (
    AUDITED,
    BAD_INPUT,
    NO_ANSWER,
    VIOLATED,
    check_different,
    check_place,
    check_words,
    console,
    make_paths,
    progress_shown,
    say,
    status_of,
)
from treeleak.cli.options import clock_of, columns_of, read_schema
from treeleak.cli.tables import Beside, Tables, named, schema_named, training_rows
from treeleak.core.clock import Clock
from treeleak.core.errors import BadInput, TimeUp
from treeleak.core.output import write_file

if TYPE_CHECKING:
    from treeleak.auditing import Audit, Edition
    from treeleak.bridges.sacro_target import Target
    from treeleak.cli.tables import Tables
    from treeleak.schema import Schema


@app.command()
def audit(
    ctx: typer.Context,
    models: opt.SeveralAudited,
    *,
    schema: opt.SchemaFile = None,
    train: opt.Train = None,
    label: opt.Label = None,
    control: opt.Control = None,
    sensitive: opt.Sensitive = None,
    groups: opt.Groups = None,
    time_limit: opt.TimeLimit = 60,
    seed: opt.Seed = 0,
    bootstrap: opt.Bootstrap = "auto",
    seed_search: opt.SeedSearch = 1_000_000,
    n_rows: opt.NRows = None,
    known_rows: opt.KnownRows = None,
    known_columns: opt.KnownColumns = None,
    population: opt.Population = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Conditions for a release (TOML). If the model fails one, or one was not "
            "assessed, the exit status is 4, as it is if time ran out (3 without a policy).",
        ),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the audit as JSON.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|FOLDER",
            help="Also write a report for those who decide: HTML, or PDF if FILE ends in .pdf "
            "(needs Chromium). For several models: a folder for their reports, with an "
            "index; with a policy, none is needed.",
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option(metavar="N", min=1, help="For several models: how many at a time.")
    ] = 1,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="For several models: a Dask scheduler whose workers see the same files.",
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option("--again", help="For several models: also repeat finished audits."),
    ] = False,
    sacro_report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also add an entry to a report of SACRO-ML (JSON)."),
    ] = None,
    internal: Annotated[
        bool,
        typer.Option(
            "--internal/--releasable",
            help="Show rebuilt rows in the terminal, the JSON and the report. Only you can read "
            "these files then. Without this option they hold nothing about single rows, "
            "values and small groups.",
        ),
    ] = False,
    trust_pickle: opt.TrustPickle = False,
    quiet: opt.Quiet = False,
) -> None:
    """Find out what a model discloses: inventory, counts, reconstruction."""
    clock = clock_of(time_limit, bootstrap)
    import treeleak
    from treeleak.auditing.assessors.counts import THRESHOLD
    from treeleak.bridges.sacro_report import add_report, report_entry
    from treeleak.report import render
    from treeleak.report.pdf import find_chromium, is_pdf, print_page

    make_paths(ctx)
    check_words(ctx.obj)
    if batch.wanted(models, report, cluster):
        raise typer.Exit(batch.audit_all(ctx, batch.Running(jobs, cluster, again, quiet)))
    (model,) = models
    if control is not None and train is None:
        raise BadInput("--control is compared with the training rows: give --train, too")
    beside = Beside(known_rows, known_columns, population)
    others = other_labels = None
    with in_bounds(clock), clock.enforced():
        target = target_at(model, trust_pickle, train=train, label=label, control=control)
        if target is not None:
            model, train = target.model, None if target.X_train is None else target.description
        secret = columns_of("--sensitive", sensitive, train)
        by = columns_of("--groups", groups, train)
        known = read_schema(schema)
        rule = None if policy is None else treeleak.read_policy(policy)
        tables = Tables(model, known, label, trust_pickle)
        if target is not None:
            rows, labels, others, known = inputs_of_target(target, tables, known, quiet)
            other_labels = None if others is None else target.y_test
        else:
            rows, labels = training_rows(tables, train, beside.files)
            if train is not None and rows is not None:
                tables.check(train, rows, labels)
        if control is not None:
            others = tables.read(control)
            if label is not None and label in others:
                other_labels = others.pop(label).to_numpy()
        side_information, source = beside.read(tables), tables.model_file
    input_files = (model, schema, train, control, policy, *beside.files)
    _check_places(json, report, sacro_report, input_files)
    browser = find_chromium() if report is not None and is_pdf(report) else None
    names = {} if control is None else {"the control rows": control}

    def finish(result: Audit) -> int:
        files = {"schema": schema, "train": train, "control": control, "policy": policy}
        result = result.with_inputs(files | beside.by_name)
        if rule is not None:
            result = replace(result, ruling=treeleak.judge(result, rule))
        edition: Edition = "internal" if internal else "releasable"
        if json is not None:
            result.to_json(json, edition)
        if report is not None:
            page = result.to_html(None, edition, _typed(ctx, None if internal else _named(result)))
            printed = page if browser is None else print_page(page, browser)
            write_file(report, printed, private=internal)
        if sacro_report is not None:
            add_report(sacro_report, report_entry(result, None if target is None else target.about))
        render(result, console(), internal)
        if report is not None:
            say(f"treeleak: the report, {edition} edition, is in {report}")
        if result.mismatch is not None:
            say(f"treeleak: {train}: these rows do not fit the model: {result.mismatch}")
        return _status(result, model, clock)

    def cut_off() -> int:
        if clock.best is None:
            raise TimeUp(clock.timeout_message)
        return finish(cast("Audit", clock.best()))

    with (
        in_bounds(clock, cut_off),
        progress_shown(quiet, clock) as progress,
        beside.named(),
        named(names),
        schema_named(schema),
    ):
        result = treeleak.audit(
            source,
            rows,
            labels,
            schema=known,
            time_limit=clock,
            seed=seed,
            bootstrap=bootstrap,
            seed_search=seed_search,
            trust_pickle=trust_pickle,
            progress=progress,
            n_rows=n_rows,
            control=others,
            control_y=other_labels,
            threshold=THRESHOLD if rule is None else rule.threshold,
            sensitive=secret,
            groups=by,
            on_mismatch="report",
            **side_information,
        )
    raise typer.Exit(finish(result))


def _check_places(
    json: Path | None, report: Path | None, sacro: Path | None, inputs: Collection[Path | None]
) -> None:
    """Refuse, before the attack, what could not be written after it."""
    from treeleak.bridges.sacro_report import entries_in

    if sacro is not None:
        entries_in(sacro)
    for place in (json, report, sacro):
        if place is not None:
            check_place(place, *inputs)
    if report is not None and report.suffix.lower() not in ("", ".html", ".htm", ".pdf"):
        raise BadInput(f"{report}: a report is HTML or PDF: name it {report.stem}.html, or .pdf")
    check_different(json, report, sacro)


def _status(result: Audit, model: Path, clock: Clock) -> int:
    """Choose the exit status, and say why where nothing printed does."""
    from treeleak.auditing.findings.finding import OPEN

    status = status_of(result.reconstruction)
    if clock.timeout_message in dict(result.not_assessed).values():
        status = NO_ANSWER if result.reconstruction is None else status
    refuted = None if result.budget is None else result.budget.refuted
    if refuted is not None:
        say(f"treeleak: {model}: {refuted}.")
    if status == AUDITED and (result.mismatch is not None or refuted is not None):
        status = BAD_INPUT
    if result.ruling is not None and not result.ruling.passed and status in (AUDITED, NO_ANSWER):
        status = VIOLATED
    if status == AUDITED and result.of == "leaves" and result.reconstruction is None:
        say(f"treeleak: {model}: {result.reason('reconstruction')}.")
        status = BAD_INPUT if result.verdict == OPEN else status
    if status == AUDITED and result.not_looked_at is not None and result.verdict == OPEN:
        say(f"treeleak: {model}: {result.not_looked_at}.")
        status = BAD_INPUT
    return status


def _named(result: Audit) -> frozenset[str]:
    """Columns asked for that the releasable edition tells of."""
    document = result.document()
    items = [*(document["exposure"] or {}).get("groups", ())]
    items += (document["exposure"] or {}).get("columns", ())
    items += (document["article29"] or {}).get("inference", ())
    return frozenset(item["column"] for item in items)


def _typed(ctx: typer.Context, columns: Collection[str] | None) -> str:
    """What was typed; for others without folders, which may name people or projects.

    Nor are other columns than these named then: that of a category may be one that few rows have.
    """
    if columns is None:
        return shlex.join(["treeleak", *ctx.obj])
    files = {value for value in ctx.params.values() if isinstance(value, Path)}
    files.update(ctx.params["models"])
    lists = {ctx.params["sensitive"], ctx.params["groups"]} - {None}

    def shown(value: str) -> str:
        if value in lists:
            return ",".join(c if c.strip() in columns else "…" for c in value.split(","))
        return Path(value).name if Path(value) in files else value

    def named(word: str) -> str:
        option, equals, value = word.partition("=")
        return f"{option}={shown(value)}" if equals and option.startswith("--") else shown(word)

    return shlex.join(["treeleak", *map(named, ctx.obj)])


def target_at(model: Path, trust_pickle: bool, **tables: Path | str | None) -> Target | None:
    """Read the target folder that a command was given in the place of a model, if it is one.

    ``tables``: options that a folder leaves no room for, by their names.
    """
    from treeleak.bridges.sacro_target import is_target, read_target

    if not is_target(model):
        return None
    target = read_target(model, trust_pickle)
    for name, table in tables.items():
        if table is not None:
            raise BadInput(f"--{name}: a target folder has its own rows and labels: leave it out")
    return target


def inputs_of_target(
    target: Target, tables: Tables, known: Schema | None, quiet: bool
) -> tuple[Any, Any, Any, Schema | None]:
    """Give a folder's training rows, labels, other rows and schema, and say what was left aside."""
    from treeleak.release import Release

    notes = target.notes
    if known is None and isinstance(tables.content, Release):
        known, more = target.schema_for(tables.content)
        notes += more
    for note in () if quiet else notes:
        say(f"treeleak: {target.description}: {note}")
    others = None if target.X_train is None else target.X_test
    return target.X_train, target.y_train, others, known
