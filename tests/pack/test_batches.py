"""The batches of a ``PyDataset``, packed from a script of Keras on JAX and read without TensorFlow."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slowtrain.errors import InputError

from . import packing

KERAS_2 = importlib.metadata.version("keras").startswith("2.")
SCRIPT = """
    import os
    os.environ["KERAS_BACKEND"] = "jax"
    import keras
    import numpy as np

    class Rows(keras.utils.PyDataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            rng = np.random.default_rng(index)
            rows = 5 if index == 7 else 16
            return {"a": rng.random((rows, 6), dtype="f4"), "b": rng.random((rows, 2, 3))}, rng.integers(0, 3, rows)

    keras.utils.set_random_seed(0)
    inputs = {"a": keras.Input((6,), name="a"), "b": keras.Input((2, 3), name="b")}
    merged = keras.layers.Concatenate()([inputs["a"], keras.layers.Flatten()(inputs["b"])])
    model = keras.Model(inputs, keras.layers.Dense(3)(merged))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    done = model.fit(Rows(), epochs=3, verbose=0)
    print(done.history["loss"])
"""


def pack(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "slowtrain", "pack", *arguments],
        capture_output=True, text=True, timeout=400, check=False, cwd=folder,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )  # fmt: skip


def run(folder: Path) -> str:
    command = [sys.executable, "-c", "import sys; sys.modules['tensorflow'] = None; exec(open('train.py').read())"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_a_script_on_jax_trains_on_the_same_batches(tmp_path: Path) -> None:
    for module in ("tensorflow", "jax", "array_record", "grain"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed here")
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT))
    done = pack(tmp_path, "--plan", "pack.json", "--format", "array-record", "--budget", "20s", "train.py")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "117 elements" in said
    assert "ArrayRecord shards, elements of 0/a float32 [6], 0/b float64 [2, 3], 1 int64 [], 16 elements" in said
    assert json.loads((tmp_path / "pack.json").read_text())["plan"]["sample"]["verified"] == 117
    before = run(tmp_path)
    done = pack(tmp_path, "pack.json")
    assert done.returncode == 0, done.stderr
    assert "117 elements in 1 file" in " ".join(done.stdout.split())
    subprocess.run(["git", "apply", "pack.diff"], cwd=tmp_path, check=True)
    text = (tmp_path / "train.py").read_text()
    assert "model.fit(read_packed(), epochs=3, verbose=0)" in text
    (tmp_path / "train.py").write_text(text.replace("rng = np.random.default_rng(index)", "raise RuntimeError"))
    assert run(tmp_path) == before


def data(name: str) -> Any:
    import keras

    class Rows(keras.utils.PyDataset):  # type: ignore[misc]
        def __init__(self, sizes: tuple[int, ...] = (4, 4, 2)) -> None:
            super().__init__()
            self.sizes = sizes

        def __len__(self) -> int:
            return len(self.sizes)

        def __getitem__(self, index: int) -> Any:
            return np.full((self.sizes[index], 2), index), np.arange(self.sizes[index])

    class Reordered(Rows):
        def on_epoch_end(self) -> None:
            self.sizes = self.sizes[::-1]

    class Uneven(Rows):
        def __getitem__(self, index: int) -> Any:
            return np.zeros((4, 2)), np.zeros(3)

    class Endless(Rows):
        @property
        def num_batches(self) -> None:
            return None

    made: dict[str, Callable[[], Any]] = {
        "plain": Rows,
        "reordered": Reordered,
        "uneven": Uneven,
        "endless": Endless,
        "single": lambda: Rows((1, 1)),
        "varied": lambda: Rows((4, 3, 4)),
        "arrays": lambda: np.zeros((8, 2)),
    }
    return made[name]()


@pytest.mark.skipif(KERAS_2, reason="Keras 2 has no PyDataset")
@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("reordered", r"Reordered\.on_epoch_end may change the batches, so packing would change training"),
        ("uneven", r"batch 0 holds \[\(4, 2\), \(3,\)\], and no arrays of one length"),
        ("endless", "Endless has no length"),
        ("single", "have one row each"),
        ("arrays", "fit gets ndarray here, and no PyDataset"),
    ],
)
def test_batches_that_cannot_be_packed_are_one_line(name: str, said: str) -> None:
    from slowtrain.capture.packing import script_batches

    with pytest.raises(InputError, match=said) as error:
        script_batches.rows_of_batches(data(name))
    assert "\n" not in str(error.value)


@pytest.mark.tensorflow
@pytest.mark.skipif(KERAS_2, reason="Keras 2 has no PyDataset")
def test_the_rows_are_those_of_the_batches(tmp_path: Path) -> None:
    from slowtrain.capture.packing import packing_job, script_batches

    rows, size = script_batches.rows_of_batches(data("plain"))
    assert (size, int(rows.cardinality())) == (4, 10)
    assert [int(label) for _, label in rows.as_numpy_iterator()] == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    varied, _ = script_batches.rows_of_batches(data("varied"))
    with pytest.raises(InputError, match="batch 1 has 3 rows and others 4, so the batches cannot be packed"):
        list(packing_job.made_rows(varied, packing.job_for(varied, tmp_path / "packed").form))


@pytest.mark.tensorflow
@pytest.mark.skipif(not KERAS_2, reason="Keras 3 has PyDataset")
def test_keras_2_has_no_batches_to_pack() -> None:
    from slowtrain.capture.packing import script_batches

    with pytest.raises(InputError, match="batches are packed with Keras 3, and this is Keras 2"):
        script_batches.rows_of_batches(np.zeros(3))
