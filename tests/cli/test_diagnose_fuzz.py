"""Damaged recordings through the whole of ``slowtrain diagnose``: an answer in each form, or one ``InputError``.

``tests/trace/test_mutations.py`` holds the reader by the ten thousand; here the causes, the what-if and the reports
get what such files leave to be read. ``SLOWTRAIN_FUZZ_SEED`` and ``SLOWTRAIN_FUZZ_ANSWERS`` change what is tried.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import time
from pathlib import Path

import pytest

from slowtrain import cli
from tests.trace import mutations

RECORDED = Path(__file__).parents[1] / "trace" / "recorded"
# One of each kind, small ones: kernels, copies and eager ops of a GPU; TensorFlow and JAX on a CPU.
KINDS = ("gpu-one-copy", "gpu-device-ops", "gpu-eager", "jax-eager", "tf-host-launch-bound", "tf-input-arrays")
MANY = 12_000 if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else 120
INPUTS = int(os.environ.get("SLOWTRAIN_FUZZ_ANSWERS", MANY))
SEED = int(os.environ.get("SLOWTRAIN_FUZZ_SEED", "1"))
# For one answer in three forms, of which a healthy one takes a few tenths; ``make test`` measures no time.
MOST_CPU_S = 10.0 if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else math.inf


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_recordings_are_answered_or_declined(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = gzip.decompress((RECORDED / f"{kind}.xplane.pb.gz").read_bytes())
    damage = mutations.Damage([seed])
    file, page, answer = tmp_path / "a.xplane.pb", tmp_path / "a.html", tmp_path / "a.json"
    codes = []
    for number in range(INPUTS // len(KINDS)):
        chance = random.Random(SEED << 40 | number)
        file.write_bytes(damage.message(damage.trees[0], chance))
        began = time.process_time()
        code = cli.main(["diagnose", "--html", str(page), "--json", str(answer), str(file)])
        assert time.process_time() - began < MOST_CPU_S, number
        said = capsys.readouterr()
        assert code in (0, 2), (number, said.err)
        assert (said.err.count("\n") == 1 and len(said.err) < 2000) if code == 2 else said.out, number
        if code == 0:
            assert json.loads(answer.read_text(encoding="utf-8"))["schema"] == "slowtrain.checkup/1"
            assert "<script>alert" not in page.read_text(encoding="utf-8")
        codes.append(code)
    assert 0 in codes, "the damage is always fatal"
