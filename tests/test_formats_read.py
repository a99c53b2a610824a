"""What ``treeleak formats`` lists: every reader, every format to harden, every kind of model."""

from helpers.cli import run
from treeleak.hardening.formats import FORMATS
from treeleak.release import registry
from treeleak.release.unsupported_formats import kind_of_folder, kind_of_members


def test_every_reader_says_what_its_files_are_called_and_disclose():
    described = {known.name: known for known in registry.formats_read()}
    for reads in registry._FORMATS:
        assert described[reads.name].endings, reads.name
        assert described[reads.name].discloses, reads.name
    for mark in registry._OF_FILES:
        assert any(mark in f.endings for f in described.values()), mark
    assert {known.name for known in FORMATS} <= described.keys()
    assert len(described) == len(registry.formats_read())


def test_the_list_names_formats_extras_steps_and_models():
    said = run("formats").stdout
    for known in registry.formats_read():
        assert known.name in said
        assert known.needs in said
    for known in FORMATS:
        assert ", ".join(step.name for step in known.steps) in said
    for package, names in registry.kinds_read().items():
        assert package in said
        assert set(names) <= set(said.replace(",", " ").split())
    assert "RandomForestClassifier" in said


def test_a_reader_that_says_nothing_is_listed_by_its_name(instead):
    instead("_FORMATS", [*registry._FORMATS], registry)
    registry.reader("new kind", lambda _: False)(lambda *_: None)
    assert "new kind" in run("formats").stdout


def test_models_that_are_not_read_are_named_with_the_way_to_write_them(tmp_path):
    assert "H2OTree" in kind_of_members(["model.ini", "trees/t00.bin"])
    for part in ("metadata", "data", "treesMetadata"):
        (tmp_path / part).mkdir()
    assert "PMML" in kind_of_folder(tmp_path)
