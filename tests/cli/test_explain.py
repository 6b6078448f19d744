"""``slowtrain explain``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slowtrain.cause_folder import add_examples, cause_files
from slowtrain.causes import all_causes
from slowtrain.cli import explain
from slowtrain.errors import InputError

IDS = ["host/eager-step", "host/retracing", "input/sequential-map", "input/per-element-map", "other/retracing"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "slowtrain", "explain", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_it_reads_what_the_catalogue_holds() -> None:
    pages = [explain.read_cause_page(file) for file in cause_files().values()]
    # A file that declares no cause is code that causes share: it must not appear either way.
    read = {page.id: page for page in pages if page is not None}
    assert set(read) == {cause.id for cause in all_causes()}
    for cause in all_causes():
        assert read[cause.id].title == cause.title
        assert read[cause.id].doc.split() == add_examples(cause.page, cause.fixes).split()


def test_the_list_has_every_cause_with_its_title() -> None:
    done = run()
    assert (done.returncode, done.stderr) == (0, "")
    for cause in all_causes():
        assert any(line.split() == [cause.id, *cause.title.split()] for line in done.stdout.splitlines()), cause.id


def test_a_page_begins_with_its_id_and_has_its_headings() -> None:
    cause = all_causes()[0]
    done = run(cause.id)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{cause.id}: {cause.title}\n\n")
    assert "\n## What to do\n" in done.stdout
    assert run(cause.id.split("/")[1]).stdout == done.stdout


@pytest.mark.parametrize("said", ["input/sequential-map", "sequential-map", "sequential_map", " Sequential-Map/ "])
def test_ways_to_name_a_cause(said: str) -> None:
    assert explain.find_cause(said, IDS) == "input/sequential-map"


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("sequental-map", "did you mean input/sequential-map"),
        ("eager", "did you mean host/eager-step"),
        ("retracing", "matches several causes; did you mean host/retracing or other/retracing?"),
        ("", "lists them all"),
        ("zzzz", "'zzzz' is not a cause; 'slowtrain explain' lists them all"),
    ],
)
def test_a_wrong_name_gets_the_closest(said: str, hint: str) -> None:
    with pytest.raises(InputError) as error:
        explain.find_cause(said, IDS)
    assert hint in str(error.value)


def test_a_wrong_name_is_one_line_and_code_2() -> None:
    done = run("no-such-\ncause")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_a_file_without_a_cause_has_no_page(tmp_path: Path) -> None:
    file = tmp_path / "shared.py"
    file.write_text("LIMIT = 3\n\nclass Part:\n    'Not a cause.'\n\n    size: int = 3\n")
    assert explain.read_cause_page(file) is None
