"""Packing as the last cure of ``fix``: when it is tried, and what becomes of the proof."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from slowtrain.errors import InputError
from slowtrain.model import Checkup, Diagnosis, Edit, Effect, Evidence, Saving, Subject
from slowtrain.model.measurements import Attempt, ChangedFile, ManualCure, Proof
from slowtrain.pack import fix_packing, packing_run, script_plan
from slowtrain.verify.measurement.edited_files import EditedFiles
from slowtrain.verify.measurement.paired_trial import Bench
from slowtrain.verify.measurement.probe_process import Script

from ..report import checkups  # noqa: TID252  tests are no package
from . import packing
from .test_plan_files import PLAN

SAVING = Saving("step", 2.0, 1.0, 1.5, 2.5)
TRIED = Attempt("packing", "write it once", Effect.EXACT, SAVING, PLAN.proof, True, "", remark="loss within 1e-6")
NOT_SHOWN = (
    "the text does not show that data.py:7 gives the same in each epoch; if you know that it does: slowtrain pack "
    "--plan pack.json --at data.py:7 train.py"
)
ADVICE = ManualCure("input/unsharded-files", "or write it: slowtrain pack --plan pack.json train.py", Effect.EXACT)


def diagnosed(*causes: str, scope: str = "step", after_ms: float = 1.0) -> Checkup:
    saving = structs.replace(SAVING, scope=scope, after_ms=after_ms)
    found = tuple(Diagnosis(cause, cause, Evidence(cause), saving, 0.5) for cause in causes)
    checkup = checkups.healthy()
    subject: Subject = structs.replace(checkup.subject, path="runs/diagnosis-0")
    return structs.replace(checkup, diagnoses=found, subject=subject)


def proof_of(before: Checkup, after: Checkup | None = None, files: tuple[ChangedFile, ...] = ()) -> Proof:
    return Proof(("train.py",), (), None, "", files, before, after, (ADVICE,))


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    """Runs ``with_packing`` with what the trial of packing gives, and returns its answer and the trial's arguments."""

    def run(proof: Proof, attempt: Attempt | InputError = TRIED, left_s: float = 300.0) -> Any:
        asked: list[Any] = []

        def try_packing(_bench: Bench, output: Path, recording: Path, *, files: EditedFiles) -> Any:
            asked.append((str(output), str(recording), files))
            if isinstance(attempt, InputError):
                raise attempt
            return PLAN, attempt

        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(script_plan, "try_packing", try_packing)
        monkeypatch.setattr(fix_packing, "_required_s", lambda _recording: 60.0)
        bench = Bench(Script("train.py"), Path("runs"), time.monotonic() + left_s)
        return (*fix_packing.with_packing(bench, proof), asked)

    return run


def test_what_is_proven_on_a_sample_becomes_a_plan_with_its_commands(tried: Callable[..., Any]) -> None:
    proof, plan, asked = tried(proof_of(diagnosed("input/unsharded-files", "host/launch-bound")))
    assert plan == PLAN
    assert asked == [("packed-train", "runs/diagnosis-0", EditedFiles())]
    assert [(a.name, a.kept, a.planned, a.why) for a in proof.attempts] == [("input/unsharded-files", False, True, "")]
    assert proof.attempts[0].remark == "proven on a sample of 100 elements; loss within 1e-6"
    found = proof.packing
    assert (found.plan, found.bytes, found.seconds) == ("runs/pack.json", 192_500, 0.8)
    assert (found.predicted, found.measured) == (PLAN.saving, PLAN.proof)
    assert found.pack == "slowtrain pack runs/pack.json"
    assert found.verify == "slowtrain verify --patch runs/pack.diff /a/train.py --epochs 3"
    assert found.apply.startswith("git -C ")
    assert proof.by_hand == ()  # the advice to make a plan is followed


def test_the_plan_is_for_the_script_with_the_kept_cures(tried: Callable[..., Any], tmp_path: Path) -> None:
    file = ChangedFile(tmp_path / "train.py", b"before", b"after")
    started, now = diagnosed("host/launch-bound"), diagnosed("input/uncached-input")
    proof, plan, asked = tried(proof_of(started, now, (file,)))
    assert asked[0][2] == EditedFiles({file.path: b"before"}, {file.path: b"after"})
    assert plan.patch == "runs/fix.patch"
    assert plan.notes[-1] == "for the script with runs/fix.patch applied"
    assert proof.files == (file,)


@pytest.mark.parametrize(
    "before",
    [
        diagnosed("host/launch-bound", "input/unsharded-files"),  # not the largest cause
        diagnosed("input/sequential-map"),  # packing is no cure of it
        diagnosed("input/unsharded-files", after_ms=2.0),  # costs no time
        diagnosed("input/unsharded-files", scope="run"),
        diagnosed(),
    ],
)
def test_packing_is_tried_for_the_largest_cause_only(before: Checkup, tried: Callable[..., Any]) -> None:
    given = proof_of(before)
    assert tried(given) == (given, None, [])


def test_a_sample_that_does_not_gain_is_a_dropped_cure(tried: Callable[..., Any]) -> None:
    dropped = replace(TRIED, kept=False, why="it does not help", remark="")
    proof, plan, _ = tried(proof_of(diagnosed("input/slow-storage")), dropped)
    assert plan is None
    assert proof.packing is None
    assert [(a.name, a.kept, a.planned, a.why) for a in proof.attempts] == [
        ("input/slow-storage", False, False, "it does not help")
    ]
    assert proof.by_hand == (ADVICE,)


@pytest.mark.parametrize(
    ("attempt", "left_s", "notes"),
    [
        (script_plan.NothingToPack("train.py", ""), 300.0, ()),
        (
            script_plan.NothingToPack("train.py", "data.py:7"),
            300.0,
            (f"input/python-input: packing was not tried: {NOT_SHOWN}",),
        ),
        (InputError("ragged data"), 300.0, ("input/python-input: packing was not tried: ragged data",)),
        (TRIED, 10.0, ("input/python-input: packing was not tried: no time was left; give a longer --budget",)),
    ],
)
def test_the_cures_stand_if_packing_cannot_be_tried(
    attempt: Attempt | InputError, left_s: float, notes: tuple[str, ...], tried: Callable[..., Any]
) -> None:
    given = proof_of(diagnosed("input/python-input"))
    proof, plan, _ = tried(given, attempt, left_s)
    assert (proof, plan) == (replace(given, notes=notes), None)


# -- plans for edited scripts


def test_a_plan_for_an_edited_script_holds_once_the_edits_are_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_bytes(b"import tensorflow as tf\r\nds = a\r\n")
    files = EditedFiles().with_edits([Edit(str(path), (2, 5), (2, 6), "bb")], str(tmp_path))
    assert files.text_of(path) == "import tensorflow as tf\nds = bb\n"
    source = replace(
        PLAN.source, path=str(path), file=str(path), line=2, folder=str(tmp_path),
        digest=packing_run.file_digests({str(path)}, files),
    )  # fmt: skip
    plan = replace(PLAN, source=source, patch="fix.patch", marked_edits=(Edit(str(path), (2, 7), (2, 7), ".cache()"),))
    with pytest.raises(InputError, match=r"apply fix\.patch first, or make the plan again"):
        packing_run.require_same_source(plan)
    read = packing_run.reading_files(plan, [packing_folder(tmp_path)], files)
    assert "ds = bb.apply(read_packed)" in read.text_of(path)
    path.write_bytes(files.current[path])
    packing_run.require_same_source(plan)
    assert packing_run.reading_files(plan, [packing_folder(tmp_path)]).current == read.current


def packing_folder(folder: Path) -> Any:
    from slowtrain.model.packing import PackedFolder, PackedShard

    return PackedFolder(str(folder / "packed"), 10, (PackedShard("elements-00000.tfrecord", 10, 100, "00"),))


# -- the command

SCRIPT = """
    import glob
    import tensorflow as tf

    def load(path):
        image = tf.io.decode_png(tf.io.read_file(path), channels=3)
        return tf.image.resize(image, (24, 24)) / 255.0, tf.strings.length(path) % 2

    files = sorted(glob.glob("images/*.png")) * 100
    dataset = tf.data.Dataset.from_tensor_slices(files).map(load).batch(16)
    dataset = dataset.map(lambda x, y: (tf.image.random_flip_left_right(x), y))
    model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(2)])
    model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(dataset, epochs=2, verbose=0)
"""


@pytest.mark.bench
@pytest.mark.tensorflow
def test_fix_packs_what_is_left_after_cheaper_edits(tmp_path: Path) -> None:
    """An epoch takes longer than a probe, so that no cache can be proven, and a parallel map leaves the decoding."""
    import tensorflow as tf

    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    for n in range(100):
        content = tf.io.encode_png(rng.integers(0, 255, (512, 512, 3), np.uint8)).numpy()
        (tmp_path / "images" / f"{n:04d}.png").write_bytes(content)
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT))

    def slowtrain(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "slowtrain", *arguments], capture_output=True, text=True, timeout=700, check=False,
            cwd=tmp_path, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )  # fmt: skip

    done = slowtrain("fix", "--budget", "8m", "--json", "fix.json", "--out", "runs", "train.py")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "fix.json").read_text())["fix"]
    assert "packing" in found, done.stdout
    assert found["packing"]["measured"]["speedup"] > 1.5
    assert not list(tmp_path.glob("packed-*"))  # fix writes no data
    assert (tmp_path / "train.py").read_text() == textwrap.dedent(SCRIPT)
    if found["diff"]:
        refused = slowtrain("pack", found["packing"]["plan"])
        assert refused.returncode == 2
        assert "fix.patch first, or make the plan again" in refused.stderr
        subprocess.run(["sh", "-c", found["apply"]], cwd=tmp_path, check=True)
    packed = slowtrain("pack", found["packing"]["plan"])
    assert packed.returncode == 0, packed.stderr
    subprocess.run(["sh", "-c", found["packing"]["apply"]], cwd=tmp_path, check=True)
    assert "apply(read_packed)" in (tmp_path / "train.py").read_text()
    assert packing.contents(tmp_path / "packed-train")
