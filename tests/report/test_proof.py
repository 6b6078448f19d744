"""A proof as text, as JSON and as a page, with hostile names in every place that a program can choose."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from slowtrain.model import Effect, Saving, Verdict
from slowtrain.model.measurements import Attempt, ChangedFile, ManualCure, PlannedPacking, Proof
from slowtrain.report import documents, pages
from slowtrain.report import proof as report

from . import checkups
from .test_browser import BROWSER, browse

BETTER = Verdict("better", 1.61, 1.24, 2.1, 8, "within 4e-06", first_step_s=(4.0, 24.3))
DIFF = (
    "--- a/train.py\n+++ b/train.py\n@@ -1,2 +1,2 @@\n x = 1\n-ds = ds.map(f)\n+ds = ds.map(f, num_parallel_calls=4)\n"
)
REMARK = "loss differs by 0.0% in the mean of 30 steps, allowed 2.1%"
SAVING = Saving("step", 2.0, 1.2, 1.2, 2.2)
KEPT = Attempt("input/sequential-map", "make it parallel", Effect.EQUIVALENT, SAVING, BETTER, True, "", DIFF, REMARK)
WORSE = Verdict("no better", 1.01, 0.97, 1.05, 6, "same")
DROPPED = replace(KEPT, name="host/launch-bound", verdict=WORSE, kept=False, why="it does not help", remark="")


def proven() -> Proof:
    return Proof(
        ("train.py", "--epochs", "3"),
        (KEPT, DROPPED),
        BETTER,
        DIFF,
        (ChangedFile(Path("train.py"), b"a", b"b"),),
        checkups.input_bound(),
        checkups.healthy(),
        (
            ManualCure("input/slow-storage", "move the data", Effect.EXACT, ("train.py:3", "train.py:8")),
            ManualCure("compute/small-batch", "take more", Effect.CHANGES_TRAINING, (), "--allow changes-training"),
        ),
        ("train.py:7 subprocess starts other programs",),
        ("two files went to a scratch folder",),
        75.0,
        "git -C '/home/a & b' apply /home/fix.patch",
        "git -C '/home/a & b' apply -R /home/fix.patch",
    )


def planned() -> Proof:
    """A cure was kept, and packing was proven on top of it."""
    packing = PlannedPacking(
        "runs/pack.json", "/a/packed-train", 282 << 20, 36.1, 670, SAVING, BETTER,
        "slowtrain pack runs/pack.json", "slowtrain verify --patch runs/pack.diff train.py", "git apply runs/pack.diff",
    )  # fmt: skip
    attempt = replace(KEPT, says="write it once", kept=False, planned=True, diff="", remark="proven on a sample")
    return replace(proven(), attempts=(KEPT, DROPPED, attempt), packing=packing)


def hostile() -> Proof:
    evil = checkups.EVIL
    verdict = Verdict("better", math.nan, 0.0, math.inf, 4, evil)
    attempt = Attempt(evil, evil, Effect.EXACT, None, verdict, False, evil, evil, evil)
    diff = f"--- a/{evil}\n+++ b/{evil}\n+{evil}\n"
    before = checkups.hostile()
    left = ManualCure(evil, evil, Effect.EXACT, (evil,), evil)
    found = Proof((evil,), (attempt,), verdict, diff, (), before, before, (left,), (evil,), (evil,))
    return replace(found, apply=evil, undo=evil)


def test_the_answer_comes_first_and_a_dropped_cure_says_why() -> None:
    lines = report.proof_text(proven(), width=80).splitlines()
    assert lines[0] == "1 cure kept: 1.61x (1.24x to 2.10x) as fast, measured in 8 runs"
    assert all(len(line) <= 80 for line in lines)
    text = "\n".join(lines)
    assert "dropped: it does not help" in text
    assert "input/slow-storage: move the data [same numbers] (train.py:3, train.py:8)" in text
    assert "compute/small-batch: take more [changes training; needs --allow" in text
    assert "first step done after 4.0 s, with it after 24.3 s" in text
    assert "loss differs by 0.0% in the mean of 30 steps, allowed 2.1%" in text
    assert "+ds = ds.map(f, num_parallel_calls=4)" in text
    assert " x = 1" in lines  # a diff's context keeps the space before it


@pytest.mark.parametrize("width", [40, 72, 80, 200])
@pytest.mark.parametrize("unicode", [True, False])
def test_hostile_names_steer_no_terminal(width: int, unicode: bool) -> None:
    text = report.proof_text(hostile(), width=width, unicode=unicode)
    assert all(c.isprintable() or c == "\n" for c in text)
    assert all(len(line) <= max(width, 40) for line in text.splitlines())


def test_nothing_kept_says_why() -> None:
    found = replace(proven(), attempts=(DROPPED,), together=None, diff="")
    assert report.proof_headline(found) == "nothing kept: it does not help"
    assert report.proof_headline(replace(found, attempts=())) == (
        "no cure can be applied safely; what you can do is below"
    )
    assert report.proof_headline(replace(found, attempts=(), by_hand=(), before=checkups.healthy())).startswith(
        "nothing to cure: "
    )


def test_what_was_kept_is_kept_where_no_time_was_left_for_all_together() -> None:
    first = next(a for a in proven().attempts if a.kept)
    found = replace(proven(), attempts=(first, first), together=None)
    assert report.proof_headline(found).startswith("2 cures kept, each measured beside those before it")
    assert json.loads(report.proof_json(found, written=False))["fix"]["outcome"] == "cannot tell"


def test_a_script_that_does_not_train_is_not_called_cured() -> None:
    found = Proof(("x.py",), (), None, "", (), checkups.insufficient())
    assert report.proof_headline(found).startswith("cannot tell: ")


def test_the_json_contract() -> None:
    found = json.loads(report.proof_json(proven(), written=True))
    assert found["schema"] == "slowtrain.checkup/1"
    fix = found["fix"]
    assert (fix["outcome"], fix["speedup"], fix["runs"], fix["loss"]) == ("better", 1.61, 8, "within 4e-06")
    assert (fix["kept"], fix["written"], fix["diff"]) == (["input/sequential-map"], True, DIFF)
    assert fix["dropped"] == [{"cause": "host/launch-bound", "why": "it does not help"}]
    assert (fix["scope"], fix["first_step_s"]) == ("step", {"before": 4.0, "after": 24.3})
    assert fix["attempts"][0]["verdict"]["first_step_s"] == {"before": 4.0, "after": 24.3}
    assert (fix["attempts"][0]["remark"], fix["attempts"][1]["verdict"]["first_step_s"]) == (REMARK, None)
    assert fix["by_hand"][0]["where"] == ["train.py:3", "train.py:8"]
    needs = [(one["effect"], one["needs"]) for one in fix["by_hand"]]
    assert needs == [("exact", None), ("changes training", "--allow changes-training")]
    after = json.loads(documents.checkup_json(checkups.healthy()))
    assert fix["after"] == {"attribution": after["attribution"]}
    whole = replace(proven(), together=structs.replace(BETTER, scope="run"), after=None)
    fix = json.loads(report.proof_json(whole, written=False))["fix"]
    assert (fix["scope"], fix["after"]) == ("run", None)
    assert (fix["apply"], fix["undo"]) == (proven().apply, proven().undo)
    fix = json.loads(report.proof_json(replace(proven(), apply="", undo=""), written=False))["fix"]
    assert (fix["apply"], fix["undo"]) == (None, None)
    verdicts = {d["cause"]: d["verdict"] for d in found["diagnoses"]}
    assert verdicts["input/sequential-map"]["speedup"] == 1.61
    json.loads(report.proof_json(hostile(), written=False))


def test_packing_is_a_plan_and_neither_kept_nor_dropped() -> None:
    both = planned()
    gain = "1.61x (1.24x to 2.10x) as fast, measured in 8 runs"
    assert report.proof_headline(both) == f"1 cure kept: {gain}; on top of it, packing proven on a sample: {gain}"
    alone = replace(both, attempts=both.attempts[1:], together=None)
    assert report.proof_headline(alone) == f"packing proven on a sample: {gain}"
    rows = [line for line in report.proof_text(both).splitlines() if line.startswith("input/sequential-map")]
    assert [row.split()[-1] for row in rows] == ["kept", "plan"]
    found = json.loads(report.proof_json(both, written=False))["fix"]
    assert [one["cause"] for one in found["dropped"]] == ["host/launch-bound"]
    assert (found["packing"]["bytes"], found["packing"]["predicted"]) == (282 << 20, pytest.approx(1.667, rel=1e-3))
    assert found["packing"]["measured"]["speedup"] == pytest.approx(1.61)
    page = pages.proof_page(both, written=False)
    assert "writes /a/packed-train: 282 MiB, about 36.1 s" in page
    assert page.index("slowtrain pack runs/pack.json") < page.index("git apply runs/pack.diff")


def test_the_page_escapes_and_shows_both_sides() -> None:
    page = pages.proof_page(proven(), written=False)
    assert "Before: where a step goes" in page
    assert "After: where a step goes" in page
    assert "First step done after 4.0 s, with it after 24.3 s." in page
    assert "needs --allow changes-training" in page
    assert "<script>alert(1)" not in pages.proof_page(hostile(), written=False)


@pytest.mark.parametrize("written", [True, False])
def test_the_page_says_how_to_apply_the_patch_and_take_it_back(written: bool) -> None:
    page = pages.proof_page(proven(), written=written)
    command = "<code>git -C &#39;/home/a &amp; b&#39; apply {}/home/fix.patch</code>"
    assert page.count(command.format("-R ")) == 1
    assert page.count(command.format("")) == (0 if written else 1)
    assert ("It is written." in page) is written
    assert "ake it back" not in pages.proof_page(replace(proven(), apply="", undo=""), written=False)
    assert "<script>alert(1)" not in pages.proof_page(hostile(), written=written)


@pytest.mark.browser
@pytest.mark.skipif(BROWSER is None or shutil.which(BROWSER) is None, reason="no chromium on this machine")
@pytest.mark.parametrize("found", [proven(), hostile()], ids=["proven", "hostile"])
def test_the_page_in_a_browser(found: Proof, tmp_path: Path) -> None:
    dom = browse(tmp_path, pages.proof_page(found, written=False), "--dump-dom").stdout
    assert "What was tried" in dom
    assert "The patch" in dom
