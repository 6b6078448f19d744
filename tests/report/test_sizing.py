"""What memory and batch answer, as text, JSON and HTML; and their pages, with that of crossover, in a browser."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from slowtrain.model.measurements import (
    BatchCurve,
    Crossover,
    Device,
    Fit,
    MemoryAnswer,
    Need,
    Point,
    Range,
    Side,
    Timing,
)
from slowtrain.report import pages, sizing

from .test_browser import BROWSER, browse

MIB = 1 << 20
CARD = Device("a T4", 13627 * MIB, "the memory that TensorFlow took on an unused Tesla T4")
ANSWER = MemoryAnswer(
    script="train.py",
    allocator="GPU_0_bfc",
    need=Need(64, 3100 * MIB, {"parameters": 100 * MIB, "activations": 3000 * MIB}, (("conv2d_<b>", 3000 * MIB),)),
    device=CARD,
    fits=True,
    largest_batch=402,
    largest_peak_bytes=13000 * MIB,
    measured=((32, 1600 * MIB), (64, 3100 * MIB)),
    error_share=0.004,
)
CURVE = BatchCurve(
    script="<script>alert(1)</script>.py",
    batch=32,
    points=tuple(
        Point(b, 3 + b / 50, b / (3 + b / 50) * 1e3, b * 200.0, b * 400.0, b * MIB) for b in (32, 64, 128, 256)
    ),
    knee=128,
    knee_low=64,
    knee_high=None,
    gain_share=0.1,
    fixed_ms=3.0,
    ms_per_sample=0.02,
    limit_batch=402,
    device=CARD,
)


def test_the_answer_comes_first() -> None:
    first = sizing.memory_text(ANSWER).splitlines()[0]
    assert first == "fits: 3.03 GiB of 13.3 GiB at batch 64; largest batch on a T4: 402"
    tight = replace(ANSWER, fits=False, largest_batch=0)
    assert sizing.memory_headline(tight).startswith("does not fit: ")
    assert "not even one sample" in sizing.memory_headline(tight)
    assert "--device" in sizing.memory_headline(replace(ANSWER, device=None, fits=None, largest_batch=None))


def test_it_fits_a_screen() -> None:
    long = replace(ANSWER, notes=("a note " * 20, "another " * 20), measured=ANSWER.measured * 3)
    for text in (sizing.memory_text(long), sizing.batch_text(CURVE)):
        lines = text.splitlines()
        assert len(lines) <= 40
        assert max(map(len, lines)) <= 80


def test_what_was_tried_is_told() -> None:
    tried = replace(ANSWER, tried=((380, True), (380, True), (396, False), (396, True), (402, True), (420, False)))
    text = " ".join(sizing.memory_text(tried).split())
    assert "Tried: runs of a few steps under a limit of 13.3 GiB: batches of 380 (2 times), 402 fitted; 396" in text
    assert "396 (2 times) did not each time; 420 did not" in text
    assert "Tried" not in sizing.memory_text(ANSWER)


def test_documents_are_json_of_their_schema() -> None:
    assert json.loads(sizing.memory_json(ANSWER))["schema"] == "slowtrain.memory/1"
    found = json.loads(sizing.batch_json(CURVE))
    assert (found["schema"], found["knee"], len(found["points"])) == ("slowtrain.batch/1", 128, 4)


def test_the_headline_says_where_the_batch_stands() -> None:
    assert "times the samples a second of batch 32" in sizing.batch_headline(CURVE)
    assert "only takes more memory" in sizing.batch_headline(replace(CURVE, batch=256))
    assert "beyond what was measured" in sizing.batch_headline(replace(CURVE, knee=None))


def test_of_doublings_that_were_not_seen_nothing_is_said() -> None:
    points = [Point(b, 1.0, rate, 0.9 * rate, 1.1 * rate) for b, rate in ((32, 100.0), (64, 150.0), (128, 200.0))]
    told = replace(CURVE, knee=None, knee_low=None, knee_high=None, points=tuple(points))
    assert sizing.batch_headline(told).startswith("every doubling up to 128 gained 10% or more")
    points[1] = replace(points[1], samples_per_s=101.0)  # one that was disturbed: see verify.curve.knee
    said = sizing.batch_headline(replace(told, points=tuple(points)))
    assert said.startswith("the doubling to 128 still gained 98%: the knee lies beyond")
    alone = replace(told, points=told.points[:1])
    assert sizing.batch_headline(alone) == "batch 32 alone was timed: the knee is not known"


def test_how_sure_the_knee_is() -> None:
    said = "with each gain as small as its range allows batch 64, as large beyond what was measured"
    assert f"Knee: {said}" in " ".join(sizing.batch_text(CURVE).split())
    assert f"knee: {said}" in pages.batch_page(CURVE)
    sure = replace(CURVE, knee_low=128, knee_high=128)
    assert "Knee:" not in sizing.batch_text(sure)


def test_the_page_escapes_names_and_draws() -> None:
    page = pages.batch_page(CURVE)
    assert "<script>alert" not in page
    assert page.count("<svg") > 4


def test_the_page_of_memory_says_what_the_text_says() -> None:
    told = replace(ANSWER, script="<script>alert(1)</script>.py", tried=((402, True),), notes=("a note",))
    page = pages.memory_page(told)
    assert "<script>alert" not in page
    assert "conv2d_<b>" not in page
    assert "conv2d_&lt;b&gt;" in page
    for said in ("largest batch on a T4: 402", "3.03 GiB", "activations: 2.93 GiB", "402 fitted", "a note"):
        assert said in page, said
    assert "does not fit" in pages.memory_page(replace(ANSWER, fits=False))
    assert "name a card with --device" in pages.memory_page(replace(ANSWER, fits=None, device=None))


def test_a_knee_is_that_of_the_device_that_was_timed() -> None:
    told = replace(CURVE, measured_on={"kind": "CPU", "name": "EPYC"}, notes=("a note",))
    assert "the knee is at batch 128 on CPU: EPYC: " in sizing.batch_headline(told)
    assert "on CPU: EPYC: the knee lies beyond" in sizing.batch_headline(replace(told, knee=None))
    page = pages.batch_page(told)
    for said in ("4 batch sizes on CPU: EPYC", "limit: batch 402 on a T4 (13.3 GiB), by forecast", "a note"):
        assert said in page, said


def side(name: str, fixed: float, each: float) -> Side:
    """Of a device that takes ``fixed + each * batch`` ms, give or take a tenth."""
    line = tuple(
        (b, Range(fixed + each * b, 0.9 * (fixed + each * b), 1.1 * (fixed + each * b))) for b in (0, 256, 512)
    )
    fit = Fit(Range(fixed, 0.9 * fixed, 1.1 * fixed), Range(each, 0.9 * each, 1.1 * each), 0.0, 4, line)
    timings = tuple(Timing(name, b, 3.0, 200.0, fixed + each * b) for b in (64, 512))
    return Side(name, timings, fit, Range(3.0, 2.5, 3.5), 200.0)


def crossed() -> str:
    sides = (side("gpu", 5.0, 0.01), side("cpu:threads=<b>", 1.0, 0.05))
    found = Crossover("train.py", ("train.py",), None, 64, sides, "gpu", Range(100.0, 80.0, 130.0), ())
    return pages.crossover_page(found)


def test_where_lines_cross_is_one_picture() -> None:
    page = crossed()
    assert page.count('<svg class="plot"') == 1
    assert "cpu:threads=<b>" not in page.partition('id="checkup"')[0]
    assert "the order changes: 80 to 130" in page
    assert "gpu 7.56 ms (6.80 ms to 8.32 ms); cpu" in page


@pytest.mark.browser
@pytest.mark.skipif(BROWSER is None or shutil.which(BROWSER) is None, reason="no chromium on this machine")
@pytest.mark.parametrize(
    "page", [pages.memory_page(ANSWER), pages.batch_page(CURVE), crossed()], ids=["memory", "batch", "crossover"]
)
def test_the_pages_in_a_browser(page: str, tmp_path: Path) -> None:
    dom = browse(tmp_path, page, "--dump-dom").stdout
    assert dom.count("<svg") == page.count("<svg")
    assert 'id="tip"' in dom  # the policy let our own script run
