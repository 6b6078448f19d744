"""Frames of a signal are transformed at once: the same numbers, but for rounding."""

from __future__ import annotations

import numpy as np
import pytest

from slowtrain.script.text import edits, source_file
from slowtrain.source.cures.host import framing

HEAD = "import numpy as np\nFRAME, HOP, BANDS = 64, 16, 8\n"
HEAD += "HANN, MEL = np.hanning(64), np.sqrt(np.arange(264.0)).reshape(33, 8)\n"
PLACED = """
def bands(wave):
    n = 1 + (len(wave) - FRAME) // HOP
    out = np.empty((n, BANDS), "float32")
    for i in range(n):
        seg = wave[i * HOP:i * HOP + FRAME] * HANN
        power = np.abs(np.fft.rfft(seg)) ** 2
        out[i] = np.log(power.astype("float32") @ MEL + 1e-4)
    return out
"""
JOINED = """
def bands(wave):
    frames = []
    for start in range(0, len(wave) - FRAME + 1, HOP):
        spectrum = np.fft.rfft(wave[start:start + FRAME] - 0.5, n=128)
        frames.append(np.sqrt(spectrum.real ** 2 + spectrum.imag ** 2)[1:30] / FRAME)
    return np.stack(frames)
"""


def framed(text: str) -> str | None:
    read = source_file.parse_source("train.py", HEAD + text)
    assert read is not None
    line = next(i for i, row in enumerate(read.text.splitlines(), 1) if "for " in row)
    found = framing.framed(read, line + 1)
    return edits.edited_text(read, found) if found else None


def bands(
    text: str, wave: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    space: dict[str, object] = {}
    exec(compile(text, "train.py", "exec"), space)
    made = space["bands"]
    assert callable(made)
    found = made(wave)
    assert isinstance(found, np.ndarray)
    return found


@pytest.mark.parametrize(
    "text",
    [
        PLACED,
        JOINED,
        PLACED.replace("np.abs(np.fft.rfft(seg))", "np.dot(seg, np.eye(64)[:33].T)").replace(
            "np.eye(64)[:33].T", "EYE"
        ),
        PLACED.replace('power.astype("float32") @ MEL', "np.dot(TURNED, power)"),
        PLACED.replace("i * HOP:i * HOP", "HOP * i:HOP * i"),
        JOINED.replace("[1:30] / FRAME", "[:30].astype(np.float32)"),
    ],
)
@pytest.mark.parametrize("length", [64, 500, 501])
def test_the_same_numbers(text: str, length: int) -> None:
    after = framed(text)
    assert after is not None
    assert "for " not in after
    more = "EYE, TURNED = np.eye(64)[:, :33], MEL.T\n"
    wave = np.random.default_rng(1).normal(size=length)
    old, new = bands(HEAD + more + text, wave), bands(after.replace("\ndef ", f"{more}\ndef ", 1), wave)
    assert (old.shape, old.dtype) == (new.shape, new.dtype)
    np.testing.assert_allclose(new, old, rtol=1e-5)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (PLACED, "* HANN", "* HANN + i"),  # the number of the frame
        (PLACED, "power = ", "power = 0.5 * power + "),  # what the frame before left
        (PLACED, "return out", "return out, power"),
        (PLACED, "out[i] =", "out[i, 0] ="),
        (PLACED, "i * HOP + FRAME]", "i * HOP + FRAME + i]"),  # frames of different lengths
        (PLACED, "range(n)", "range(1, n)"),
        (PLACED, "        power = ", "        if seg.max() > 1:\n            break\n        power = "),
        (PLACED, "np.abs(np.fft.rfft(seg))", "np.abs(np.fft.rfft(seg, axis=0))"),
        (PLACED, "np.abs(np.fft.rfft(seg))", "np.cumsum(seg)"),
        (PLACED, "np.abs(np.fft.rfft(seg))", "seg[0]"),
        (JOINED, "frames = []", "frames = [np.zeros(29)]"),
        (JOINED, "frames = []", "frames = []\n    seen = 0"),
        (JOINED, "len(wave) - FRAME + 1", "len(wave)"),  # the last frames are shorter
        (JOINED, "range(0, ", "range(FRAME, "),
        (JOINED, "frames.append(", "frames.extend("),
    ],
)
def test_left_alone(text: str, old: str, new: str) -> None:
    assert old in text
    assert framed(text.replace(old, new)) is None


def test_signals_of_several_channels_raise() -> None:
    after = framed(JOINED)
    assert after is not None
    with pytest.raises(ValueError, match="axis"):
        bands(after, np.zeros((500, 2)))
