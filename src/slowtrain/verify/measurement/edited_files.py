"""The user's files: read once, edited in memory or by a patch, and written only if nobody else has changed them."""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
import subprocess
import tempfile
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from slowtrain.errors import InputError
from slowtrain.model import Edit
from slowtrain.model.measurements import ChangedFile
from slowtrain.script.navigation import project_files
from slowtrain.script.text import edits as editing


@dataclass(frozen=True)
class EditedFiles:
    """Edited texts: ``original`` and ``current`` bytes of the affected files by absolute path."""

    original: dict[Path, bytes] = field(default_factory=dict)
    current: dict[Path, bytes] = field(default_factory=dict)

    def with_edits(self, edits: Iterable[Edit], root: str) -> EditedFiles:
        """A copy with ``edits`` applied. Raises ``InputError`` if a file cannot or must not be edited."""
        original, current = dict(self.original), dict(self.current)
        by_file: dict[Path, list[Edit]] = {}
        for edit in edits:
            by_file.setdefault(Path(os.path.abspath(os.path.join(root, edit.file))), []).append(edit)
        for path, several in by_file.items():
            if path not in current:
                content = _read_own_file(path)
                _require_common_folder([*current, path], Path(root))
                original[path] = current[path] = content
            current[path] = editing.apply_edits(current[path], several)
            _require_parsable(path, current[path])
        return EditedFiles(original, current)

    def texts(self) -> dict[str, str]:
        """The texts that replace the files in a probe, by path."""
        return {str(path): decode_source(content) for path, content in self.current.items()}

    def text_of(self, path: Path) -> str:
        """The text of a file, with its edits if it has any. Lines end with a line feed only."""
        content = self.current.get(path)
        return decode_source(path.read_bytes() if content is None else content).replace("\r\n", "\n")

    def changed_files(self) -> tuple[ChangedFile, ...]:
        return tuple(
            ChangedFile(path, self.original[path], content)
            for path, content in sorted(self.current.items())
            if content != self.original[path]
        )


def unified_diff(files: Iterable[ChangedFile], folder: Path) -> str:
    """One unified diff, with paths relative to :func:`patch_root` for a run in ``folder``."""
    files = list(files)
    base = patch_root([one.path for one in files], folder)
    parts = []
    for one in files:
        with contextlib.suppress(ValueError):
            file, added = str(one.path.relative_to(base)), not (one.before or one.path.exists())
            parts.append(editing.file_diff(file, _bytes_as_text(one.before), _bytes_as_text(one.after), added=added))
    return "".join(parts)


def patch_root(paths: Iterable[Path], folder: Path) -> Path:
    """The folder that a patch's paths are relative to: the top of the git repository that contains ``folder``.

    Without a repository it is ``folder``. For files outside it, it is the deepest folder that contains them all.
    """
    paths = list(paths)
    known = (repository_root(folder), folder)
    containing = (one for one in known if one is not None and all(path.is_relative_to(one) for path in paths))
    return next(containing, None) or Path(os.path.commonpath([path.parent for path in paths]))


def repository_root(folder: Path) -> Path | None:
    """The top folder of the git repository that contains ``folder``."""
    output = _git_output(folder, "rev-parse", "--show-toplevel")
    return Path(output) if output else None


def _git_output(folder: Path, *arguments: str) -> str:
    """The output of a git command; "" if git is missing or knows no repository there."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return os.fsdecode(done.stdout).rstrip("\n") if done.returncode == 0 else ""


def _require_common_folder(paths: list[Path], folder: Path) -> None:
    """Raises ``InputError`` if the files' only common folder is the root of the file system."""
    if patch_root(paths, folder) == Path(folder.anchor) != folder:
        others = os.path.commonpath([path.parent for path in paths[:-1]] or [folder])
        raise InputError(f"{paths[-1]} and {others} have no common folder for one patch; not edited")


def _bytes_as_text(content: bytes) -> str:
    """Bytes as text that ``encode("utf-8", "surrogateescape")`` restores, whatever the source's encoding is."""
    return content.decode("utf-8", "surrogateescape")


def decode_source(content: bytes) -> str:
    """A source file's text in its declared encoding, with its line ends."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    return content.decode(encoding)


def write_files(files: Iterable[ChangedFile], *, force: bool = False) -> None:
    """Writes the files, or raises ``InputError`` before writing anything if content could be lost."""
    files = [replace(one, path=Path(os.path.realpath(one.path))) for one in files]  # a symbolic link stays one
    for one in files:
        try:
            now = one.path.read_bytes()
        except OSError as error:
            raise InputError(f"cannot read {one.path} again ({error.strerror}); nothing was written") from error
        if now != one.before:
            raise InputError(f"{one.path} has changed since it was measured; nothing was written, run fix again")
        require_writable(one.path, force=force)
    parts = [one.path.with_name(f".{one.path.name}.{os.getpid()}.part") for one in files]
    written = []
    try:
        for one, part in zip(files, parts, strict=True):
            _prepare_replacement(part, one)
        for one, part in zip(files, parts, strict=True):
            part.replace(one.path)
            written.append(one)
    except OSError as error:
        for one in written:  # all or none
            with contextlib.suppress(OSError):
                one.path.write_bytes(one.before)
        raise InputError(f"cannot write {error.filename} ({error.strerror}); nothing was written") from error
    finally:
        for part in parts:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)


def require_writable(path: Path, *, force: bool = False) -> None:
    """Raises ``InputError`` if :func:`write_files` would refuse the file in its present state."""
    # For root, os.access reports no file as read-only.
    if not (os.access(path, os.W_OK) and path.stat().st_mode & 0o222):
        raise InputError(f"{path} is read-only; nothing was written, apply the patch by hand")
    dirty = [] if force else _uncommitted_files(path.parent)
    if dirty:
        more = f" (+{len(dirty) - 1} more)" if len(dirty) > 1 else ""
        raise InputError(f"{dirty[0]}{more} has uncommitted changes; commit them, or give --force")


def _prepare_replacement(part: Path, one: ChangedFile) -> None:
    """Writes the new content beside the file, with its mode and owner."""
    about = one.path.stat()
    part.write_bytes(one.after)
    part.chmod(stat.S_IMODE(about.st_mode))
    if (about.st_uid, about.st_gid) != (part.stat().st_uid, part.stat().st_gid):
        os.chown(part, about.st_uid, about.st_gid)


def _uncommitted_files(folder: Path) -> list[str]:
    """Files with uncommitted changes in the repository that contains ``folder``; without untracked files."""
    output = _git_output(folder, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=no")
    return [row[3:] for row in output.split("\0") if row]


def _read_own_file(path: Path) -> bytes:
    """The content of a file that belongs to the user and may be edited."""
    if project_files.is_installed(path):
        raise InputError(f"{path} belongs to an installed package and is not edited")
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror}) to edit it") from error


def _require_parsable(path: Path, content: bytes) -> None:
    try:
        compile(content, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise InputError(f"the edit of {path} would not parse ({error})") from error


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
        message = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["git apply failed"])[0]
        raise InputError(f"{patch} does not apply ({message})")
