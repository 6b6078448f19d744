"""``slowtrain fix`` on every slow script of the clinic: what it keeps, against the prediction and the hand-made cure.

    python clinic/fixing.py                        ../shared/cases, then all others, into docs/results/fixed.json
    python clinic/fixing.py --most 20              so many of those that fixed.json does not hold
    python clinic/fixing.py --only two_moons       some of them
    python clinic/fixing.py --compare              only compares what fixed.json holds with the hand-made cures, anew
    python clinic/fixing.py --again                only fixes what was kept once more: is there anything left to do?
    python clinic/fixing.py --tell                 only the page and the picture, of what fixed.json holds
    python clinic/fixing.py --seeds                only the pairs of SEEDS, into docs/results/seeds.json

Each slow script is copied into a folder of its own and given to ``slowtrain fix``. Where something was kept, the
patched script and the hand-made cure are then run against each other by ``slowtrain verify``; where nothing was, the
script as it is and the hand-made cure are not compared: nothing of its gain was reached. Where the patch has made the
very program that the hand-made cure is, they are as fast, and nothing is run. Results are written after each script,
so that a long measurement can be broken off; it goes on with those whose result is not held, or is of another text
of the script or of its cure (``--anew``: with all). So does ``--again``, with those that have no second run yet.

``SEEDS`` are pairs of a slow script and its improved form as people publish them. Some of those improved forms change
training, so that ``fix`` is allowed to; what it made is then given to it once more, to see whether it finds more.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import math
import statistics
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

from pages import fill
from run import CASES, RESULTS, ROOT, Script, scripts

FIXED = RESULTS / "fixed.json"
PAGE = ROOT / "docs" / "calibration.md"
PICTURE = ROOT / "docs" / "images" / "calibration.svg"
SEEDS = ("spectra_energy", "photo_augment_256", "tfrecord_faces", "dense_digits", "regression_feed")
SEEDED = RESULTS / "seeds.json"
TIMEOUT_S = 1200
ELSEWHERE = ("attempts", "apply", "undo")  # of an answer: told apart, or of a folder that is gone
AS_GOOD = 0.9  # of the hand-made cure's speed


def measure(script: Script, budget: str, against: str, *, seeds: bool = False) -> dict[str, Any]:
    """What ``fix`` says of one script, and how the patched one stands against the hand-made cure."""
    with tempfile.TemporaryDirectory(prefix="slowtrain-fixing-") as temporary:
        folder = Path(temporary)
        target = copied(script, folder)
        found = fix(target, budget, seeds=seeds)
        if "fix" not in found:
            return {"problem": found["problem"], "of": contents(script)}
        told = {k: v for k, v in found["fix"].items() if k not in ELSEWHERE}
        result: dict[str, Any] = {"fix": told, "of": contents(script)}
        result["attempts"] = [{k: v for k, v in a.items() if k != "diff"} for a in found["fix"]["attempts"]]
        if script.fixed is not None and found["fix"]["kept"]:
            result["reached"] = compared(script, result["attempts"], target, against)
        if seeds and found["fix"]["kept"]:
            once_more(result, target, budget, seeds=seeds)
        return result


def fix(target: Path, budget: str, *, seeds: bool) -> dict[str, Any]:
    """What ``fix`` says of a script, into which it writes what it keeps."""
    allowed = ("--allow", "changes-training") if seeds else ()
    options = ("--budget", budget, *allowed, "--json", "fix.json", "--write", target.name)
    return slowtrain(target.parent, "fix", *options)


def contents(script: Script) -> str:
    """What a result is of: a digest of the slow script and of the hand-made cure."""
    cure = script.fixed.read_bytes() if script.fixed is not None else b""
    return hashlib.sha256(b"\0".join([script.slow.read_bytes(), cure])).hexdigest()


def copied(script: Script, folder: Path) -> Path:
    """The slow script in a folder of its own."""
    target = folder / f"{script.name.replace('-', '_')}.py"
    target.write_bytes(script.slow.read_bytes())
    return target


def patched(script: Script, found: dict[str, Any], folder: Path) -> Path:
    """The slow script with what ``fix`` had kept of it."""
    target = copied(script, folder)
    subprocess.run(["git", "apply", "-"], cwd=folder, input=found["fix"]["diff"].encode(), check=True)
    return target


def compared(script: Script, attempts: list[dict[str, Any]], patched: Path, budget: str) -> dict[str, Any] | None:
    """The patched script against the hand-made cure, by ``verify``."""
    assert script.fixed is not None
    if the_same(patched, script.fixed):
        return {"speedup": 1.0, "same": True}
    hand = patched.parent / "by_hand.py"
    hand.write_bytes(script.fixed.read_bytes())
    scope = "run" if all(a["scope"] == "run" for a in attempts if a["kept"]) else "step"
    options = ("--budget", budget, "--scope", scope, "--baseline", hand.name, "--candidate", patched.name)
    return slowtrain(patched.parent, "verify", "--json", "fix.json", *options).get("fix")


def the_same(one: Path, other: Path) -> bool:
    """Whether two scripts are one program: comments, layout and the order of imports aside."""
    return program(one) == program(other)


def program(script: Path) -> tuple[list[str], list[str]]:
    """A script's imports, and everything else in its order."""
    written = [(isinstance(n, ast.Import | ast.ImportFrom), ast.dump(n)) for n in ast.parse(script.read_bytes()).body]
    return sorted(text for is_import, text in written if is_import), [text for is_it, text in written if not is_it]


def compared_anew(script: Script, found: dict[str, Any], budget: str) -> None:
    """Compares with the hand-made cure anew what ``fix`` had kept of a script."""
    with tempfile.TemporaryDirectory(prefix="slowtrain-fixing-") as temporary:
        made = compared(script, found["attempts"], patched(script, found, Path(temporary)), budget)
        if made is not None and made.get("speedup"):  # else what is known stays
            found["reached"] = made


def fixed_again(script: Script, found: dict[str, Any], *, seeds: bool) -> None:
    """Gives ``fix`` once more, for as long, what it had kept of a script."""
    with tempfile.TemporaryDirectory(prefix="slowtrain-fixing-") as temporary:
        once_more(found, patched(script, found, Path(temporary)), found["budget"], seeds=seeds)


def once_more(found: dict[str, Any], target: Path, budget: str, *, seeds: bool) -> None:
    """``second``: what ``fix`` keeps of the script that it has fixed; ``second_problem``: why it gives no answer."""
    answer = fix(target, budget, seeds=seeds)
    for name in ("second", "second_problem"):
        found.pop(name, None)
    if "fix" in answer:
        found["second"] = answer["fix"]["kept"]
    else:
        found["second_problem"] = answer["problem"]


def slowtrain(folder: Path, verb: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "slowtrain", verb, *arguments]
    answer = folder / "fix.json"
    answer.unlink(missing_ok=True)
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"problem": "timed out"}
    if not answer.exists():
        return {"problem": (done.stderr.strip().splitlines() or ["no answer"])[-1][:200]}
    found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8").replace(f"{folder}/", ""))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="parts of names")
    parser.add_argument("--most", type=int, metavar="N", help="end after so many scripts")
    parser.add_argument("--anew", action="store_true", help="also those whose result is held")
    parser.add_argument("--budget", default="4m", help="of each fix")
    parser.add_argument("--against", default="1m", help="budget of the comparison with the hand-made cure")
    alone = parser.add_mutually_exclusive_group()
    alone.add_argument("--compare", action="store_true", help="only comparisons with the hand-made cure, see above")
    alone.add_argument("--again", action="store_true", help="only fix once more what was kept, see above")
    alone.add_argument("--tell", action="store_true", help="write the page and the picture, and run nothing")
    parser.add_argument("--seeds", action="store_true", help="only the pairs of SEEDS, see above")
    args = parser.parse_args()
    held = SEEDED if args.seeds else FIXED
    known: dict[str, Any] = json.loads(held.read_text(encoding="utf-8")) if held.exists() else {}
    chosen = [s for s in scripts(args.only) if s.causes and (s.name in SEEDS or not args.seeds)]
    chosen.sort(key=lambda s: s.slow.parent != CASES)  # the few that somebody has reported first
    for script in islice((s for s in chosen if due(s, known.get(s.name, {}), args)), args.most):
        if args.compare:
            compared_anew(script, known[script.name], args.against)
        elif args.again:
            fixed_again(script, known[script.name], seeds=args.seeds)
        else:
            found = measure(script, args.budget, args.against, seeds=args.seeds)
            known[script.name] = {**found, "budget": args.budget}
        held.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(" | ".join([*row(script, known[script.name]), *([second(known[script.name])] if args.again else [])]),
              flush=True)  # fmt: skip
    told = [(s, known[s.name]) for s in chosen if current(s, known.get(s.name, {}))]
    if args.seeds:
        fill(PAGE, pairs([(s, known[s.name]) for s in scripts([]) if s.name in known]), "<!-- seeds -->")
        return 0
    print("\n" + "\n".join(summary(told)))
    if not args.only:
        fill(PAGE, held_of(chosen, told), "<!-- held -->")
        fill(PAGE, page(told))
        PICTURE.write_text(picture(points(told)), encoding="utf-8")
    return 0


def current(script: Script, found: dict[str, Any]) -> bool:
    """Whether a result is of the script and of the cure as they are."""
    return found.get("of") == contents(script)


def due(script: Script, found: dict[str, Any], args: argparse.Namespace) -> bool:
    """Whether there is something to do for a script, of which that is known."""
    kept = current(script, found) and bool(found.get("fix", {}).get("kept"))
    if args.compare:
        return kept and script.fixed is not None
    if args.again:
        return kept and (args.anew or not {"second", "second_problem"} & found.keys())
    return not args.tell and (args.anew or not current(script, found))


# -- told


HEADER = ("script", "label", "kept", "predicted", "measured (95 %)", "together", "of the hand-made cure", "loss")


def row(script: Script, found: dict[str, Any]) -> list[str]:
    if "problem" in found:
        return [script.name, script.causes[0], found["problem"], "", "", "", "", ""]
    kept = [a for a in found["attempts"] if a["kept"]]
    measured = "; ".join(
        f"{a['verdict']['speedup']:.2f} ({figure(a['verdict']['low'])} to {figure(a['verdict']['high'])})" for a in kept
    )
    share = reached(found)
    return [
        script.name,
        script.causes[0],
        ", ".join(a["cause"] for a in kept) or "nothing",
        "; ".join(figure(a["predicted"]) for a in kept),
        measured,
        figure(found["fix"]["speedup"]),
        f"{share:.0%}{interval(found)}" if share is not None else "-",
        str(found["fix"]["loss"] or "-"),
    ]


def figure(value: float | None) -> str:
    return f"{value:.2f}" if value is not None and math.isfinite(value) else "-"


def reached(found: dict[str, Any]) -> float | None:
    """Speed of the patched script over that of the hand-made cure: that is ``verify``'s baseline."""
    return (found.get("reached") or {}).get("speedup")


def interval(found: dict[str, Any]) -> str:
    """Of the share that :func:`reached` gives; nothing where too few pairs tell one."""
    if (found.get("reached") or {}).get("same"):
        return " (the same program)"
    low, high = ((found.get("reached") or {}).get(k) for k in ("low", "high"))
    return f" ({low:.0%} to {high:.0%})" if low and high and math.isfinite(high) else ""


def points(told: list[tuple[Script, dict[str, Any]]]) -> list[tuple[float, float, str]]:
    """Predicted and measured speed-up of every cure that was measured, kept or not."""
    return [
        (a["predicted"], a["verdict"]["speedup"], f"{script.name}: {a['cause']}")
        for script, found in told
        for a in found.get("attempts", ())
        if a["verdict"] is not None and a["predicted"] and a["verdict"]["speedup"]
    ]


def summary(told: list[tuple[Script, dict[str, Any]]]) -> list[str]:
    safe = [(s, f) for s, f in told if not s.differs]
    good = [s for s, f in safe if (reached(f) or 0.0) >= AS_GOOD]
    share = len(good) / max(len(safe), 1)
    said = [f"scripts whose hand-made cure is exact or equivalent: {len(safe)}"]
    said.append(f"of these the kept patch is at least {AS_GOOD:.0%} as fast as that cure on {len(good)} ({share:.0%})")
    below = [s for s, f in safe if ((f.get("reached") or {}).get("high") or math.inf) < AS_GOOD]
    none = [s for s, f in safe if reached(f) is None]
    said.append(f"nothing kept: {len(none)}; the whole interval below {AS_GOOD:.0%}: {len(below)}; "
                f"the rest cannot be told from it: {len(safe) - len(good) - len(none) - len(below)}")  # fmt: skip
    slower = [s.name for s, f in told if f.get("fix", {}).get("speedup") and (f["fix"]["speedup"] or 1.0) < 1.0]
    said.append(f"patches that make a script slower: {len(slower)}" + (f" ({', '.join(slower)})" if slower else ""))
    found = points(told)
    errors = [abs(p - m) / m for p, m, _ in found]
    if errors:
        said.append(
            f"median error of the predicted speed-up: {statistics.median(errors):.0%} over {len(errors)} measured cures"
        )
    exact = [a for _, f in told for a in f.get("attempts", ()) if a["effect"] == "exact" and a["kept"]]
    differ = [a for a in exact if a["verdict"]["loss"] not in ("same", "not measured")]
    same = "with a loss that is not the same to the bit, as those of two runs of the script itself are not"
    said.append(f"exact cures kept: {len(exact)}; {same}: {len(differ)}")
    twice = [(s, f) for s, f in told if "second" in f]
    more = [s.name for s, f in twice if f["second"]]
    if twice:
        said.append(f"given to fix once more: {len(twice)}; nothing more was kept: {len(twice) - len(more)}"
                    + (f" (more of {', '.join(more)})" if more else ""))  # fmt: skip
    return said


def held_of(chosen: list[Script], told: list[tuple[Script, dict[str, Any]]]) -> str:
    """The page's first sentence: of how many of all it tells."""
    of_cases = [s.slow.parent == CASES for s in chosen]
    cases, own = ([s.slow.parent == CASES for s, _ in told].count(is_case) for is_case in (True, False))
    reported = f"on {cases or 'none'} of the {sum(of_cases)} cases of real reports" if any(of_cases) else (
        "on none of the cases of real reports, which are not at hand here"
    )  # fmt: skip
    return (
        f"`slowtrain fix` on {own} of the {of_cases.count(False)} slow scripts of the clinic and {reported}: what it\n"
        "predicted for each cure, what interleaved runs measured, and how fast the patched script is beside the cure\n"
        "that a person made.\n"
    )


def page(told: list[tuple[Script, dict[str, Any]]]) -> str:
    rows = ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    rows += ["| " + " | ".join(row(s, f)) + " |" for s, f in told]
    budgets = ", ".join(sorted({f["budget"] for _, f in told if "budget" in f}))
    command = f"python clinic/fixing.py --budget {budgets}"
    made = f"Made by `{command}` (`docs/results/fixed.json` holds the results), {len(told)} scripts."
    return "\n".join([made, "", *(f"* {line}" for line in summary(told)), "", *rows]) + "\n"


def pairs(told: list[tuple[Script, dict[str, Any]]]) -> str:
    """The table of the seeds' pairs."""
    header = [*HEADER, "kept by a second run"]
    rows = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    rows += ["| " + " | ".join([*row(s, f), second(f)]) + " |" for s, f in told]
    return "\n".join(rows) + "\n"


def second(found: dict[str, Any]) -> str:
    kept = found.get("second")
    if "second_problem" in found:
        return str(found["second_problem"])
    return "-" if kept is None else ", ".join(kept) or "nothing"


def picture(found: list[tuple[float, float, str]]) -> str:
    """Predicted against measured on logarithmic axes, as SVG; the band is 15 % to either side."""
    size, edge = 420, 46
    top = max([10.0, *(max(p, m) for p, m, _ in found)]) * 1.2
    low = min([0.8, *(min(p, m) for p, m, _ in found)])

    def at(value: float) -> float:
        return edge + (size - 2 * edge) * (math.log(value) - math.log(low)) / (math.log(top) - math.log(low))

    marks = [v for v in (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500) if low <= v <= top]
    box = f'viewBox="0 0 {size} {size}" font-family="sans-serif" font-size="11"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {box}>']
    parts.append(f'<rect width="{size}" height="{size}" fill="#fff"/>')
    for mark in marks:
        x, y = at(mark), size - at(mark)
        parts.append(f'<path d="M{x:.1f} {edge}V{size - edge}M{edge} {y:.1f}H{size - edge}" stroke="#e3e5e8"/>')
        parts.append(f'<text x="{x:.1f}" y="{size - edge + 15}" text-anchor="middle" fill="#555">{mark:g}</text>')
        parts.append(f'<text x="{edge - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#555">{mark:g}</text>')
    for share, dash in ((1.0, ""), (1.15, "4 3"), (1 / 1.15, "4 3")):
        a, b = (low, low * share) if share >= 1 else (low / share, low)
        c, d = (top / share, top) if share >= 1 else (top, top * share)
        parts.append(
            f'<path d="M{at(a):.1f} {size - at(b):.1f}L{at(c):.1f} {size - at(d):.1f}" stroke="#888" '
            f'stroke-dasharray="{dash}" fill="none"/>'
        )
    for predicted, measured, name in found:
        parts.append(
            f'<circle cx="{at(predicted):.1f}" cy="{size - at(measured):.1f}" r="4" fill="#2f6fde" fill-opacity="0.6">'
            f"<title>{name}: predicted {predicted:.2f}, measured {measured:.2f}</title></circle>"
        )
    parts.append(f'<text x="{size / 2}" y="{size - 8}" text-anchor="middle">predicted speed-up</text>')
    turned = f'transform="translate(13 {size / 2}) rotate(-90)" text-anchor="middle"'
    parts.append(f"<text {turned}>measured speed-up</text>")
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
