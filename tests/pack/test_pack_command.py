"""``slowtrain pack`` from a script to packed data and the patch that reads them, as a user does it."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

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
        model.fit(train.map(scaled), validation_data=held_out.map(scaled), epochs=4, verbose=0)
        open("trained.txt", "w").write("trained")
"""
ELEMENTS = """
    import sys
    sys.argv = ["x"]
    exec(open(NAME).read().replace('__name__ == "__main__"', "False"))
    import hashlib
    digest = hashlib.sha256()
    for dataset in (train, held_out):
        for image, label in dataset.unbatch().as_numpy_iterator():
            digest.update(image.tobytes() + label.tobytes())
    print(digest.hexdigest())
"""


def pack(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "slowtrain", "pack", *arguments],
        capture_output=True, text=True, timeout=400, check=False, cwd=folder,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )  # fmt: skip


def digest_of(folder: Path, script: str) -> str:
    done = packing.run(folder, f"NAME = {script!r}\n" + textwrap.dedent(ELEMENTS))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a script, its images and a plan."""
    import tensorflow as tf

    folder, rng = tmp_path_factory.mktemp("project"), np.random.default_rng(0)
    (folder / "images").mkdir()
    for n in range(600):
        content = tf.io.encode_png(rng.integers(0, 255, (64, 64, 3), np.uint8)).numpy()
        (folder / "images" / f"{n:04d}.png").write_bytes(content)
    (folder / "train.py").write_text(textwrap.dedent(SCRIPT))
    done = pack(folder, "--plan", "pack.json", "--budget", "100s", "train.py")
    assert done.returncode == 0, done.stderr
    (folder / "said.txt").write_text(done.stdout)
    return folder


def test_the_plan_says_first_what_will_happen(planned: Path) -> None:
    said = (planned / "said.txt").read_text()
    plan = json.loads((planned / "pack.json").read_text())["plan"]
    assert plan["lengths"] == [540, 60]
    assert plan["sample"]["verified"] == plan["sample"]["elements"] == 540
    assert plan["proof"] is not None or "not proven: " in said  # on a busy machine the time may be over
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
    done = pack(planned, "pack.json")
    assert done.returncode == 0, done.stderr
    assert "540 elements in 1 file" in " ".join(done.stdout.split())
    assert not (planned / "trained.txt").exists()
    original = (planned / "train.py").read_text()
    wanted = digest_of(planned, "train.py")
    subprocess.run(["git", "apply", "pack.diff"], cwd=planned, check=True)
    assert (planned / "train.py").read_text() != original
    (planned / "images").rename(planned / "away")  # the packed script needs no image
    (planned / "images").mkdir()
    for path in (planned / "away").iterdir():
        (planned / "images" / path.name).touch()
    assert digest_of(planned, "train.py") == wanted
    shutil.rmtree(planned / "images")
    (planned / "away").rename(planned / "images")
    (planned / "train.py").write_text(original)
    again = pack(planned, "pack.json")
    said = " ".join(again.stdout.split())
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
    done = pack(planned, "whole.json")
    assert done.returncode == 0, done.stderr
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
    done = pack(planned, "killed.json")
    assert done.returncode == 0, done.stderr
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
    done = pack(planned, "other.json")
    (planned / "train.py").write_text(original)
    assert (done.returncode, done.stdout) == (2, "")
    assert "train.py has changed since the plan was made; nothing was written: make the plan again" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("print('nothing')", "packing needs a map, from_generator, interleave or flat_map that is built once"),
        ("raise ValueError('no data')", "the script does not run (exit code 1: ValueError: no data)"),
    ],
)
def test_a_script_without_anything_to_pack_is_one_line(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"import tensorflow as tf\n{text}\n")
    done = pack(tmp_path, "--plan", "pack.json", "train.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "pack.json").exists()
