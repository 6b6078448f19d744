"""``slowtrain pack`` from a script to packed data and the patch that reads them, as a user does it."""

from __future__ import annotations

import io
import json
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slowtrain.cli import main
from slowtrain.pack import script_plan
from slowtrain.verify.measurement import paired_trial
from slowtrain.verify.measurement.paired_trial import Trial

from ..warm import warm_probes  # noqa: TID252  tests are no package
from . import packing

pytestmark = pytest.mark.tensorflow

SCRIPT = """
    import glob
    import tensorflow as tf

    def load(path):
        image = tf.io.decode_png(tf.io.read_file(path), channels=3)
        return tf.image.resize(image, (24, 24)), tf.strings.length(path)

    def data(names):
        return tf.data.Dataset.from_tensor_slices(names).map(load).batch(16)

    def scaled(x, y):
        return x / 255.0, y % 2

    files = sorted(glob.glob("images/*.png"))
    train, held_out = data(files[60:]), data(files[:60])
    model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(2)])
    model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    if __name__ == "__main__":
        model.fit(train.map(scaled), validation_data=held_out.map(scaled), epochs=2, verbose=0)
        open("trained.txt", "w").write("trained")
"""
ELEMENTS = """
    import hashlib, os, sys
    sys.argv = ["x"]
    for folder in ("before", ".."):
        os.chdir(folder)
        names = {}
        exec(open("train.py").read().replace('__name__ == "__main__"', "False"), names)
        digest = hashlib.sha256()
        for dataset in (names["train"], names["held_out"]):
            for image, label in dataset.unbatch().as_numpy_iterator():
                digest.update(image.tobytes() + label.tobytes())
        print(digest.hexdigest())
"""


def pack(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """The exit code of ``slowtrain pack`` and what it says, with probes that are quick to start."""
    out, err = io.StringIO(), io.StringIO()
    with warm_probes(), pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        code = main(["pack", *arguments])
    return code, out.getvalue(), err.getvalue()


def thrice_the_pair(*arguments: Any) -> Trial:
    trial = paired_trial.run_trial(*arguments)
    return replace(trial, pairs=3 * trial.pairs)


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a script, its images and a plan, proven by one pair of runs."""
    import tensorflow as tf

    folder, rng = tmp_path_factory.mktemp("project"), np.random.default_rng(0)
    (folder / "images").mkdir()
    for n in range(600):
        content = tf.io.encode_png(rng.integers(0, 255, (64, 64, 3), np.uint8)).numpy()
        (folder / "images" / f"{n:04d}.png").write_bytes(content)
    (folder / "train.py").write_text(textwrap.dedent(SCRIPT))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paired_trial, "is_decided", lambda _: True)
        patch.setattr(script_plan, "run_trial", thrice_the_pair)
        patch.setattr(script_plan, "MIN_PROOF_S", 0.1)
        code, said, err = pack(folder, "--plan", "pack.json", "train.py")
    assert code == 0, err
    (folder / "said.txt").write_text(said)
    return folder


def test_the_plan_says_first_what_will_happen(planned: Path) -> None:
    said = (planned / "said.txt").read_text()
    plan = json.loads((planned / "pack.json").read_text())["plan"]
    assert plan["lengths"] == [540, 60]
    assert plan["sample"]["verified"] == plan["sample"]["elements"] == 540
    assert plan["proof"]["runs"] == 6
    for words in (
        "an element is ready",
        "the 2 data sets built there, 600 elements",
        "disk: ",
        "time: ",
        "540 elements of the sample read back, equal bit for bit and in order",
        "slowtrain pack pack.json",
    ):
        assert words in " ".join(said.split())
    assert not list(planned.glob("packed-train*"))
    assert not (planned / "trained.txt").exists()


def test_the_packed_script_reads_the_same_elements(planned: Path) -> None:
    code, said, err = pack(planned, "pack.json")
    assert code == 0, err
    assert "540 elements in 1 file" in " ".join(said.split())
    assert not (planned / "trained.txt").exists()
    original, away = (planned / "train.py").read_text(), planned / "before"
    away.mkdir()
    (away / "train.py").write_text(original)
    subprocess.run(["git", "apply", "pack.diff"], cwd=planned, check=True)
    assert (planned / "train.py").read_text() != original
    (planned / "images").rename(away / "images")  # the packed script needs no image
    (planned / "images").mkdir()
    for path in (away / "images").iterdir():
        (planned / "images" / path.name).touch()
    read = packing.run(planned, ELEMENTS)
    assert read.returncode == 0, read.stderr
    wanted, found = read.stdout.split()
    assert found == wanted
    shutil.rmtree(planned / "images")
    (away / "images").rename(planned / "images")
    (planned / "train.py").write_text(original)
    said = " ".join(pack(planned, "pack.json")[1].split())
    assert "was complete: 540 elements" in said
    assert said.count("all checksums are right") == 2


@pytest.mark.slow
def test_killed_at_random_moments_a_script_is_packed_to_the_same_bytes(planned: Path, tmp_path: Path) -> None:
    plan = json.loads((planned / "pack.json").read_text())
    plan["plan"]["shard_bytes"] = 300_000
    folders = [tmp_path / "whole", tmp_path / "killed"]
    for folder in folders:
        plan["plan"]["output"] = str(folder)
        (planned / f"{folder.name}.json").write_text(json.dumps(plan))
    assert pack(planned, "whole.json")[0] == 0
    generator, part, kills = random.Random(3), tmp_path / "killed-1.part", 0
    command = [sys.executable, "-m", "slowtrain", "pack", "killed.json"]
    while kills < 3:
        child = subprocess.Popen(command, cwd=planned, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        before = len(list(part.glob("*.tfrecord")))
        while child.poll() is None and len(list(part.glob("*.tfrecord"))) <= before:
            time.sleep(0.002)
        time.sleep(generator.uniform(0, 0.05))
        child.send_signal(signal.SIGKILL)
        child.wait()
        kills += 1
    assert pack(planned, "killed.json")[0] == 0
    for number in (1, 2):
        whole, killed = (folder.with_name(f"{folder.name}-{number}") for folder in folders)
        assert packing.contents(whole) == packing.contents(killed)
    assert not list(tmp_path.glob("*.part"))


def test_a_changed_script_needs_a_new_plan(planned: Path, tmp_path: Path) -> None:
    plan = json.loads((planned / "pack.json").read_text())
    plan["plan"]["output"] = str(tmp_path / "packed")
    (planned / "other.json").write_text(json.dumps(plan))
    original = (planned / "train.py").read_text()
    (planned / "train.py").write_text(original + "\n")
    code, said, err = pack(planned, "other.json")
    (planned / "train.py").write_text(original)
    assert (code, said) == (2, "")
    assert "train.py has changed since the plan was made; nothing was written: make the plan again" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("print('nothing')", "packing needs a map, from_generator, interleave or flat_map that is built once"),
        ("raise ValueError('no data')", "the script does not run (exit code 1: ValueError: no data)"),
    ],
)
def test_a_script_without_anything_to_pack_is_one_line(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"{text}\n")
    code, out, err = pack(tmp_path, "--plan", "pack.json", "train.py")
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "pack.json").exists()
