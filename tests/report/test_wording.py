"""Numbers and names as every report shows them."""

from __future__ import annotations

import math
import time

import pytest
from msgspec.structs import replace

from slowtrain.model import Verdict
from slowtrain.report import documents, pages, text, wording

from . import checkups


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (0, "0 ms"),
        (0.004, "4 µs"),
        (0.123, "0.12 ms"),
        (9.996, "10.0 ms"),
        (12.34, "12.3 ms"),
        (999.6, "1.00 s"),
        (61_234, "61.2 s"),
        (123_000, "2 min 3 s"),
        (119_600, "2 min 0 s"),
        (8_000_000, "2 h 13 min"),
        (-3.0, "-3.00 ms"),
        (None, "not measured"),
        (math.nan, "not measured"),
        (math.inf, "not measured"),
    ],
)
def test_duration(ms: float | None, said: str) -> None:
    assert wording.duration_text(ms) == said


def test_a_column_has_one_unit_and_its_decimals() -> None:
    assert [wording.duration_like(ms, 12.3) for ms in (8.12, 0.02)] == ["8.1 ms", "0.0 ms"]
    assert [wording.duration_like(ms, 61_234) for ms in (3100, 61_234)] == ["3.1 s", "61.2 s"]
    assert wording.duration_like(0.0123, 0.5) == "0.012 ms"


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0%"), (0.0001, "<0.1%"), (0.024, "2.4%"), (0.0999, "10%"), (0.66, "66%"), (None, "not measured")],
)
def test_share(value: float | None, said: str) -> None:
    assert wording.share_text(value) == said


@pytest.mark.parametrize(
    ("value", "said"), [(512, "512 B"), (1023.9, "1.00 KiB"), (38.5e6, "36.7 MiB"), (3e15, "2,728 TiB")]
)
def test_size(value: float, said: str) -> None:
    assert wording.bytes_text(value) == said


def test_named_numbers_say_their_unit() -> None:
    assert wording.evidence_text("map_ms_per_step", 7.93) == "7.93 ms"
    assert wording.evidence_text("free_bytes", 9.9e9) == "9.22 GiB"
    assert wording.evidence_text("idle_share", 0.5) == "50%"
    assert wording.evidence_text("cores", 3.0) == "3"


def test_speedups_share_their_decimals() -> None:
    assert wording.speedup_text(1.92, 1.72, 2.06) == "1.9x (1.7x to 2.1x)"
    assert wording.speedup_text(1.014, 0.996, 1.02) == "1.01x (1.00x to 1.02x)"
    assert wording.speedup_text(14.2, 12.0, 17.9) == "14x (12x to 18x)"
    assert wording.speedup_text(2.0, 1.5, math.inf) == "2.0x (range unknown)"


def test_a_measured_cure() -> None:
    assert wording.verdict_text(Verdict("no better", 1.0, 0.97, 1.03, 1, "within 1e-5")) == (
        "no better, 1.00x (0.97x to 1.03x), 1 run, loss within 1e-5"
    )


def test_device() -> None:
    assert wording.device_text({"kind": "GPU", "name": "NVIDIA T4", "count": 4}) == "4 x GPU: NVIDIA T4"
    assert wording.device_text({}) == "not measured"


@pytest.mark.parametrize(
    ("hostile", "left"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("a\x1b]0;title\x07b", "ab"),
        ("a\x1b]8;;x\x1b\\b", "ab"),
        ("\x9b2Ja", "a"),
        ("a\nb\tc\rd", "a b cd"),
        ("\u202ea\u200b\u2066b\ufeff", "ab"),
        ("\udcff", "\ufffd"),
        ("a\x1b]never ended", "anever ended"),
        ("日本 é", "日本 é"),
    ],
)
def test_clean(hostile: str, left: str) -> None:
    assert wording.printable_text(hostile) == left


@pytest.mark.bench
def test_clean_is_quick_on_the_worst() -> None:
    assert clean_s(400_000) < 3 * clean_s(200_000), "twice the text takes twice the time"


def clean_s(length: int) -> float:
    """CPU seconds to clean hostile texts of that length."""
    start = time.process_time()
    for part in ("\x1b]", "\x9d", "\x1b[", "\x1b[" + "0" * (length - 2), "\u202e"):
        wording.printable_text(part * (length // len(part)))
    return time.process_time() - start


@pytest.mark.parametrize(
    ("category", "said"), [("convert", "convert"), ("h2d", "copy to device"), ("host-op", "host op")]
)
def test_making_tensors_copies_and_ops_of_the_host_are_told_apart(category: str, said: str) -> None:
    checkup = replace(checkups.input_bound(), attribution=checkups.parts(**{category: 2.0, "device": 8.0}))
    for report in (text.checkup_text(checkup), pages.checkup_page(checkup, {})):
        assert said in report
    assert category in str(documents.checkup_document(checkup)["attribution"])
