"""What a recorder has kept and not yet written."""

from __future__ import annotations

import struct

from slowtrain.capture.core.recorder import Recorder
from slowtrain.capture.core.span_rows import Row


def spans(recorder: Recorder) -> list[Row]:
    """All rows; they stay where they are."""
    found: list[Row] = list(struct.iter_unpack("5q", recorder.rows.take()))
    for row in found:
        recorder.emit(row)
    return found
