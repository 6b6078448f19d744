"""The user's files: what is refused, and that they are written whole or not at all."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from slowtrain.errors import InputError
from slowtrain.model import Edit
from slowtrain.model.measurements import ChangedFile
from slowtrain.verify.measurement import edited_files
from slowtrain.verify.measurement.edited_files import EditedFiles

from . import probing


def change(path: Path, before: bytes = b"x = 1\n", after: bytes = b"x = 2\n", mode: int = 0o640) -> ChangedFile:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(before)
    path.chmod(mode)
    return ChangedFile(path, before, after)


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def test_it_is_written_with_its_mode(tmp_path: Path) -> None:
    several = [change(tmp_path / "a.py", mode=0o755), change(tmp_path / "b.py", mode=0o640)]
    edited_files.write_files(several)
    assert [(one.path.read_bytes(), one.path.stat().st_mode & 0o777) for one in several] == [
        (b"x = 2\n", 0o755),
        (b"x = 2\n", 0o640),
    ]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.py", "b.py"]


def test_a_link_stays_one(tmp_path: Path) -> None:
    one = change(tmp_path / "real.py")
    (tmp_path / "link.py").symlink_to("real.py")
    edited_files.write_files([ChangedFile(tmp_path / "link.py", one.before, one.after)])
    assert (tmp_path / "link.py").is_symlink()
    assert one.path.read_bytes() == one.after


@pytest.mark.parametrize("what", ["changed", "gone", "read-only"])
def test_nothing_is_written_where_one_cannot_be(what: str, tmp_path: Path) -> None:
    first, second = change(tmp_path / "a.py"), change(tmp_path / "b.py")
    if what == "changed":
        second.path.write_bytes(b"x = 3\n")
    elif what == "gone":
        second.path.unlink()
    else:
        second.path.chmod(0o444)
    before = probing.state(tmp_path)
    words = {"changed": "has changed since", "gone": "cannot read", "read-only": "is read-only"}[what]
    with pytest.raises(InputError, match=f"{words}.*nothing was written"):
        edited_files.write_files([first, second], force=True)
    assert probing.state(tmp_path) == before


def test_a_write_that_fails_half_way_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    several = [change(tmp_path / name) for name in ("a.py", "b.py", "c.py")]
    real = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if target.name == "c.py":
            raise OSError(28, "No space left on device", str(target))
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(InputError, match=r"c\.py \(No space left on device\); nothing was written"):
        edited_files.write_files(several)
    assert [one.path.read_bytes() for one in several] == [one.before for one in several]
    assert len(list(tmp_path.iterdir())) == 3


def test_changes_that_are_not_committed(tmp_path: Path) -> None:
    one = change(tmp_path / "a.py", b"x = 0\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "a.py")
    git(tmp_path, "commit", "-qm", "a")
    one = change(one.path)
    with pytest.raises(InputError, match="uncommitted changes; commit them, or give --force"):
        edited_files.write_files([one])
    assert one.path.read_bytes() == one.before
    edited_files.write_files([one], force=True)
    assert one.path.read_bytes() == one.after
    git(tmp_path, "commit", "-qam", "b")
    edited_files.write_files([change(tmp_path / "unknown.py")])  # git does not know it
    other = change(tmp_path / "other" / "b.py", b"y = 0\n")
    git(tmp_path, "add", "other/b.py")
    git(tmp_path, "commit", "-qm", "c")
    change(other.path)
    with pytest.raises(InputError, match=r"^other/b\.py has uncommitted changes"):
        edited_files.write_files([ChangedFile(one.path, one.after, b"x = 9\n")])  # of another file
    git(tmp_path, "commit", "-qam", "d")
    edited_files.write_files([ChangedFile(one.path, one.after, b"x = 9\n")])  # clean: no force is needed


def test_installed_packages_are_not_edited(tmp_path: Path) -> None:
    mine = tmp_path / "venv" / "lib" / "site-packages" / "pkg.py"
    mine.parent.mkdir(parents=True)
    mine.write_text("x = 1\n")
    link = tmp_path / "link.py"
    link.symlink_to(mine)
    for path in (json.__file__, pytest.__file__, str(mine), str(link)):
        with pytest.raises(InputError, match="belongs to an installed package"):
            EditedFiles().with_edits([Edit(path, (1, 0), (1, 0), "# hm\n")], os.sep)


def test_edits_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    with pytest.raises(InputError, match="would not parse"):
        EditedFiles().with_edits([Edit("a.py", (1, 0), (1, 0), "(")], str(tmp_path))
    with pytest.raises(InputError, match=r"cannot read .*gone\.py"):
        EditedFiles().with_edits([Edit("gone.py", (1, 0), (1, 0), "x")], str(tmp_path))


def test_edits_add_up(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    first = EditedFiles().with_edits([Edit("a.py", (1, 4), (1, 5), "2")], str(tmp_path))
    second = first.with_edits([Edit(str(tmp_path / "a.py"), (1, 0), (1, 1), "y")], "/")
    assert second.changed_files() == (ChangedFile(tmp_path / "a.py", b"x = 1\n", b"y = 2\n"),)
    assert second.texts() == {str(tmp_path / "a.py"): "y = 2\n"}
    assert first.current != second.current
    assert (tmp_path / "a.py").read_text() == "x = 1\n"
    assert edited_files.unified_diff(second.changed_files(), tmp_path).splitlines()[:2] == ["--- a/a.py", "+++ b/a.py"]


@pytest.mark.parametrize(
    ("repository", "started", "below"),
    [
        ("lab", "lab/exp", "lab"),  # the top of the repository, wherever in it one is
        (None, "lab/exp", "lab"),  # the deepest folder that holds both files
        (None, "lab", "lab"),  # where the run was started
        (None, ".", "."),
        (None, "elsewhere", "lab"),
        ("elsewhere", "elsewhere", "lab"),
    ],
)
def test_the_patch_applies_from_where_it_says(repository: str | None, started: str, below: str, tmp_path: Path) -> None:
    folder = tmp_path / started
    several = [change(tmp_path / "lab" / "common.py"), change(tmp_path / "lab" / "exp" / "train.py")]
    folder.mkdir(exist_ok=True)
    if repository is not None:
        git(tmp_path / repository, "init", "-q")
    edits = [Edit(str(one.path), (1, 4), (1, 5), "2") for one in several]
    found = EditedFiles().with_edits(edits, str(folder)).changed_files()
    assert found == tuple(several)
    top = edited_files.patch_root([one.path for one in found], folder)
    assert top == (tmp_path / below).resolve()
    patch = tmp_path / "fix.patch"
    patch.write_text(edited_files.unified_diff(found, folder))
    for flags, wanted in (((), "after"), (("-R",), "before")):
        subprocess.run(["git", "-C", str(top), "apply", *flags, str(patch)], check=True)
        assert [one.path.read_bytes() for one in several] == [getattr(one, wanted) for one in several]


def test_files_without_a_folder_in_common(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = change(tmp_path / "train.py")
    kept = EditedFiles().with_edits([Edit(str(one.path), (1, 4), (1, 5), "2")], str(tmp_path))
    far = Path("/opt/shared/common.py")
    monkeypatch.setattr(edited_files, "_read_own_file", lambda _path: b"x = 1\n")
    with pytest.raises(
        InputError, match=r"/opt/shared/common\.py and .* have no common folder for one patch; not edited"
    ):
        kept.with_edits([Edit(str(far), (1, 4), (1, 5), "2")], str(tmp_path))
