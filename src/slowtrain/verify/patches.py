"""Somebody's own idea as a candidate: a unified diff, or another version of the script."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from slowtrain.errors import InputError
from slowtrain.verify.files import Files

MOST_BYTES = 5_000_000
HEADER = re.compile(r"^--- (?:a/)?([^\t\n]+)[^\n]*\n\+\+\+ (?:b/)?([^\t\n]+)[^\n]*\n", re.MULTILINE)


def patched(patch: Path, folder: Path) -> Files:
    """The files that a unified diff changes, as they would be. Raises ``InputError`` where it does not apply.

    It is applied by git to copies: what git takes, a proof takes. Paths are relative to ``folder``.
    """
    try:
        text = patch.read_bytes()[: MOST_BYTES + 1].decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the patch {patch} ({error})") from error
    names = sorted({before.strip() for before, _ in HEADER.findall(text)})
    if len(text) > MOST_BYTES or not names:
        raise InputError(f"{patch} is not a unified diff; make one with `git diff` or `diff -u a.py b.py`")
    original: dict[Path, bytes] = {}
    with tempfile.TemporaryDirectory(prefix="slowtrain-") as temporary:
        for name in names:
            source = folder / name
            if Path(name).is_absolute() or ".." in Path(name).parts or not source.is_file():
                raise InputError(f"{patch} changes {name}, which is not a file below {folder}; run it where it applies")
            copy = Path(temporary, name)
            copy.parent.mkdir(parents=True, exist_ok=True)
            original[source.resolve()] = source.read_bytes()
            copy.write_bytes(source.read_bytes())
        # `diff -u a.py b.py` names two files: what is meant is a.py as b.py is.
        same = HEADER.sub(lambda found: f"--- a/{found[1].strip()}\n+++ b/{found[1].strip()}\n", text)
        _apply(patch, same, Path(temporary))
        current = {(folder / name).resolve(): Path(temporary, name).read_bytes() for name in names}
    return Files(original, current)


def replaced(baseline: Path, candidate: Path) -> Files:
    """The script ``baseline`` with the text of ``candidate``, so that both find the same files beside them."""
    try:
        before, after = baseline.read_bytes(), candidate.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {error.filename} ({error.strerror})") from error
    path = baseline.resolve()
    return Files({path: before}, {path: after})


def _apply(patch: Path, text: str, folder: Path) -> None:
    command = ["git", "apply", "-p1", "--whitespace=nowarn", "-"]
    try:
        done = subprocess.run(command, cwd=folder, input=text.encode(), capture_output=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"git is needed to apply {patch} ({error})") from error
    if done.returncode:
        said = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["git apply failed"])[0]
        raise InputError(f"{patch} does not apply ({said})")
