"""What is linted: the settings of ``pyproject.toml`` and of the command line, and the search for files."""

from __future__ import annotations

import functools
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slowtrain.cause_folder import cause_files
from slowtrain.errors import EnvironmentMissing, InputError
from slowtrain.shared.vocabulary import UNUSED_IGNORE

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    from slowtrain.model.inspections import FileError

CONFIG_FILE = "pyproject.toml"
TABLE_KEYS = ("select", "ignore", "exclude", "per-file-ignores")
SOURCE_SUFFIXES = (".py", ".pyw", ".ipynb")
# Other people's code and output of tools. A folder given on the command line is walked even if its name is here.
SKIPPED_FOLDERS = frozenset(
    ".git .hg .svn .bzr .venv venv .tox .nox .eggs node_modules __pycache__ .ipynb_checkpoints .mypy_cache "
    ".pytest_cache .ruff_cache .hypothesis build dist site-packages slowtrain-runs".split()
)


@dataclass(frozen=True)
class LintSettings:
    """The selected cause ids (``active``), and patterns of paths below ``root``, written as in a ``.gitignore``.

    ``excluded`` files are skipped; ``per_file`` lists ids that are not looked for in matching files. With
    ``minor``, findings that save little of a training are reported too.
    """

    active: frozenset[str]
    root: str = ""
    excluded: tuple[str, ...] = ()
    per_file: tuple[tuple[str, frozenset[str]], ...] = ()
    minor: bool = False

    def excludes_path(self, path: str) -> bool:
        """Whether a file is excluded, or a folder, whose path ends with a slash."""
        return self._matches(path, self.excluded)

    def active_for(self, path: str) -> frozenset[str]:
        """The ids that are looked for in one file."""
        return self.active.difference(*(ids for pattern, ids in self.per_file if self._matches(path, (pattern,))))

    def _matches(self, path: str, patterns: tuple[str, ...]) -> bool:
        if not patterns:
            return False
        below = os.path.relpath(os.path.abspath(path), self.root or os.getcwd())
        return _path_patterns(patterns).match_file(below + "/" * path.endswith("/"))


@functools.cache
def _path_patterns(patterns: tuple[str, ...]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec  # imported only if there are patterns

    return GitIgnoreSpec.from_lines(pattern.removeprefix("./") for pattern in patterns)


@functools.cache
def known_ids() -> tuple[str, ...]:
    """All ids, from the names of the causes' folders, so that no cause is imported."""
    return (*cause_files(), UNUSED_IGNORE)


def expand_names(names: Iterable[str], said_in: str) -> frozenset[str]:
    """The ids that ``names`` mean: an id, an id without its family, or a family.

    ``said_in`` is the option or file for the message. Raises ``InputError`` for an unknown name.
    """
    found: set[str] = set()
    for name in names:
        ids = matching_ids(name)
        if not ids:
            import difflib  # imported only for a wrong name

            near = difflib.get_close_matches(name, [*known_ids(), *(i.split("/")[-1] for i in known_ids())], n=1)
            hint = f"; did you mean {near[0]}?" if near else "; 'slowtrain explain' lists them"
            raise InputError(f"{said_in}: {name!r} is not a cause or a family{hint}")
        found |= ids
    return frozenset(found)


def matching_ids(name: str) -> frozenset[str]:
    """The ids that one name means. Empty if it is unknown."""
    wanted = name.strip().lower().replace("_", "-").strip("/")
    return frozenset(i for i in known_ids() if wanted and wanted in (i, *i.split("/")))


def load_settings(
    paths: Sequence[str], *, config: Path | None = None, select: Sequence[str] = (), ignore: Sequence[str] = ()
) -> LintSettings:
    """The settings for ``paths``: from the nearest ``pyproject.toml`` above all of them, then from the command line.

    Raises ``InputError`` for invalid settings.
    """
    file = config if config is not None else _nearest_config(paths)
    table = _lint_table(file, wanted=config is not None) if file is not None else {}
    where = str(file)
    chosen = (
        expand_names(select, "--select")
        or expand_names(_string_list(table, "select", where), where)
        or frozenset(known_ids())
    )
    left = expand_names(_string_list(table, "ignore", where), where)
    if select:  # --select takes precedence over ``ignore`` in the file
        left = frozenset()
    active = chosen - left - expand_names(ignore, "--ignore")
    per_file = table.get("per-file-ignores", {})
    if not isinstance(per_file, Mapping):
        raise InputError(f"{where}: per-file-ignores must be a table of patterns and lists of causes")
    return LintSettings(
        active,
        os.path.abspath(file.parent) if file is not None else os.getcwd(),
        tuple(_string_list(table, "exclude", where)),
        tuple((str(p), expand_names(_string_list(per_file, p, where), where)) for p in per_file),
    )


def _nearest_config(paths: Sequence[str]) -> Path | None:
    """The nearest ``pyproject.toml`` with our table, searched upwards from the folder that holds all ``paths``."""
    try:
        folder = Path(os.path.commonpath([os.path.abspath(p) for p in paths])) if paths else Path.cwd()
    except ValueError:  # paths on different drives
        folder = Path.cwd()
    for one in (folder, *folder.parents):
        file = one / CONFIG_FILE
        try:
            if file.is_file() and "[tool.slowtrain" in file.read_text(encoding="utf-8", errors="replace"):
                return file
        except OSError:
            continue
    return None


def _lint_table(file: Path, *, wanted: bool) -> Mapping[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {file} ({error})") from error
    if "[tool.slowtrain" not in text and not wanted:
        return {}
    document = _parse_toml(text, file)
    tool = document.get("tool", {})
    table = tool.get("slowtrain", {}).get("lint", {}) if isinstance(tool, Mapping) else {}
    if not isinstance(table, Mapping):
        raise InputError(f"{file}: [tool.slowtrain.lint] must be a table")
    unknown = sorted(set(table) - set(TABLE_KEYS))
    if unknown:
        raise InputError(
            f"{file}: [tool.slowtrain.lint] has an unknown key {unknown[0]!r}; the keys are {', '.join(TABLE_KEYS)}"
        )
    return table


def _parse_toml(text: str, file: Path) -> Mapping[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:  # pragma: no cover
        try:
            import tomli as tomllib
        except ModuleNotFoundError as error:
            raise EnvironmentMissing(f"reading {file} needs Python 3.11, or: pip install tomli") from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{file} is not valid TOML ({error})") from error


def _string_list(table: Mapping[str, Any], key: str, where: str) -> list[str]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise InputError(f"{where}: {key} must be a list of strings")
    return value


def find_files(paths: Sequence[str], settings: LintSettings) -> tuple[list[str], list[FileError]]:
    """The files to lint, each once and sorted by name within each folder, and errors for what could not be listed.

    Raises ``InputError`` if a path does not exist.
    """
    found: dict[str, None] = {}
    errors: list[FileError] = []
    for path in paths:
        try:
            mode = os.stat(path).st_mode
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
        if stat.S_ISDIR(mode):
            found.update(dict.fromkeys(map(_strip_dot_prefix, _files_below(path, settings, errors))))
        elif stat.S_ISREG(mode):
            found[path] = None
        else:
            errors.append(_file_error(path, "is neither a file nor a folder"))
    return _remove_duplicates(found), errors


def _file_error(path: str, says: str) -> FileError:
    from slowtrain.model.inspections import FileError  # with msgspec, which a missing path does not need

    return FileError(_strip_dot_prefix(path), says)


def _strip_dot_prefix(path: str) -> str:
    return path.removeprefix(f".{os.sep}")


def _files_below(root: str, settings: LintSettings, errors: list[FileError]) -> Iterator[str]:
    """Files below ``root``. A folder that a link leads back to is walked once."""
    seen: set[tuple[int, int]] = set()

    def note_error(error: OSError) -> None:
        errors.append(_file_error(str(error.filename), f"cannot be listed ({error.strerror})"))

    for folder, folders, names in os.walk(root, followlinks=True, onerror=note_error):
        info = os.stat(folder)
        if (info.st_dev, info.st_ino) in seen:
            folders.clear()
            continue
        seen.add((info.st_dev, info.st_ino))
        folders[:] = sorted(
            one for one in folders
            if one not in SKIPPED_FOLDERS and not settings.excludes_path(os.path.join(folder, one, ""))
        )  # fmt: skip
        paths = (os.path.join(folder, name) for name in sorted(names) if name.endswith(SOURCE_SUFFIXES))
        yield from (path for path in paths if not settings.excludes_path(path) and _is_file(path, errors))


def _is_file(path: str, errors: list[FileError]) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        errors.append(_file_error(path, "is a broken symbolic link"))
    except OSError as error:  # also a symbolic link that leads to itself
        errors.append(_file_error(path, f"cannot be examined ({error.strerror})"))
    return False


def _remove_duplicates(files: dict[str, None]) -> list[str]:
    """Keeps the first path of each file if several links or paths lead to it."""
    real: dict[str, str] = {}
    folders: dict[str, str] = {}  # folder -> its real path, because resolving one takes several system calls
    for file in files:
        folder, name = os.path.split(file)
        if folder not in folders:
            folders[folder] = os.path.realpath(folder)
        whole = os.path.realpath(file) if os.path.islink(file) else os.path.join(folders[folder], name)
        real.setdefault(whole, file)
    return list(real.values())
