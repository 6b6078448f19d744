"""What a probe makes in a folder for temporary files is removed after it, and nothing else."""

from __future__ import annotations

from pathlib import Path

from slowtrain.capture import temporary
from slowtrain.capture.temporary import FILE, START, Notes


def test_what_was_made_is_removed_and_nothing_else(tmp_path: Path) -> None:
    folder, run = tmp_path / "tmp", tmp_path / "run"
    for one in (folder, run):
        one.mkdir()
    (folder / "old").write_text("a")
    before = {str(folder): ["old"]}
    (folder / "others").mkdir()  # by somebody else, since
    (folder / "theirs.index").write_text("a")
    notes = Notes(str(run / temporary.NOTES), before)
    made = (
        ("file", FILE),
        ("folder/deep/file", FILE),
        ("others/file", FILE),
        ("cache_temp/part", START),
        ("cache", START),
    )
    for name, how in made:
        notes.add(str(folder / name), how)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        notes.add(str(folder / name), how)
    notes.add(str(folder / "theirs"), START)
    notes.add(str(tmp_path / "elsewhere"), FILE)
    notes.add(str(folder), FILE)
    for name in ("file", "folder/deep/file", "others/file", "cache.index", "cache_0.lockfile", "cached", "theirs.data"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("b")
    for name in ("file.beside", "cache_of_others", "cache.txt"):
        (folder / name).write_text("a")
    temporary.remove(run, before)
    left = sorted(one.name for one in folder.iterdir())
    others = ["cache.txt", "cache_of_others", "cached", "file.beside", "old", "others", "theirs.data", "theirs.index"]
    assert left == others
    assert (folder / "others" / "file").exists()


def test_links_are_removed_and_not_what_they_lead_to(tmp_path: Path) -> None:
    folder, far = tmp_path / "tmp", tmp_path / "far"
    for one in (folder, far):
        one.mkdir()
    (far / "file").write_text("a")
    Notes(str(tmp_path / temporary.NOTES), [str(folder)]).add(str(folder / "link"), FILE)
    (folder / "link").symlink_to(far)
    temporary.remove(tmp_path, {})
    assert not (folder / "link").is_symlink()
    assert (far / "file").exists()


def test_a_probe_that_made_nothing(tmp_path: Path) -> None:
    temporary.remove(tmp_path, temporary.before())
