"""What causes see in a text, asked as the command asks them: only those whose words occur."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

from slowtrain.lint import cause_selection
from slowtrain.model import Spot
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source

CLINIC = Path(__file__).parents[2] / "clinic"
CASES = Path(__file__).parents[3] / "shared" / "cases"  # beside the checkout, where there is one
# Of the sets that strangers wrote, those whose cause no text tells, each with what it would take to know.
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


def clinic_cases(set_name: str = "") -> list[Any]:
    """The cases of a set of the clinic, or of all; none in a source distribution, which has no clinic."""
    if not CLINIC.is_dir():
        return []
    sys.path.insert(0, str(CLINIC))
    try:
        return list(importlib.import_module("case_files").list_cases(set_name=set_name))
    finally:
        sys.path.remove(str(CLINIC))


def scripts(families: Iterable[str]) -> Iterator[Script]:
    """Labelled slow scripts with a cause of these families; the cases' labels name no lines."""
    for case in clinic_cases("clinic"):
        cured = case.cured_text()
        if cured is not None and {c.partition("/")[0] for c in case.causes} & set(families):
            yield Script(case.name, case.script_text(), cured, tuple(case.causes), tuple(case.lines))
    if CASES.is_dir():
        for name, row in json.loads((CASES / "labels.json").read_text()).items():
            if {c.partition("/")[0] for c in row["causes"]} & set(families):
                slow, fixed = ((CASES / f"{name}.{form}.py").read_text() for form in ("slow", "fixed"))
                yield Script(name, slow, fixed, tuple(row["causes"]), ())


def strangers() -> Iterator[Script]:
    """The slow ones, without lines: a finding may rightly stand at another than the label."""
    for case in clinic_cases("strangers"):
        if case.causes:
            yield Script(case.name, case.script_text(), case.cured_text(), tuple(case.causes), ())


def findings_in_cured_and_healthy_scripts() -> dict[str, list[Seen]]:
    """What is seen in them by script, without the causes that a label says are left in the cured form."""
    found = {}
    for case in clinic_cases():
        text = case.cured_text() or (None if case.causes else case.script_text())
        if text is not None:
            found[case.name] = [one for one in seen(text) if one.cause not in case.label.get("left", ())]
    for path in CASES.glob("*.fixed.py"):
        found[path.name] = seen(path.read_text(encoding="utf-8"))
    return {name: seen for name, seen in found.items() if seen}
