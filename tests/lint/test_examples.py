"""The examples on the causes' pages: found in the slow text, nothing in the cured one, and both train."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slowtrain.causes import Cause
from slowtrain.lint import cause_selection
from slowtrain.model import Effect
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source

from . import spotted

EXAMPLES = [
    (c, inspect.cleandoc(a) + "\n", inspect.cleandoc(b) + "\n")
    for c in cause_selection.lintable_causes()
    for a, b in c.fixes
]
each = pytest.mark.parametrize(("cause", "slow", "cured"), EXAMPLES, ids=[c.id for c, _, _ in EXAMPLES])
# Two gigabytes in a buffer; a setting of the whole process; another Keras; three large models.
NOT_RUN = {"input/oversized-shuffle", "machine/limited-host", "machine/library-mismatch", "startup/slow-startup"}
RUN = """
import json, sys, os
import keras, numpy as np, tensorflow as tf
for cause, texts in json.load(sys.stdin):
    told = []
    for text in texts:
        keras.backend.clear_session()
        keras.backend.set_floatx("float32")
        names = {}
        exec(compile(text, cause, "exec"), names)
        loss = names["history"].history["loss"][-1] if "history" in names else np.ravel(names["loss"])[0]
        told.append(float(loss))
    print("ENDED", json.dumps([cause, *told]), flush=True)
"""


def test_every_cause_with_a_source_side_has_an_example() -> None:
    assert [c.id for c in cause_selection.lintable_causes() if not c.fixes] == []


@each
def test_found_in_the_slow_one_alone(cause: Cause[Any], slow: str, cured: str) -> None:
    assert cause.id in {one.cause for one in spotted.seen(slow)}
    assert spotted.seen(cured) == []


@each
def test_the_cure_is_the_causes_own(cause: Cause[Any], slow: str, cured: str) -> None:
    source = parse_source("train.py", slow)
    assert source is not None
    spots = list(cause.spot(source))
    made = [e for s in spots if s.prescription is not None for e in s.prescription.edits]
    if made:  # where there is no edit, the page shows what to write
        assert edits.edited_text(source, made) == cured


@pytest.mark.slow
@pytest.mark.tensorflow
def test_slow_and_cured_train_to_the_same_loss(tmp_path: Path) -> None:
    pairs = [(c.id, [a, b]) for c, a, b in EXAMPLES if c.id not in NOT_RUN]
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps(pairs),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    told = [json.loads(line[6:]) for line in done.stdout.splitlines() if line.startswith("ENDED ")]
    assert [name for name, *_ in told] == [name for name, _ in pairs], done.stderr[-2000:]
    exact = {c.id for c, a, _ in EXAMPLES if _effect(c, a) is Effect.EXACT}
    for name, slow, cured in told:
        if name in exact:
            assert cured == pytest.approx(slow, rel=1e-5), name


def _effect(cause: Cause[Any], slow: str) -> Effect | None:
    source = parse_source("train.py", slow)
    assert source is not None
    cure = next(iter(cause.spot(source))).prescription
    return cure.effect if cure is not None and cure.edits else None
