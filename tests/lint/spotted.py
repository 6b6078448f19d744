"""What causes see in a text, asked as the command asks them: only those whose words occur."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from slowtrain.lint import cause_selection
from slowtrain.model import Spot
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CLINIC = Path(__file__).parents[2] / "clinic"
# Of scripts that somebody wrote who knew the catalogue and not this code; those called unread were never run.
READ = [f"unread{more}" for more in ("", "_second", "_third", "_fourth", "_fifth", "_sixth", "_seventh")]
STRANGERS = [CLINIC / name for name in ("strangers", *READ)]
CASES = Path(__file__).parents[3] / "shared" / "cases"  # beside the checkout, where there is one
# Of clinic/strangers, those whose cause no text tells, each with what it would take to know.
HIDDEN = {
    "cellscope_densenet": "what XLA compiles",
    "plume_surrogate": "what fusing saves",
    "pumpwear_mlp": "how short a step is",
    "swarm_dqn": "how long packing takes",
    "beam_frames": "the disk's speed",
    "event_surface": "how fast values decay",
    "ward_stays": "how long a file is",
    "relaxometry_fit": "what fusing saves",
    "backgammon_values": "how fast values decay",
    "patent_similarity": "how long sorting takes",
    "podcast_likes": "how many ids a file holds",
    "permafrost_core": "how long smoothing takes",
    "swim_race_times": "how long sorting takes",
    "forklift_dispatch": "how long compressing takes",
    "bottling_line_logs": "how short a file is",
    "geology_seismic_facies": "how long a block's attributes take",
    "gear_mentor": "how short an epoch is",
    "telegraph_code": "how short a step is: XLA gains in a hundred long ones more than it takes to compile them",
}
HEAD = "import numpy as np\nimport tensorflow as tf\nimport keras\nfrom keras import layers\n"


@dataclass(frozen=True)
class Seen:
    """A cause, where it begins and what it says; the text that its edits make, None without edits."""

    cause: str
    line: int
    says: str
    cured: str | None


def seen(text: str, causes: Iterable[str] | None = None) -> list[Seen]:
    """All that is seen in ``text``, or only ``causes``."""
    source = parse_source("train.py", text)
    assert source is not None
    wanted = {c.id for c in cause_selection.lintable_causes()} if causes is None else set(causes)
    found: list[Seen] = []
    for cause in cause_selection.possible_causes(text.encode(), wanted):
        found += (_seen(cause.id, spot, text) for spot in cause.spot(source))
    return found


def _seen(cause: str, spot: Spot, text: str) -> Seen:
    source = parse_source("train.py", text)
    assert source is not None
    changed = spot.prescription.edits if spot.prescription is not None else ()
    return Seen(cause, spot.start[0], spot.says, edits.edited_text(source, changed) if changed else None)


def lines(cause: str, text: str) -> list[int]:
    """Lines of the snippet, which gets its imports, where ``cause`` is seen."""
    return [one.line - HEAD.count("\n") for one in seen(HEAD + dedent(text).lstrip("\n"), [cause])]


@dataclass(frozen=True)
class Script:
    name: str
    slow: str
    fixed: str
    causes: tuple[str, ...]
    lines: tuple[int, ...]


def scripts(families: Iterable[str]) -> Iterator[Script]:
    """Labelled slow scripts with a cause of these families; the cases' labels name no lines."""
    labels = {
        CLINIC / "scripts" / name: row for name, row in tomllib.loads((CLINIC / "labels.toml").read_text()).items()
    }
    if CASES.is_dir():
        labels |= {CASES / name: row for name, row in json.loads((CASES / "labels.json").read_text()).items()}
    for path, row in labels.items():
        slow = path.with_name(f"{path.name}.slow.py")
        if slow.exists() and {c.partition("/")[0] for c in row["causes"]} & set(families):
            line = row.get("line", [])
            fixed = path.with_name(f"{path.name}.fixed.py")
            known = tuple(line) if isinstance(line, list) else (line,)
            yield Script(path.name, slow.read_text(), fixed.read_text(), tuple(row["causes"]), known)


def strangers() -> Iterator[Script]:
    """The slow ones, without lines: a finding may rightly stand at another than the label."""
    for folder in STRANGERS:
        for name, row in tomllib.loads((folder / "labels.toml").read_text()).items():
            if row["causes"]:
                slow, cured = (folder / f"{name}.slow.py").read_text(), folder / f"{name}.fixed.py"
                fixed = cured.read_text() if cured.exists() else ""  # the nineteenth set has none
                told = name if folder.name == "strangers" else f"{folder.name}/{name}"
                yield Script(told, slow, fixed, tuple(row["causes"]), ())


def unsuspicious() -> list[Path]:
    """Every cured and every healthy script."""
    folders = (CLINIC / "scripts", *STRANGERS)
    found = [p for folder in folders for p in folder.glob("*.py") if not p.name.endswith(".slow.py")]
    return sorted([*found, *CASES.glob("*.fixed.py")])


@functools.cache
def _labels(path: Path) -> dict[str, dict[str, object]]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def accused(path: Path) -> list[Seen]:
    """What is seen in a cured or healthy script, without the causes that its label says are left in it."""
    if path.parent == CASES:
        left: object = ()
    else:
        labels = CLINIC / "labels.toml" if path.parent.name == "scripts" else path.parent / "labels.toml"
        left = _labels(labels).get(path.name.partition(".")[0], {}).get("left", ())
    assert isinstance(left, (list, tuple))
    return [one for one in seen(path.read_text(encoding="utf-8")) if one.cause not in left]
