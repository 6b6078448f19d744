"""What a probe makes in a folder for temporary files is removed after it, and nothing else."""

from __future__ import annotations

from pathlib import Path

from slowtrain.capture.sandbox import temporary_files
from slowtrain.capture.sandbox.temporary_files import NAME_PREFIX, WHOLE_NAME, TemporaryNotes


def test_what_was_made_is_removed_and_nothing_else(tmp_path: Path) -> None:
    folder, run = tmp_path / "tmp", tmp_path / "run"
    for one in (folder, run):
        one.mkdir()
    (folder / "old").write_text("a")
    before = {str(folder): ["old"]}
    (folder / "others").mkdir()  # by somebody else, since
    (folder / "theirs.index").write_text("a")
    notes = TemporaryNotes(str(run / temporary_files.NOTES_NAME), before)
    made = (
        ("file", WHOLE_NAME),
        ("folder/deep/file", WHOLE_NAME),
        ("others/file", WHOLE_NAME),
        ("cache_temp/part", NAME_PREFIX),
        ("cache", NAME_PREFIX),
    )
    for name, how in made:
        notes.add(str(folder / name), how)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        notes.add(str(folder / name), how)
    notes.add(str(folder / "theirs"), NAME_PREFIX)
    notes.add(str(tmp_path / "elsewhere"), WHOLE_NAME)
    notes.add(str(folder), WHOLE_NAME)
    for name in ("file", "folder/deep/file", "others/file", "cache.index", "cache_0.lockfile", "cached", "theirs.data"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("b")
    for name in ("file.beside", "cache_of_others", "cache.txt"):
        (folder / name).write_text("a")
    temporary_files.remove_noted_files(run, before)
    left = sorted(one.name for one in folder.iterdir())
    others = ["cache.txt", "cache_of_others", "cached", "file.beside", "old", "others", "theirs.data", "theirs.index"]
    assert left == others
    assert (folder / "others" / "file").exists()


def test_links_are_removed_and_not_what_they_lead_to(tmp_path: Path) -> None:
    folder, far = tmp_path / "tmp", tmp_path / "far"
    for one in (folder, far):
        one.mkdir()
    (far / "file").write_text("a")
    TemporaryNotes(str(tmp_path / temporary_files.NOTES_NAME), [str(folder)]).add(str(folder / "link"), WHOLE_NAME)
    (folder / "link").symlink_to(far)
    temporary_files.remove_noted_files(tmp_path, {})
    assert not (folder / "link").is_symlink()
    assert (far / "file").exists()


def test_a_probe_that_made_nothing(tmp_path: Path) -> None:
    temporary_files.remove_noted_files(tmp_path, temporary_files.list_temporary_files())
