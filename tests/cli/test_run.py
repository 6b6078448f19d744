"""``slowtrain run`` from outside: what goes wrong is one line, and the script's exit code is kept."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

needs_tensorflow = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed here"
)


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "slowtrain", "run", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
        env={**os.environ, **environment},
    )


def write(folder: Path, text: str, name: str = "train.py") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return name


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    match = re.fullmatch(r"slowtrain: (.*)\n", done.stderr)
    assert match, done.stderr
    return match[1]


def recordings(folder: Path) -> list[Path]:
    return sorted(folder.glob("slowtrain-runs/*"))


@pytest.mark.parametrize("name", ["gone.py", "a\x1b[31mb.py"])
def test_a_missing_script(name: str, tmp_path: Path) -> None:
    done = run(tmp_path, name)
    assert (done.returncode, done.stdout) == (2, "")
    assert "does not exist; give the path of a Python script" in one_line(done)
    assert not recordings(tmp_path)


def test_a_folder_for_a_script(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    done = run(tmp_path, "sub")
    assert done.returncode == 2
    assert "is a folder" in one_line(done)


def test_no_tensorflow_in_this_python(tmp_path: Path) -> None:
    hide = "import sys\nfor name in ('tensorflow', 'keras', 'jax'):\n    sys.modules[name] = None\n"
    write(tmp_path, hide, "sitecustomize.py")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = run(tmp_path, write(tmp_path, "print(1)"), PYTHONPATH=path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "has no TensorFlow" in one_line(done)


@needs_tensorflow
def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(tmp_path, "--out", "file", write(tmp_path, "print(1)"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "choose a folder with --out" in one_line(done)


@needs_tensorflow
@pytest.mark.parametrize("option", ["--html", "--json"])
@pytest.mark.parametrize(("place", "said"), [("train.py/report", "Not a directory"), (".", "Is a directory")])
def test_a_report_that_could_not_be_written_is_said_before_the_script_runs(
    option: str, place: str, said: str, tmp_path: Path
) -> None:
    done = run(tmp_path, option, place, write(tmp_path, "print('it was run')"))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"cannot write {place} ({said}" in one_line(done)
    assert not recordings(tmp_path)


@needs_tensorflow
def test_folders_of_a_report_are_made_when_it_is_written(tmp_path: Path) -> None:
    """Not before: a script that makes one itself may mind that it is there."""
    done = run(
        tmp_path, "--html", "a/b/page.html", "--json", "c/answer.json", write(tmp_path, "import os\nos.mkdir('a')")
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "a/b/page.html").exists()
    assert json.loads((tmp_path / "c/answer.json").read_text())["verdict"] == "insufficient-data"


@needs_tensorflow
@pytest.mark.parametrize("option", ["--html", "--json"])
def test_a_report_that_cannot_be_written_after_all_takes_nothing_from_the_answer(option: str, tmp_path: Path) -> None:
    done = run(tmp_path, option, "sub/report", write(tmp_path, "open('sub', 'w').close()"))
    assert done.returncode == 2
    assert "cannot write sub/report" in one_line(done)
    assert "INSUFFICIENT DATA" in done.stdout
    assert (recordings(tmp_path)[0] / "report.html").exists()


@needs_tensorflow
@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("import sys\nprint('out')\nsys.exit(7)", 7, ""),
        ("def f(:", 1, "SyntaxError"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("import os\nos.abort()", 134, ""),
        ("import os\nos.kill(os.getpid(), 9)", 137, ""),
        ("print('trains nothing')", 0, ""),
    ],
    ids=["exit 7", "does not parse", "raises", "aborts", "is killed", "trains nothing"],
)
def test_the_exit_code_is_the_scripts_and_there_is_a_report(text: str, code: int, said: str, tmp_path: Path) -> None:
    done = run(tmp_path, write(tmp_path, text))
    assert done.returncode == code
    assert said in done.stderr
    assert "slowtrain" not in done.stderr.replace(str(tmp_path), "").replace("slowtrain-runs", "")
    assert ("INSUFFICIENT DATA" if code == 0 else f"FAILED: the script ended with exit code {code}") in done.stdout
    assert (recordings(tmp_path)[0] / "report.html").exists()


@needs_tensorflow
def test_json_on_standard_output_is_nothing_else(tmp_path: Path) -> None:
    done = run(tmp_path, "--json", "-", write(tmp_path, "print('of the script')"))
    assert json.loads(done.stdout)["verdict"] == "insufficient-data"
    assert "of the script" in done.stderr


@needs_tensorflow
def test_two_at_once(tmp_path: Path) -> None:
    name = write(tmp_path, "import time\ntime.sleep(0.5)")
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda _: run(tmp_path, name), range(2)))
    assert [d.returncode for d in done] == [0, 0]
    assert len(recordings(tmp_path)) == 2


@needs_tensorflow
def test_a_recording_that_goes_away(tmp_path: Path) -> None:
    text = "import glob, shutil, time\ntime.sleep(0.3)\nshutil.rmtree('slowtrain-runs')\nprint('done')"
    done = run(tmp_path, write(tmp_path, text))
    assert (done.returncode, done.stdout) == (2, "done\n")
    assert "was removed while the script ran" in one_line(done)


@needs_tensorflow
def test_a_full_disk_is_said(tmp_path: Path) -> None:
    text = (
        "import gc, resource, time\nresource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))\n"
        "for i in range(2500):\n    gc.collect(0)\n    time.sleep(0.001)\nprint('done')"
    )
    done = run(tmp_path, write(tmp_path, text))
    assert done.returncode == 0
    assert done.stdout.startswith("done\n")
    assert "the recording ended before the script did" in one_line(done)
