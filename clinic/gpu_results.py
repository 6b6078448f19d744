"""The results of ``clinic/gpu.py`` as they lie in its file, one line of JSON each, and the tables made of them."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

WAITS = "Not measured yet: this table waits for a machine with a card (`make gpu`).\n"
MOST_TRIES = 2  # of an item that failed: a second failure is its own, and not the machine's
Rows = dict[str, dict[str, Any]]


def read(file: Path) -> list[dict[str, Any]]:
    """All lines; one that was cut off while it was written is left out."""
    found = []
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def is_done(item: str, lines: list[dict[str, Any]]) -> bool:
    own = [line for line in lines if line["item"] == item]
    return any("error" not in line for line in own) or len(own) >= MOST_TRIES


def latest(lines: list[dict[str, Any]]) -> Rows:
    """The last line of each item of a card; one without an error, where there is one."""
    found: Rows = {}
    for line in (line for line in lines if line.get("card")):
        if "error" not in line or line["item"] not in found:
            found[line["item"]] = line
    return found


def pages(lines: list[dict[str, Any]]) -> dict[str, str]:
    """Marker -> table, for each that ``docs/gpu.md`` has."""
    rows = latest(lines)
    made = {
        "gpu-pairs": pairs(_of(rows, "pair:"), _of(rows, "gain:")),
        "gpu-healthy": healthy(_of(rows, "healthy:")),
        "gpu-cures": cures(_of(rows, "cures:")),
        "gpu-card": card(rows),
        "gpu-overhead": overhead(_of(rows, "overhead:")),
        "gpu-memory": memory(_of(rows, "memory:")),
        "gpu-crossover": crossover(_of(rows, "crossover:")),
    }
    return {name: text or WAITS for name, text in made.items()}


def _of(rows: Rows, kind: str) -> Rows:
    return {item.removeprefix(kind): row for item, row in rows.items() if item.startswith(kind)}


def _table(columns: tuple[str, ...], rows: list[list[str]]) -> str:
    head = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    cells = [[" ".join(cell.split()).replace("|", "/") for cell in row] for row in rows]  # an error may have lines
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in cells)]) + "\n"


def _figure(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}g}"


def _gain(row: dict[str, Any]) -> str:
    if row.get("foretold") is None:
        return "–"
    text = f"{row['foretold']:.2f}"
    return text if row.get("low") is None else f"{text} ({row['low']:.2f} to {row['high']:.2f})"


def _division(row: dict[str, Any]) -> str:
    """Each part that is off; "yes" where none is, "–" where there was no profile to hold it against."""
    if row.get("division") is None:
        return "–"
    off = [f"{part} {a:.3g} for {b:.3g}" for part, (a, b, near) in row["division"].items() if not near]
    return ", ".join(off) or "yes"


def gain(row: dict[str, Any], timed: dict[str, Any]) -> float | None:
    """How many times as fast the cure makes the step; for a label of the run, the recorded run.

    A run that is cured takes as long as the recorded one, less what the cured script saves of training.
    """
    if "slow_s" not in timed:
        return None
    of_step: float = timed["slow_sample_s"] / timed["fixed_sample_s"]
    if row["labelled_scope"] == "step":
        return of_step
    saved_ms = 1e3 * timed["slow_s"] * (1 - 1 / of_step)
    return float(row["run_ms"] / max(row["run_ms"] - saved_ms, 1.0))


def pairs(rows: Rows, timed: Rows) -> str:
    if not rows:
        return ""
    cells, errors, inside = [], [], []
    for name, row in rows.items():
        if "error" in row:
            cells.append([name, f"error: {row['error']}", *["–"] * 8])
            continue
        cells.append([
            name, row["cause"], row["first"] or "–", _yes(row["first_right"]), _yes(row["line_right"]),
            f"{row['step_verdict']}{'' if row['verdict_right'] else ' (wrong)'}", _division(row), row["scope"] or "–",
            _gain(row), _figure(measured := gain(row, timed.get(name, {}))),
        ])  # fmt: skip
        priced = row.get("foretold") and measured and row["scope"] == row["labelled_scope"]
        if row["first_right"] and priced:
            errors.append(abs(row["foretold"] / measured - 1))
            inside.append((row.get("low") or 0) <= measured <= (row.get("high") or 0))
    good = [row for row in rows.values() if "error" not in row]
    said = [f"{sum(r['first_right'] for r in good)} of {len(rows)} right first"]
    said.append(f"{sum(bool(r['line_right']) for r in good)} with the line")
    said.append(f"{sum(r['verdict_right'] for r in good)} step verdicts right")
    if errors:
        said.append(
            f"median error of the gain {statistics.median(errors):.0%} over {len(errors)}, {sum(inside)} inside"
        )
    columns = (
        "script", "meant", "first cause", "right", "line", "step verdict", "division", "scope", "foretold", "measured",
    )  # fmt: skip
    return f"{'; '.join(said)}.\n\n" + _table(columns, cells)


def _yes(value: bool | None) -> str:
    return "–" if value is None else "yes" if value else "no"


def healthy(rows: Rows) -> str:
    if not rows:
        return ""
    cells = [
        [name, row.get("step_verdict", "–"), _yes(row.get("verdict_right")), row.get("first") or "–", _gain(row),
         "yes" if row.get("alarm") else "no" if "alarm" in row else row.get("error", "–"), _division(row)]
        for name, row in rows.items()
    ]  # fmt: skip
    return _table(("script", "step verdict", "right", "first cause", "foretold", "false alarm", "division"), cells)


def cures(rows: Rows) -> str:
    cells = []
    for name, row in rows.items():
        base = None
        for variant, one in row.get("variants", {}).items():
            ms = one.get("median_ms")
            base = base or ms
            gain = f"{base / ms:.2f}" if base and ms else "–"
            cells.append([name, variant, _figure(ms), gain, one.get("error") or _figure(one.get("first_s"))])
    columns = ("scenario", "variant", "ms a step", "times as fast", "first call, s")
    return _table(columns, cells) if cells else ""


def card(rows: Rows) -> str:
    """The link, the command buffers, the neighbours, and what the doctor says."""
    text = ""
    if "doctor" in rows:
        text += f"`slowtrain doctor`: {rows['doctor'].get('says') or rows['doctor'].get('error')}\n\n"
    if rows.get("link", {}).get("by_MB"):
        cells = [
            [mb, *(_figure(row[kind][what]) for kind in ("pageable", "pinned") for what in ("GB_s", "call_ms"))]
            for mb, row in rows["link"]["by_MB"].items()
        ]
        text += _table(("MB", "pageable GB/s", "its call, ms", "pinned GB/s", "its call, ms"), cells) + "\n"
    cells = [
        [item, *(_figure(row.get(k)) for k in PROFILED), row.get("error", "")]
        for item, row in rows.items()
        if item.startswith(("buffers:", "sharing:"))
    ]
    columns = ("training", "ms", "profiled ms", "device ms", "kernels", "graph launches", "late kernels, ms", "")
    return text + (_table(columns, cells) if cells else "")


PROFILED = ("ms", "profiled_ms", "device_ms", "kernels", "graph_launches", "late_ms")


def overhead(rows: Rows) -> str:
    """The ratio of recorded to unrecorded steps for each kind of loop, with the interval of the order statistics."""
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for name, row in rows.items():
        if "wall" in row:
            by_kind.setdefault(name.rpartition(":")[0], []).append(row)
    cells = []
    for kind, samples in by_kind.items():
        middle, low, high = interval([s["wall"] for s in samples])
        ms = statistics.median(s["step_ms"] for s in samples)
        cells.append([kind, _figure(ms), f"{middle:.3f} ({low:.3f} to {high:.3f})", str(len(samples))])
    return (
        _table(
            ("loop", "step without, ms", "with over without (95 % from six pairs on, else the range)", "pairs"), cells
        )
        if cells
        else ""
    )


def interval(values: list[float]) -> tuple[float, float, float]:
    """Median and its distribution-free 95 % interval; below six values the range."""
    ordered = sorted(values)
    k = max(math.floor(len(ordered) / 2 - 0.98 * math.sqrt(len(ordered))), 0)
    return statistics.median(ordered), ordered[k], ordered[-1 - k]


def memory(rows: Rows) -> str:
    cells = []
    for name, row in rows.items():
        if "error" in row:
            cells.append([name, "–", "–", row["error"], "–", "–"])
            continue
        error = f"{row['foretold'] / row['fits'] - 1:+.1%}" if row.get("fits") and row.get("foretold") else "–"
        above = "none tried" if row.get("fails") is None else f"{row['fails']:,}"
        cells.append([name, f"{row['limit_mb']:,}", f"{row['foretold']:,}", f"{row['fits']:,}", above, error])
    columns = ("model", "limit, MiB", "foretold", "largest that fitted", "smallest that did not", "error")
    return _table(columns, cells) if cells else ""


def crossover(rows: Rows) -> str:
    cells = [[name, row.get("says") or row["error"], "; ".join(row.get("notes", []))] for name, row in rows.items()]
    return _table(("script", "answer", "notes"), cells) if cells else ""
