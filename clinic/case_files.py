"""The labelled scripts in ``cases/``: the one reader of their files.

cases/FAMILY/CAUSE/NAME/script.py     a slow script
cases/FAMILY/CAUSE/NAME/cure.patch    its cure: a unified diff of script.py
cases/healthy/NAME/script.py          a script without a cause
.../case.toml                         the label; README.md explains its keys
"""

from __future__ import annotations

import functools
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CASES = Path(__file__).parent / "cases"
BUILD = Path(__file__).parents[1] / "build" / "clinic"
CPU, GPU = "cpu", "gpu"
HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


@dataclass(frozen=True)
class Case:
    """One labelled script. A healthy one has no causes and no cure."""

    name: str
    folder: Path
    label: dict[str, Any] = field(hash=False)

    @property
    def script(self) -> Path:
        return self.folder / "script.py"

    @property
    def causes(self) -> list[str]:
        """Ids that are right as the first cause; the first is the one meant."""
        return list(self.label.get("causes", ()))

    @property
    def lines(self) -> list[int]:
        """Lines of the script, any one of which should be named."""
        return list(self.label.get("lines", ()))

    @property
    def platform(self) -> str:
        return str(self.label.get("platform", CPU))

    def is_in_set(self, name: str) -> bool:
        """Whether the case came with this set; ``strangers`` names all sets ``strangers-01``, ``strangers-02`` …"""
        own = str(self.label["set"])
        return name in {own, own.rpartition("-")[0]}

    def script_text(self) -> str:
        return self.script.read_text(encoding="utf-8")

    def cured_text(self) -> str | None:
        """The text of the cured script; None for a healthy one."""
        patch = self.folder / "cure.patch"
        return patched_text(self.script_text(), patch.read_text(encoding="utf-8")) if patch.exists() else None

    def write_cured_script(self, folder: Path = BUILD) -> Path | None:
        """Writes the cured script as a file that can be run; None for a healthy one."""
        text = self.cured_text()
        if text is None:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.fixed.py"
        path.write_text(text, encoding="utf-8")
        return path


@functools.cache
def all_cases() -> tuple[Case, ...]:
    """Every case, by set and path."""
    found = [
        Case(file.parent.name, file.parent, tomllib.loads(file.read_text(encoding="utf-8")))
        for file in sorted(CASES.rglob("case.toml"))
    ]
    return tuple(sorted(found, key=lambda case: str(case.label["set"])))


def list_cases(*, set_name: str = "", split: str = "", family: str = "", platform: str = CPU) -> list[Case]:
    """The cases of a platform; of one set, split or family of causes if that is given."""
    return [
        case
        for case in all_cases()
        if case.platform == platform
        and (not set_name or case.is_in_set(set_name))
        and split in {"", case.label["split"]}
        and (not family or any(cause.startswith(f"{family}/") for cause in case.causes))
    ]


def find_case(name: str, platform: str = CPU) -> Case:
    """The case of that name. Names are unique within a platform."""
    found = [case for case in list_cases(platform=platform) if case.name == name]
    if len(found) != 1:
        raise SystemExit(f"{len(found)} cases are called {name}; python clinic/run.py --list lists them")
    return found[0]


def patched_text(text: str, patch: str) -> str:
    """Applies a unified diff of one file. Every line that it keeps or removes must stand exactly where it says."""
    rows, result, at = _split_lines(text), [], 0
    for line in _split_lines(patch)[2:]:  # two lines name the file
        hunk = HUNK.match(line)
        if hunk:
            start = int(hunk[1]) - (hunk[2] != "0")  # a hunk that only adds names the line before it
            result += rows[at:start]
            at = start
            continue
        sign, body = line[0], line[1:]
        if sign in " -":
            if at >= len(rows) or rows[at] != body:
                raise ValueError(f"the patch does not fit: line {at + 1} is not {body!r}")
            at += 1
        elif sign != "+":
            raise ValueError(f"not a line of a unified diff: {line!r}")
        if sign in " +":
            result.append(body)
    return "".join([*result, *rows[at:]])


def _split_lines(text: str) -> list[str]:
    """Lines with their ends. str.splitlines() also splits at form feeds and the like."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
