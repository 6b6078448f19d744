"""A user's own candidate: a unified diff, or another version of the script."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from slowtrain.errors import InputError
from slowtrain.verify.candidates.edited_files import EditedFiles, repository_root

MAX_PATCH_BYTES = 5_000_000
NULL_FILE = "/dev/null"  # the other side of an added or removed file
FILE_HEADER = re.compile(r"^--- (?:a/)?([^\t\n]+)[^\n]*\n\+\+\+ (?:b/)?([^\t\n]+)[^\n]*\n", re.MULTILINE)


def apply_patch_file(patch: Path, folder: Path) -> EditedFiles:
    """The files that a unified diff changes or adds. Raises ``InputError`` if it does not apply.

    git applies it to copies, so a proof accepts what git accepts. Paths are relative to ``folder``, or to the top of
    its repository, as git writes them.
    """
    try:
        text = patch.read_bytes()[: MAX_PATCH_BYTES + 1].decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the patch {patch} ({error})") from error
    names = {_changed_path(patch, found): found[1].strip() == NULL_FILE for found in FILE_HEADER.finditer(text)}
    if len(text) > MAX_PATCH_BYTES or not names:
        raise InputError(f"{patch} is not a unified diff; make one with `git diff` or `diff -u a.py b.py`")
    below = _find_patch_root(patch, names, folder)
    original = {(below / name).resolve(): b"" if new else (below / name).read_bytes() for name, new in names.items()}
    with tempfile.TemporaryDirectory(prefix="slowtrain-") as temporary:
        for name, new in names.items():
            copy = Path(temporary, name)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if not new:
                copy.write_bytes((below / name).read_bytes())
        _git_apply(
            patch,
            FILE_HEADER.sub(lambda found: _normalised_header(_changed_path(patch, found), found), text),
            Path(temporary),
        )
        current = {(below / name).resolve(): Path(temporary, name).read_bytes() for name in names}
    return EditedFiles(original, current)


def _changed_path(patch: Path, found: re.Match[str]) -> str:
    """The file that a header names; for `diff -u a.py b.py` the first, because a.py becomes b.py.

    Raises ``InputError`` for a file that cannot be a candidate: candidates run from memory, which only holds modules.
    """
    before, after = found[1].strip(), found[2].strip()
    name = after if before == NULL_FILE else before
    if after == NULL_FILE:
        raise InputError(f"{patch} removes {name}, but a candidate must keep all files; leave that part out")
    if not name.endswith(".py"):
        raise InputError(f"{patch} changes {name}, but a candidate may change only Python files; leave that part out")
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise InputError(f"{patch} changes {name}, which is not a path relative to the folder where the patch applies")
    return name


def _find_patch_root(patch: Path, names: Mapping[str, bool], folder: Path) -> Path:
    """The folder that contains every changed file and none of the added ones."""
    wrong = ""
    for below in filter(None, (folder, repository_root(folder))):
        amiss = [name for name, new in names.items() if (below / name).is_file() == new]
        if not amiss:
            return below
        wrong = wrong or amiss[0]
    what = f"adds {wrong}, which already exists in" if names[wrong] else f"changes {wrong}, which is not a file in"
    raise InputError(f"{patch} {what} {folder}; run the command in the folder where the patch applies")


def _normalised_header(name: str, found: re.Match[str]) -> str:
    before = NULL_FILE if found[1].strip() == NULL_FILE else f"a/{name}"
    return f"--- {before}\n+++ b/{name}\n"


def replace_script(baseline: Path, candidate: Path) -> EditedFiles:
    """The script ``baseline`` with the text of ``candidate``, so that both see the same neighbouring files."""
    try:
        before, after = baseline.read_bytes(), candidate.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {error.filename} ({error.strerror})") from error
    path = baseline.resolve()
    return EditedFiles({path: before}, {path: after})


def _git_apply(patch: Path, text: str, folder: Path) -> None:
    command = ["git", "apply", "-p1", "--whitespace=nowarn", "-"]
    try:
        done = subprocess.run(command, cwd=folder, input=text.encode(), capture_output=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"git is needed to apply {patch} ({error})") from error
    if done.returncode:
        said = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["git apply failed"])[0]
        raise InputError(f"{patch} does not apply ({said})")
