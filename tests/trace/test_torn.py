"""What lies damaged beside a recording is named, and the recording is read without it."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from slowtrain.columns.spans import Event
from slowtrain.trace.loading import side_files

PROFILE = Path(__file__).parent / "recorded" / "gpu-healthy.xplane.pb.gz"


def window(folder: Path, content: bytes | None) -> tuple[Event, ...]:
    inside = folder / "window-1" / "plugins" / "profile" / "now"
    inside.mkdir(parents=True)
    if content is not None:
        (inside / "vm.xplane.pb").write_bytes(content)
    return (Event("window", "profile", 0.0, 1.0, {"folder": "window-1", "begun_ns": 5}),)


def whole() -> bytes:
    return gzip.decompress(PROFILE.read_bytes())


@pytest.mark.parametrize(
    ("part", "said"), [(0.0, "is empty"), (0.5, "is damaged"), (0.999, "is damaged"), (None, "is missing"), (1.0, "")]
)
def test_a_profile_that_cannot_be_read_is_named(tmp_path: Path, part: float | None, said: str) -> None:
    data = whole()
    events = window(tmp_path, None if part is None else data[: int(part * len(data))])
    before: dict[str, Any] = {"notes": ["before"], "windows": True}
    found = side_files.with_damage_notes(tmp_path, events, before)
    if not said:
        assert found == before
        return
    assert found["unread"] == (f"window-1 {said}",)
    assert found["notes"] == ["before", f"the profile of window-1 {said}: the work inside its steps is not known"]


def test_what_is_no_profile_at_all_is_damaged(tmp_path: Path) -> None:
    assert side_files.with_damage_notes(tmp_path, window(tmp_path, b"<html></html>"), {})["unread"] == (
        "window-1 is damaged",
    )


@pytest.mark.parametrize(
    ("text", "noted"), [('{"argv": ["py', True), ("[1, 2]", True), ('{"argv": []}', False), (None, False)]
)
def test_a_broken_launch_is_noted(tmp_path: Path, text: str | None, noted: bool) -> None:
    if text is not None:
        (tmp_path / "launch.json").write_text(text)
    found = side_files.with_damage_notes(tmp_path, (), {})
    assert any("launch.json cannot be read" in note for note in found.get("notes", ())) is noted
    assert "unread" not in found or not found["unread"]
