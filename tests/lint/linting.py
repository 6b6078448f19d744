"""A folder of files, and the command run in it as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slowtrain import cli

EAGER = """\
import keras

model = keras.Sequential([keras.layers.Dense(1)])
model.compile("adam", "mse", run_eagerly=True)
model.fit(x, y)
"""
PIPELINE = """\
import tensorflow as tf


def load(path):
    return tf.image.decode_jpeg(tf.io.read_file(path))


ds = tf.data.Dataset.from_tensor_slices(files)
ds = ds.map(load).batch(8)
model.fit(ds)
"""
BROKEN = "import keras\nmodel.compile(run_eagerly=\n"
CURED = PIPELINE.replace(
    "ds.map(load).batch(8)", "ds.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(8).prefetch(tf.data.AUTOTUNE)"
)


class Folder:
    """``lint(...)`` gives the exit code; ``out`` and ``err`` are what it printed."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path, self._capsys = path, capsys
        self.out = self.err = ""

    def put(self, **files: str) -> None:
        """Files by name, ``__`` standing for a dot."""
        for name, text in files.items():
            self.put_bytes(name.replace("__", "."), text.encode())

    def put_bytes(self, name: str, content: bytes) -> Path:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return file

    def text(self, name: str) -> str:
        return (self.path / name).read_bytes().decode()

    def lint(self, *arguments: str) -> int:
        code = cli.main(["lint", *arguments])
        captured = self._capsys.readouterr()
        self.out, self.err = captured.out, captured.err
        return code

    def document(self, *arguments: str) -> dict[str, Any]:
        self.lint("--format", "json", *arguments)
        found: dict[str, Any] = json.loads(self.out)
        return found

    def found(self, *arguments: str) -> list[tuple[str, str, int]]:
        """File, cause and line of each finding."""
        return [(f["file"], f["cause"], f["line"]) for f in self.document(*arguments)["findings"]]
