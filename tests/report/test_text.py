"""The terminal report: the answer first, in any width, on any stream."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from slowtrain.model import DeviceUse, IdleGap
from slowtrain.report import text
from slowtrain.report.terminal import Terminal

from . import checkups

WIDTHS = (32, 40, 80, 120)
SGR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("name", checkups.ALL)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("unicode", [True, False])
def test_fits_its_width_and_holds_no_controls(name: str, width: int, unicode: bool) -> None:
    report = text.checkup_text(checkups.ALL[name](), width=width, unicode=unicode)
    assert max(cell_len(line) for line in report.splitlines()) <= width
    assert not [c for c in report if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs")]
    assert unicode or report.isascii()
    report.encode("utf-8")


@pytest.mark.parametrize("name", checkups.ALL)
def test_fits_a_screen(name: str) -> None:
    assert len(text.checkup_text(checkups.ALL[name](), width=80).splitlines()) <= 38
    assert len(text.checkup_text(checkups.ALL[name](), width=80, height=24).splitlines()) <= 24 + 4


@pytest.mark.parametrize("name", checkups.ALL)
def test_colour_adds_nothing_but_colour(name: str) -> None:
    coloured = text.checkup_text(checkups.ALL[name](), colour=True)
    assert SGR.search(coloured)
    assert SGR.sub("", coloured) == text.checkup_text(checkups.ALL[name]())


def test_says_the_answer_first() -> None:
    lines = text.checkup_text(checkups.input_bound()).splitlines()
    assert lines[0].startswith("INPUT-BOUND: Each step waits 8.1")
    report = "\n".join(lines)
    for said in (
        "1.9x (1.7x to 2.1x) of a step",
        "1.28x (1.15x to 1.37x) of the run",
        "train.py:41 ds = files.map(decode)",
        "input/sequential-map",
        "Add num_parallel_calls",
        "[same numbers]",
        "Not checked: 4 causes",
        "slowtrain fix",
    ):
        assert said in report
    assert report.index("Where a step goes") < report.index("The input map") < report.index("Not checked")


def test_largest_parts_first_and_what_is_unknown_always() -> None:
    for height in (38, 20, 1):
        report = text.checkup_text(checkups.input_bound(), height=height)
        assert re.search(r"input +\S+ +8\.1 ms +66%", report)
        assert re.search(r"unattributed +\S+ +0\.3 ms +2\.4%", report)


def test_why_a_device_waits_is_said_down_to_a_tenth_however_little_room_there_is() -> None:
    idle = checkups.parts(dispatch=5.0, queue=3.0, python=1.5, sync=0.5)
    device = DeviceUse("GPU:0", "GPU", 0.5, 9.0, 12.0, None, None, idle, (IdleGap(0.0, 2.0, "queue", 1.0, ""),))
    report = text.checkup_text(replace(checkups.input_bound(), device=device), height=1)
    assert re.search(r"50% for the host to launch.*\n +30% .*\n +15% ", report)
    assert " 5% " not in report.split("Why GPU:0 waits")[1].split("longest gaps")[0]


@pytest.mark.parametrize("make", [checkups.failed, checkups.insufficient])
def test_without_a_verdict_says_so_first_and_what_to_do(make: object) -> None:
    lines = text.checkup_text(make()).splitlines()  # type: ignore[operator]
    assert lines[0].split(":")[0] in ("FAILED", "INSUFFICIENT DATA")
    assert any("Run at least 50 steps" in line for line in lines[:9])
    assert "Where a step goes" not in "\n".join(lines)


def test_startup_shows_the_run() -> None:
    report = text.checkup_text(checkups.startup())
    assert "Where the run goes" in report
    assert "A step (input-bound) 12.3 ms: input 66%" in report


def test_long_lists_are_cut_with_a_sign() -> None:
    assert "more, see --html)" in text.checkup_text(checkups.long_names())
    everything = text.checkup_text(checkups.long_names(), height=None)
    assert "more, see --html)" not in everything
    assert len(re.findall(r"^ *\d+ a_very", everything, re.MULTILINE)) == 12


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("height", [38, 24, None])
def test_a_note_is_whole_where_it_is_shown(width: int, height: int | None) -> None:
    notes = tuple(f"{n} what qualifies all figures " + "is told to its very end " * 4 + "whole" for n in "abc")
    report = text.checkup_text(replace(checkups.input_bound(), notes=notes), width=width, height=height)
    shown = [n for n in notes if f"Note: {n[:8]}" in report]
    assert shown or height == 24
    for note in shown:
        assert note in " ".join(report.split())


@pytest.mark.parametrize("width", [32, 60, 80])
def test_a_title_that_needs_two_lines_has_them(width: int) -> None:
    title = "Starting the step's operations takes longer than computing them"
    checkup = checkups.input_bound()
    checkup = replace(checkup, diagnoses=(replace(checkup.diagnoses[0], title=title), *checkup.diagnoses[1:]))
    report = text.checkup_text(checkup, width=width, height=None)
    words = iter(report.split())
    assert all(word in words for word in title.split()), report
    assert max(map(len, report.splitlines())) <= width


def test_not_measured_never_reads_as_a_number() -> None:
    report = text.checkup_text(checkups.hostile())
    assert "nan" not in report.replace("nan  ", "").lower()
    assert "not measured" in report


def test_names_keep_apart_without_unicode() -> None:
    paper = Terminal(80, False, False)
    assert paper.plain("caf\u00e9") == "caf\\xe9"
    assert paper.fit("\u8a9e" * 4, 10) == "\\u8a9e\\..."
    assert Terminal(80, False, True).fit("\u8a9e" * 9, 6) == "\u8a9e\u8a9e…"


def test_words_longer_than_a_line_are_broken() -> None:
    paper = Terminal(80, False, True)
    assert paper.wrap("ab " + "x" * 12, 5) == ["ab", "xxxxx", "xxxxx", "xx"]
    assert paper.wrap("one two three", 9, 1) == ["one two…"]
    assert paper.wrap("", 9) == []


def test_starts_quickly() -> None:
    """Text needs of Rich what is quick to import, and no template engine; ``docs/dependencies.md`` has the times."""
    slow = "{'numpy', 'jinja2', 'markdown_it', 'rich.console', 'rich.table', 'tensorflow'}"
    code = f"import sys; from slowtrain.report import documents, text; print([m for m in sys.modules if m in {slow}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_nothing_that_prints_is_imported_into_the_users_process() -> None:
    code = (
        "import importlib, pkgutil, sys, slowtrain.capture, slowtrain.monitor, slowtrain.watch.frame_stream\n"
        "import slowtrain.watch.frame_outputs\n"
        "for module in pkgutil.iter_modules(slowtrain.capture.__path__, 'slowtrain.capture.'):\n"
        "    importlib.import_module(module.name)\n"
        "print([m for m in sys.modules if m in {'rich', 'jinja2', 'markdown_it', 'msgspec'}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


def test_the_recorder_imports_no_numpy() -> None:
    """NumPy keeps the functions that open files, which a probe redirects before the script imports it."""
    modules = "slowtrain.capture.process.recorder_setup, slowtrain.capture.sandbox.probe"
    code = f"import sys, {modules}; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "False", done.stderr
