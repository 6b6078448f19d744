"""The user's files: read once, changed in memory, written back only where nobody else has changed them."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import subprocess
import sysconfig
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from slowtrain.errors import InputError
from slowtrain.model import Edit
from slowtrain.model.proof import Changed
from slowtrain.source import edits as editing

PACKAGES = frozenset({"site-packages", "dist-packages"})


@dataclass(frozen=True)
class Files:
    """Texts as they would be: ``original`` and ``current`` bytes by absolute path, of the files that were touched."""

    original: dict[Path, bytes] = field(default_factory=dict)
    current: dict[Path, bytes] = field(default_factory=dict)

    def edited(self, edits: Iterable[Edit], root: str) -> Files:
        """With ``edits`` made in what is current. Raises ``InputError`` where a file cannot or must not be edited."""
        original, current = dict(self.original), dict(self.current)
        by_file: dict[Path, list[Edit]] = {}
        for edit in edits:
            by_file.setdefault(Path(os.path.abspath(os.path.join(root, edit.file))), []).append(edit)
        for path, several in by_file.items():
            if path not in current:
                original[path] = current[path] = _own(path)
            current[path] = editing.apply(current[path], several)
            _parsed(path, current[path])
        return Files(original, current)

    def texts(self) -> dict[str, str]:
        """What stands in for the files in a probe, by path."""
        return {str(path): decode(content) for path, content in self.current.items()}

    def changed(self) -> tuple[Changed, ...]:
        return tuple(
            Changed(path, self.original[path], content)
            for path, content in sorted(self.current.items())
            if content != self.original[path]
        )


def diff(files: Iterable[Changed], folder: Path) -> str:
    """One unified diff, with paths relative to ``folder`` where they lie below it."""
    parts = []
    for one in files:
        with contextlib.suppress(ValueError):
            parts.append(editing.diff(_shown(one.path, folder), _bytes(one.before), _bytes(one.after)))
    return "".join(parts)


def _shown(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path).lstrip("/")


def _bytes(content: bytes) -> str:
    """Bytes as text that ``encode("utf-8", "surrogateescape")`` gives back, whatever the source's encoding is."""
    return content.decode("utf-8", "surrogateescape")


def decode(content: bytes) -> str:
    """A source file's text, by the encoding that it says, its line ends kept."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    return content.decode(encoding)


def write(files: Iterable[Changed], *, force: bool = False) -> None:
    """Writes what was kept. Raises ``InputError``, and then has written nothing, where that could lose something."""
    files = [replace(one, path=Path(os.path.realpath(one.path))) for one in files]  # a link stays one
    for one in files:
        try:
            now = one.path.read_bytes()
        except OSError as error:
            raise InputError(f"cannot read {one.path} again ({error.strerror}); nothing was written") from error
        if now != one.before:
            raise InputError(f"{one.path} has changed since it was measured; nothing was written, run fix again")
        writable(one.path, force=force)
    parts = [one.path.with_name(f".{one.path.name}.{os.getpid()}.part") for one in files]
    written = []
    try:
        for one, part in zip(files, parts, strict=True):
            _prepare(part, one)
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


def writable(path: Path, *, force: bool = False) -> None:
    """Raises ``InputError`` where :func:`write` would refuse the file as it is now."""
    # Of root no file is read-only to os.access.
    if not (os.access(path, os.W_OK) and path.stat().st_mode & 0o222):
        raise InputError(f"{path} is read-only; nothing was written, apply the patch by hand")
    if not force and _dirty(path):
        raise InputError(f"{path} has changes that are not committed; commit them, or give --force")


def _prepare(part: Path, one: Changed) -> None:
    """The new content beside the file, with its mode and its owner."""
    about = one.path.stat()
    part.write_bytes(one.after)
    part.chmod(stat.S_IMODE(about.st_mode))
    if (about.st_uid, about.st_gid) != (part.stat().st_uid, part.stat().st_gid):
        os.chown(part, about.st_uid, about.st_gid)


def _dirty(path: Path) -> bool:
    """Whether git knows of changes of the file; False where there is no git, or it does not know the file."""
    command = ["git", "-C", str(path.parent), "status", "--porcelain", "--untracked-files=no", "--", path.name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and bool(done.stdout.strip())


def _own(path: Path) -> bytes:
    """The content of a file that is the user's own to edit."""
    real = Path(os.path.realpath(path))
    installed = [os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")]
    if any(real.is_relative_to(folder) for folder in installed) or PACKAGES & set(real.parts):
        raise InputError(f"{path} belongs to an installed package, which is not edited")
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror}), so that it cannot be edited") from error


def _parsed(path: Path, content: bytes) -> None:
    try:
        compile(content, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise InputError(f"the edit of {path} would not parse ({error})") from error
