"""Lint settings: ``[tool.slowtrain.lint]`` of a ``pyproject.toml``, combined with the options of the command line."""

from __future__ import annotations

import fnmatch
import functools
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slowtrain.cause_folder import cause_files
from slowtrain.errors import EnvironmentMissing, InputError
from slowtrain.model.inspections import UNUSED_IGNORE

CONFIG_FILE = "pyproject.toml"
TABLE_KEYS = ("select", "ignore", "exclude", "per-file-ignores")


@dataclass(frozen=True)
class LintSettings:
    """The selected cause ids (``active``), and patterns of paths relative to ``root``.

    ``excluded`` files are skipped; ``per_file`` lists ids that are not looked for in matching files.
    """

    active: frozenset[str]
    root: str = ""
    excluded: tuple[str, ...] = ()
    per_file: tuple[tuple[str, frozenset[str]], ...] = ()

    def excludes_path(self, path: str) -> bool:
        """Whether a file or a folder is excluded."""
        return bool(self.excluded) and any(_path_matches(path, self.root, pattern) for pattern in self.excluded)

    def active_for(self, path: str) -> frozenset[str]:
        """The ids that are looked for in one file."""
        found = self.active
        for pattern, ids in self.per_file:
            if _path_matches(path, self.root, pattern):
                found -= ids
        return found


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
    given = _lint_table(file, wanted=config is not None) if file is not None else {}
    where = str(file)
    chosen = (
        expand_names(select, "--select")
        or expand_names(_string_list(given, "select", where), where)
        or frozenset(known_ids())
    )
    left = expand_names(_string_list(given, "ignore", where), where)
    if select:  # --select takes precedence over ``ignore`` in the file
        left = frozenset()
    active = chosen - left - expand_names(ignore, "--ignore")
    per_file = given.get("per-file-ignores", {})
    if not isinstance(per_file, Mapping):
        raise InputError(f"{where}: per-file-ignores must be a table of patterns and lists of causes")
    return LintSettings(
        active,
        os.path.abspath(file.parent) if file is not None else os.getcwd(),
        tuple(_string_list(given, "exclude", where)),
        tuple((str(p), expand_names(_string_list(per_file, p, where), where)) for p in per_file),
    )


def _path_matches(path: str, root: str, pattern: str) -> bool:
    """Whether ``pattern`` matches the path relative to ``root``, or one of its folders.

    A pattern without a slash matches any single part of the path.
    """
    below = os.path.relpath(os.path.abspath(path), root) if root else path
    parts = below.split(os.sep)
    plain = pattern.rstrip("/").removeprefix("./")
    if "/" not in plain:
        return any(fnmatch.fnmatchcase(part, plain) for part in parts)
    plain = plain.replace("**/", "*").removesuffix("/**")
    heads = ("/".join(parts[: n + 1]) for n in range(len(parts)))
    return any(fnmatch.fnmatchcase(head, plain) for head in heads)


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
