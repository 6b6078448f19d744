"""Bad input: one line for the file, and the rest goes on."""

from __future__ import annotations

import ast
import gc
import os
import sys

import pytest

from .linting import EAGER, PIPELINE, Folder

USED = "import keras\nm.compile(run_eagerly=1)\n"
HOSTILE = {
    "a syntax error": (b"import keras\nm.compile(run_eagerly= = 1)\n", "bad.py:2: syntax error: "),
    "an open bracket": (b"import keras\nm.compile(run_eagerly=1\n", "bad.py:2: syntax error: "),
    "Python 2": (
        b"import keras\nm.compile(run_eagerly=1)\nprint 'a', run_eagerly\n",
        "bad.py:3: Python 2, not Python 3: ",
    ),
    "Python 2 without print": (
        b"import keras\nm.compile(run_eagerly=1)\nraise A, 'b'\n",
        "bad.py:3: Python 2, not Python 3: ",
    ),
    "binary": (b"import keras\nm.compile(run_eagerly=1)\n\0\1\2", "bad.py: is binary, not text"),
    "UTF-16": (USED.encode("utf-16"), "bad.py: is binary, not text"),
    "not UTF-8": (USED.encode() + b"# \xff\n", "bad.py:3: cannot be decoded: not utf-8 at byte 40"),
    "an encoding that is none": (b"# coding: klingon\n" + USED.encode(), "bad.py: cannot be decoded: unknown encoding"),
    "huge": (USED.encode() + b"#" * 5_000_000, "bad.py: is larger than 5 MB"),
    "deep brackets": (USED.encode() + b"x = " + b"(" * 5000 + b")" * 5000, "bad.py:3: syntax error: too many nested"),
    "deep signs": (USED.encode() + b"x = " + b"-" * 200_000 + b"1", "bad.py"),
    "deep attributes": (USED.encode() + b"x = a" + b".b" * 200_000, "bad.py"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_it_is_told_and_the_rest_goes_on(folder: Folder, name: str) -> None:
    content, says = HOSTILE[name]
    folder.put_bytes("bad.py", content)
    folder.put(good__py=EAGER)
    assert folder.lint() == 2
    assert folder.err.startswith(f"slowtrain: {says}")
    assert folder.err.count("\n") == 1
    assert "good.py:4:42: host/eager-step" in folder.out


def test_what_cannot_matter_is_not_parsed(folder: Folder) -> None:
    folder.put(a__py="import numpy\nrun_eagerly = = 1\n", b__py="import keras\nx = = 1\n", c__py="kerasx = (\n")
    assert folder.lint() == 0
    assert folder.err == ""


def test_a_file_that_is_named_is_parsed(folder: Folder) -> None:
    folder.put(a__py="import numpy\nrun_eagerly = = 1\n")
    assert folder.lint("a.py") == 2
    assert folder.err.startswith("slowtrain: a.py:2: syntax error")


@pytest.mark.parametrize(
    "line",
    [
        "import tensorflow", "import os, keras as k", "from tf_keras import layers", "  from tensorflow.keras import *",
        "x = 1; import keras", "import tensorflow_datasets as tfds", "if 1: import keras", "import keras_hub",
    ],
)  # fmt: skip
def test_any_import_of_a_framework_matters(folder: Folder, line: str) -> None:
    folder.put(a__py=f"{line.lstrip()}\nmodel.compile(run_eagerly=True)\n" if not line.startswith(" ") else
               f"if 1:\n{line}\nmodel.compile(run_eagerly=True)\n")  # fmt: skip
    assert [cause for _, cause, _ in folder.found()] == ["host/eager-step"]


@pytest.mark.parametrize("text", ["", "\n", "#", "\ufeff", "\x0c", "import keras"])
def test_nearly_nothing(folder: Folder, text: str) -> None:
    folder.put(a__py=text)
    assert folder.lint() == 0


def test_warnings_of_the_text_are_not_ours(folder: Folder) -> None:
    folder.put(a__py=EAGER + "s = '\\d'\nif x is 1: pass\n")
    assert folder.lint() == 1
    assert folder.err == ""


def test_links_in_a_circle(folder: Folder) -> None:
    folder.put_bytes("a/b/c.py", EAGER.encode())
    os.symlink(folder.path, folder.path / "a/b/up", target_is_directory=True)
    os.symlink("loop.py", folder.path / "loop.py")
    os.symlink("nowhere", folder.path / "lost.py")
    os.symlink(folder.path / "a/b/c.py", folder.path / "again.py")
    assert folder.lint() == 2
    assert folder.out.count("host/eager-step") == 1
    assert folder.err.splitlines() == [
        "slowtrain: loop.py: cannot be examined (Too many levels of symbolic links)",
        "slowtrain: lost.py: is a broken symbolic link",
    ]


def test_other_peoples_code_is_left_out_unless_it_is_named(folder: Folder) -> None:
    for name in (".venv", "node_modules", "build", "lib/site-packages", ".git"):
        folder.put_bytes(f"{name}/a.py", EAGER.encode())
    folder.put(notes__txt=EAGER)
    assert folder.document()["files"] == 0
    assert len(folder.found("lib/site-packages", ".venv")) == 2
    assert len(folder.found("notes.txt", "notes.txt")) == 1


def test_a_pipe_is_not_read(folder: Folder) -> None:
    os.mkfifo("pipe.py")
    assert folder.lint() == 0
    assert folder.lint("pipe.py") == 2


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read(folder: Folder) -> None:
    folder.put(a__py=EAGER)
    (folder.path / "closed").mkdir(mode=0)
    folder.put_bytes("b.py", b"").chmod(0)
    assert folder.lint() == 2
    assert sorted(folder.err.splitlines()) == [
        "slowtrain: b.py: cannot be read (Permission denied)",
        "slowtrain: closed: cannot be listed (Permission denied)",
    ]


def test_names_that_are_odd(folder: Folder) -> None:
    folder.put_bytes("a b/é\x1b[31m\n.py", EAGER.encode())
    folder.put_bytes("-x.py", PIPELINE.encode())
    assert folder.lint() == 1
    assert "\x1b" not in folder.out
    assert folder.lint("--format", "sarif") == 1
    assert "a%20b/%C3%A9%1B%5B31m%0A.py" in folder.out


def test_a_fault_of_a_cause_is_told(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    from slowtrain.causes import all_causes

    (cause,) = [c for c in all_causes() if c.id == "host/eager-step"]
    monkeypatch.setattr(cause, "spot", lambda source: 1 / 0)
    folder.put(a__py=EAGER + PIPELINE)
    assert folder.lint() == 2
    assert (
        folder.err == "slowtrain: a.py: host/eager-step failed (ZeroDivisionError: division by zero); please report\n"
    )
    assert "input/sequential-map" in folder.out


def test_what_was_worked_out_of_a_file_is_freed_at_once(folder: Folder) -> None:
    """The garbage collector would have to go through it: trees are most of what a process of lint holds."""
    folder.put(a__py=ENTANGLED)
    assert folder.lint() == 1
    gc.collect()
    gc.disable()
    try:
        before = len(_functions())
        assert folder.lint() == 1
        assert len(_functions()) == before
    finally:
        gc.enable()


def _functions() -> list[object]:
    return [o for o in gc.get_objects() if isinstance(o, ast.FunctionDef)]


ENTANGLED = """\
import keras
import tensorflow as tf


class Rows:
    def __init__(self, size, names=()):
        self.size, self.names = size, [name for name in names for _ in range(2)]

    def __len__(self):
        return self.size

    def parts(self):
        return {n: self.parts for n in self.names}


@tf.function
def step(x):
    return step(x)


def training(size=8):
    rows = Rows(size, names=["a", "b"])
    model = keras.Sequential([keras.layers.Dense(len(rows), name=n) for n in rows.names])
    model.compile("adam", "mse", run_eagerly=True)
    model.fit(tf.zeros([rows.size, 4]), tf.zeros([rows.size, 8]), batch_size=rows.size, epochs=50)
    return training


training(64)
"""


def test_python_that_dies_of_a_file(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    from slowtrain.lint import file_check

    seen = file_check.check_content
    monkeypatch.setattr(
        file_check, "check_content", lambda file, *a, **k: os._exit(9) if "m7" in file else seen(file, *a, **k)
    )
    for number in range(64):
        folder.put_bytes(f"m{number}.py" if number != 5 else "n.py", EAGER.encode())
    assert folder.lint("--processes", "2", "--select", "host") == 2
    assert folder.err == "slowtrain: m7.py: Python crashes when it parses this file\n"
    assert folder.out.count("host/eager-step") == 63


TRAINING = "import keras\nmodel.compile('adam', 'mse', run_eagerly=True)\n"
SYNTAX = {  # from which Python on, and where the second finding stands
    "positional only, walrus": ((3, 8), "if (n := 3) > 2: pass\ndef f(a, /, b): return f'{a=}'\n", None),
    "match": ((3, 10), "match x:\n    case {'a': [1, *_]} if x:\n        model.compile('sgd', run_eagerly=True)\n", 5),
    "except*": ((3, 11), "try:\n    model.compile('sgd', run_eagerly=True)\nexcept* ValueError:\n    pass\n", 4),
    "type": ((3, 12), "type A = int\ntype Pair[T] = tuple[T, T]\n", None),
    "type parameters": ((3, 12), "def f[T](x: T) -> T:\n    model.compile('sgd', run_eagerly=True)\n", 4),
    "the same quotes inside": ((3, 12), "x = f'{d['k']:>{w['n']}} {{' + f\"{f\"{1 + 1}\"}\"  # it's\n", None),
    "exceptions without brackets": ((3, 14), "try:\n    pass\nexcept OSError, ValueError:\n    pass\n", None),
}


@pytest.mark.parametrize("name", SYNTAX)
def test_syntax_of_each_python(folder: Folder, name: str) -> None:
    version, text, line = SYNTAX[name]
    folder.put(train__py=TRAINING + text, other__py=TRAINING)
    found = [n for file, _, n in folder.found(".") if file == "train.py"]
    if sys.version_info >= version:
        assert found == [n for n in (2, line) if n]
        assert folder.err == ""
    else:
        assert found == []
        assert folder.err.count("\n") == 1
        assert "syntax error: " in folder.err
    assert ("other.py", "host/eager-step", 2) in folder.found(".")
