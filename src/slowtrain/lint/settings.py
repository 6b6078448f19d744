"""What to look for and where: ``[tool.slowtrain.lint]`` of a ``pyproject.toml``, and what the command line says."""

from __future__ import annotations

import fnmatch
import functools
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slowtrain.cause_folder import cause_files
from slowtrain.errors import EnvironmentMissing, InputError
from slowtrain.model.answers.linted_files import UNUSED_IGNORE
from slowtrain.values import dataclass

FILE = "pyproject.toml"
KEYS = ("select", "ignore", "exclude", "per-file-ignores")


@dataclass(frozen=True)
class Settings:
    """``active`` ids are looked for; ``excluded`` and ``per_file`` hold patterns of paths below ``root``."""

    active: frozenset[str]
    root: str = ""
    excluded: tuple[str, ...] = ()
    per_file: tuple[tuple[str, frozenset[str]], ...] = ()

    def excludes(self, path: str) -> bool:
        """Whether a file or a folder is left out."""
        return bool(self.excluded) and any(_matches(path, self.root, pattern) for pattern in self.excluded)

    def of(self, path: str) -> frozenset[str]:
        """The ids that are looked for in one file."""
        found = self.active
        for pattern, ids in self.per_file:
            if _matches(path, self.root, pattern):
                found -= ids
        return found


@functools.cache
def known() -> tuple[str, ...]:
    """All ids, from the names of the causes' folders: nothing is imported for it."""
    return (*cause_files(), UNUSED_IGNORE)


def expand(names: Iterable[str], said_in: str) -> frozenset[str]:
    """Ids that ``names`` mean: an id, an id without its family, or a family. Raises ``InputError``."""
    found: set[str] = set()
    for name in names:
        ids = meant(name)
        if not ids:
            import difflib  # for a wrong name alone

            near = difflib.get_close_matches(name, [*known(), *(i.split("/")[-1] for i in known())], n=1)
            hint = f"; did you mean {near[0]}?" if near else "; 'slowtrain explain' lists them"
            raise InputError(f"{said_in}: {name!r} is no cause and no family{hint}")
        found |= ids
    return frozenset(found)


def meant(name: str) -> frozenset[str]:
    """The ids that one name means; none where it is unknown."""
    wanted = name.strip().lower().replace("_", "-").strip("/")
    return frozenset(i for i in known() if wanted and wanted in (i, *i.split("/")))


def load(
    paths: Sequence[str], *, config: Path | None = None, select: Sequence[str] = (), ignore: Sequence[str] = ()
) -> Settings:
    """The settings for ``paths``: of the nearest ``pyproject.toml`` above them all, then of the command line.

    Raises ``InputError`` where they make no sense.
    """
    file = config if config is not None else _nearest(paths)
    given = _table(file, wanted=config is not None) if file is not None else {}
    where = str(file)
    chosen = expand(select, "--select") or expand(_names(given, "select", where), where) or frozenset(known())
    left = expand(_names(given, "ignore", where), where)
    if select:  # what was asked for by name is looked for
        left = frozenset()
    active = chosen - left - expand(ignore, "--ignore")
    per_file = given.get("per-file-ignores", {})
    if not isinstance(per_file, Mapping):
        raise InputError(f"{where}: per-file-ignores is a table of patterns and lists of causes")
    return Settings(
        active,
        os.path.abspath(file.parent) if file is not None else os.getcwd(),
        tuple(_names(given, "exclude", where)),
        tuple((str(p), expand(_names(per_file, p, where), where)) for p in per_file),
    )


def _matches(path: str, root: str, pattern: str) -> bool:
    """Whether ``pattern`` names the path below ``root``, one of its folders, or any part of it by its bare name."""
    below = os.path.relpath(os.path.abspath(path), root) if root else path
    parts = below.split(os.sep)
    plain = pattern.rstrip("/").removeprefix("./")
    if "/" not in plain:
        return any(fnmatch.fnmatchcase(part, plain) for part in parts)
    plain = plain.replace("**/", "*").removesuffix("/**")
    heads = ("/".join(parts[: n + 1]) for n in range(len(parts)))
    return any(fnmatch.fnmatchcase(head, plain) for head in heads)


def _nearest(paths: Sequence[str]) -> Path | None:
    """The nearest ``pyproject.toml`` with our table, from the folder that holds all ``paths`` upwards."""
    try:
        folder = Path(os.path.commonpath([os.path.abspath(p) for p in paths])) if paths else Path.cwd()
    except ValueError:  # on several drives
        folder = Path.cwd()
    for one in (folder, *folder.parents):
        file = one / FILE
        try:
            if file.is_file() and "[tool.slowtrain" in file.read_text(encoding="utf-8", errors="replace"):
                return file
        except OSError:
            continue
    return None


def _table(file: Path, *, wanted: bool) -> Mapping[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {file} ({error})") from error
    if "[tool.slowtrain" not in text and not wanted:
        return {}
    document = _parsed(text, file)
    tool = document.get("tool", {})
    table = tool.get("slowtrain", {}).get("lint", {}) if isinstance(tool, Mapping) else {}
    if not isinstance(table, Mapping):
        raise InputError(f"{file}: [tool.slowtrain.lint] is a table")
    unknown = sorted(set(table) - set(KEYS))
    if unknown:
        raise InputError(f"{file}: [tool.slowtrain.lint] has no {unknown[0]!r}; it has {', '.join(KEYS)}")
    return table


def _parsed(text: str, file: Path) -> Mapping[str, Any]:
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
        raise InputError(f"{file} is not TOML ({error})") from error


def _names(table: Mapping[str, Any], key: str, where: str) -> list[str]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise InputError(f"{where}: {key} is a list of strings")
    return value
