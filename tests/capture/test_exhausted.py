"""A script whose memory runs out, and scripts that die of something else: what the recording keeps, what is printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from slowtrain import diagnose
from slowtrain.model import Diagnosis, VerdictKind
from slowtrain.trace.loading import recording_trace

from . import running

DUMP = '''
import sys
sys.stderr.write("""2021-03-15 17:16:57.1: W a/bfc_allocator.cc:1] Allocator (GPU_0_bfc) ran out of memory trying to allocate 80.00MiB (rounded to 83886080)requested by op net/Relu
2021-03-15 17:16:57.1: I a/bfc_allocator.cc:1] Next region of size 104857600
2021-03-15 17:16:57.1: I a/bfc_allocator.cc:1] InUse at 7f00 of size 62914560 next 1
2021-03-15 17:16:57.1: I a/bfc_allocator.cc:1] Free  at 7f01 of size 41943040 next 18446744073709551615
2021-03-15 17:16:57.1: I a/bfc_allocator.cc:1] Sum Total of in-use chunks: 60.00MiB
2021-03-15 17:16:57.1: I a/bfc_allocator.cc:1] Stats:
Limit:    104857600
InUse:     62914560

""")
'''  # noqa: E501  as TensorFlow writes it
DIES = DUMP + textwrap.dedent(
    """
    print("on standard output")

    class ResourceExhaustedError(Exception):
        pass

    def step():
        raise ResourceExhaustedError("OOM when allocating tensor with shape[512,40960] and type float on "
                                     "/device:GPU:0 by allocator GPU_0_bfc")
    step()
    """
)


def _diagnoses(folder: Path) -> dict[str, Diagnosis]:
    return {d.cause: d for d in diagnose.diagnose_trace(recording_trace.load_recording(folder)).diagnoses}


def test_a_pipe_is_heard_and_stays_as_it_is_and_the_line_is_the_scripts_own(tmp_path: Path) -> None:
    script = running.write(tmp_path, DIES)
    plain, recorded = running.plain(script), running.recorded(tmp_path / "rec", script, windows=False)
    assert (recorded.code, recorded.out, recorded.err) == (plain.code, plain.out, plain.err)
    found = _diagnoses(tmp_path / "rec")["memory/out-of-memory"].evidence
    assert "memory was full: 80 MiB requested, 40 MiB free in total, 40 MiB short" in found.says
    assert "net/Relu" in found.says
    (place,) = found.where
    assert place.file == str(script)
    assert "raise ResourceExhaustedError" in script.read_text().splitlines()[place.line - 1]


@pytest.mark.parametrize("shared", [False, True])
def test_a_file_is_read_and_a_shared_pipe_left_alone(tmp_path: Path, shared: bool) -> None:
    script = running.write(tmp_path, DIES)
    log = tmp_path / "log"
    log.write_text("Allocator (OLD) ran out of memory trying to allocate 1.00GiB: of an earlier run\n")
    command = running.recorder(tmp_path / "rec", script, windows=False)
    with log.open("a") as file:
        where = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if shared else {"stderr": file}
        done = subprocess.run(command, check=False, env=running.environment(), timeout=170, **where)
    assert done.returncode == 1
    found = _diagnoses(tmp_path / "rec")["memory/out-of-memory"]
    assert ("40 MiB short" in found.evidence.says) is not shared  # of the shared one only the exception is known
    assert "80 MiB" in found.evidence.says
    about = json.loads((tmp_path / "rec" / "launch.json").read_text())
    assert about["heard"] is not shared
    commands = [p.says for p in found.prescriptions if "2> train.err" in p.says]
    assert commands == ([f"see what held the memory: slowtrain run {script} 2> train.err"] if shared else [])


@pytest.mark.parametrize("ends", ["raise ValueError('out of luck')", "", "import sys; sys.exit(3)"])
def test_other_ends_are_not_of_memory(tmp_path: Path, ends: str) -> None:
    script = running.write(tmp_path, f"x = 1\n{ends}\n")
    running.recorded(tmp_path / "rec", script, windows=False)
    assert "memory/out-of-memory" not in _diagnoses(tmp_path / "rec")


def test_a_process_left_behind_does_not_keep_the_run_waiting(tmp_path: Path) -> None:
    text = "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(90)'])\n"
    script = running.write(tmp_path, text)
    command = running.recorder(tmp_path / "rec", script, windows=False)
    with (tmp_path / "out").open("w") as out:
        read, write = os.pipe()
        try:
            done = subprocess.run(
                command, check=False, stdout=out, stderr=write, env=running.environment(), timeout=80, cwd=tmp_path
            )
        finally:
            os.close(read)
            os.close(write)
    assert done.returncode == 0


@pytest.mark.tensorflow
def test_tensorflows_own_exhaustion(tmp_path: Path) -> None:
    script = running.write(
        tmp_path,
        """
        import tensorflow as tf
        kept = [tf.random.normal((1024, 1024)) for _ in range(40)]
        half = kept[::2]
        del kept
        big = tf.zeros((1024, 1024 * 12))
        """,
    )
    # Seen as the command line does: through its own process, so that standard error is a pipe.
    environment = {**running.environment(), "TF_CPU_ALLOCATOR_USE_BFC": "true", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "200",
                   "TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "0"}  # fmt: skip
    command = [sys.executable, "-m", "slowtrain", "run", "--no-windows", "--out", "runs", "--json", "-", str(script)]
    done = subprocess.run(command, check=False, cwd=tmp_path, env=environment, capture_output=True, timeout=170)
    assert done.returncode == 1
    said = json.loads(done.stdout)
    first = said["diagnoses"][0]
    assert first["cause"] == "memory/out-of-memory"
    assert first["evidence"]["where"][0]["line"] == 6
    assert said["verdict"] == VerdictKind.MEMORY
