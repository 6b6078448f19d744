"""What memory and batch answer, as text, JSON and HTML."""

from __future__ import annotations

import json
from dataclasses import replace

from slowtrain.model.sizing import BatchCurve, Device, MemoryAnswer, Need, Point
from slowtrain.report import sizing, sizing_html

MIB = 1 << 20
CARD = Device("a T4", 13627 * MIB, "what TensorFlow took of a Tesla T4")
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
    first = sizing.render_memory(ANSWER).splitlines()[0]
    assert first == "fits: 3.03 GiB of 13.3 GiB at batch 64; largest batch on a T4: 402"
    tight = replace(ANSWER, fits=False, largest_batch=0)
    assert sizing.headline(tight).startswith("does not fit: ")
    assert "not even one sample" in sizing.headline(tight)
    assert "--device" in sizing.headline(replace(ANSWER, device=None, fits=None, largest_batch=None))


def test_it_fits_a_screen() -> None:
    long = replace(ANSWER, notes=("a note " * 20, "another " * 20), measured=ANSWER.measured * 3)
    for text in (sizing.render_memory(long), sizing.render_batch(CURVE)):
        lines = text.splitlines()
        assert len(lines) <= 40
        assert max(map(len, lines)) <= 80


def test_what_was_tried_is_told() -> None:
    tried = replace(ANSWER, tried=((380, True), (402, True), (420, False)))
    text = " ".join(sizing.render_memory(tried).split())
    assert "Tried: runs of a few steps under a limit of 13.3 GiB: batches of 380, 402 fitted; 420 did not" in text
    assert "Tried" not in sizing.render_memory(ANSWER)


def test_documents_are_json_of_their_schema() -> None:
    assert json.loads(sizing.memory_document(ANSWER))["schema"] == "slowtrain.memory/1"
    found = json.loads(sizing.batch_document(CURVE))
    assert (found["schema"], found["knee"], len(found["points"])) == ("slowtrain.batch/1", 128, 4)


def test_the_headline_says_where_the_batch_stands() -> None:
    assert "times the samples a second of batch 32" in sizing.batch_headline(CURVE)
    assert "only takes more memory" in sizing.batch_headline(replace(CURVE, batch=256))
    assert "beyond what was measured" in sizing.batch_headline(replace(CURVE, knee=None))


def test_the_page_escapes_names_and_draws() -> None:
    page = sizing_html.render(CURVE)
    assert "<script>alert" not in page
    assert page.count("<svg") > 4
