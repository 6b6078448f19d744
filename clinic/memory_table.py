"""Foretold against actual largest batch: `slowtrain memory`'s forecast, and real runs under the same limit.

    python clinic/memory_table.py [--markdown docs/memory.md] [--only NAME ...] [--limits 256 512 1024] [--anew]
        [--records FOLDER] [--again]

The limit is that of TensorFlow's own allocator on the CPU, which raises ResourceExhausted as a GPU's does; one thread
begins ops, as one does a GPU's. A batch fits if three training steps end without it, within four minutes. The actual
largest is found by bisection with a process for each batch, until the bracket is one per cent wide; it has to fit
alone, on one core and beside busy cores, or one per cent less has to. The forecast has seen none of these runs.
Each result is written to docs/results/memory.json at once, and is not measured again; ``--anew`` makes the forecasts
again, because the code has changed; ``--tried-anew`` repeats only the trials of the known forecasts.
With ``--records`` the probes' records are kept in a folder, and where there is one of about the same batch no probe is
run again. ``--before CMD`` stands before every process (nice, say; no lock that others hold, for the minutes are
counted with it). ``--again`` runs each answer that is there once more in each of the three circumstances, and does
nothing else.

With ``KERAS_BACKEND=jax`` and a GPU the models run on JAX, whose own allocator gets the limit as a share of the card.
Keep that in another file (``--json``).
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pages

HERE = Path(__file__).parent
SCRIPT = HERE / "memory_models.py"
LIMITS = (256, 512, 1024)  # MiB
STEP = 0.01  # of the batch: width of the last bracket
LONGEST_S = 240  # a run takes ten seconds; requests that find no memory wait ten each, and a run can be stuck in that
EXHAUSTED = 7
NEAR = 1.25  # times as large or as small: a kept record of that batch is taken in place of a probe


def fits(name: str, batch: int, limit: int, card_bytes: int | None, before: list[str]) -> bool:
    """One process. Raises ``RuntimeError`` where it fails for another reason."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    if card_bytes:
        environment["XLA_PYTHON_CLIENT_MEM_FRACTION"] = repr((limit << 20) / card_bytes)
    else:
        environment |= {
            "TF_CPU_ALLOCATOR_USE_BFC": "true", "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(limit),
            "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "-1", "TF_NUM_INTEROP_THREADS": "1",
        }  # fmt: skip
    argv = [*before, sys.executable, str(SCRIPT), name, str(batch)]
    try:
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    except subprocess.TimeoutExpired:
        return False
    if done.returncode == 0:
        return True
    said = done.stdout + done.stderr
    # Some kernels end the process where a request of theirs fails.
    if done.returncode == EXHAUSTED or "OOM when allocating" in said or "ran out of memory" in said:
        return False
    raise RuntimeError(f"{name} at {batch}: exit {done.returncode}: {said[-400:]}")


def foretell(name: str, limits: list[int], known: dict[str, dict], records: Path | None, write) -> None:
    """The forecast for every limit that has none yet, from probes that go on where the last limit ended."""
    from slowtrain.memory.peak_forecast import MemoryPool
    from slowtrain.verify.batch_sizes import memory_need
    from slowtrain.verify.batch_sizes.batch_probe import BatchProbes, measure_peaks
    from slowtrain.verify.measurement.paired_trial import Bench
    from slowtrain.verify.measurement.probe_process import Script

    class Kept(BatchProbes):
        def at(self, batch: int):
            taken = {r.batch for r in self.recorded}
            kept = (int(f.stem.rpartition("-")[2]) for f in records.glob(f"{name}-*.pkl")) if records else ()
            near = [b for b in kept if b not in taken and max(b / batch, batch / b) <= NEAR]
            return super().at(min(near, key=lambda b: abs(b - batch), default=batch))

        def _record(self, batch: int | None, what: str):
            if records is None:
                return super()._record(batch, what)
            file = records / f"{name}-{batch}.pkl"
            if file.exists():
                self.recorded.append(pickle.loads(file.read_bytes()))
            else:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(pickle.dumps(super()._record(batch, what)))
            return self.recorded[-1]

    wanted = [limit for limit in limits if "foretold" not in known.get(f"{name}/{limit}", {})]
    if not wanted:
        return
    with tempfile.TemporaryDirectory() as folder:
        script = Script(str(SCRIPT), (name, "{batch}"))
        sizing = Kept(Bench(script, Path(folder) / "runs", time.monotonic() + 900, say=lambda t: print(f"  {t}")))
        for limit in sorted(wanted):
            begun = time.monotonic()
            pool = MemoryPool(limit << 20, growth=os.environ.get("KERAS_BACKEND") != "jax")
            row = known.setdefault(f"{name}/{limit}", {})
            if "replayed" in row:
                sizing.at(max(row["probed"]))  # tells how long a run takes
            else:
                found = measure_peaks(sizing, pool)
                row["replayed"] = found.largest_fit(pool)
                row["probed"] = [m.batch for m in found.measured]
                row["peaks"] = {str(m.batch): m.record.peak_bytes for m in found.measured}
                row["error_share"] = found.error_share
                row["card_bytes"] = sizing.recorded[0].card_bytes
            trial = memory_need.try_batches(sizing, pool, row["replayed"])
            row["foretold"], row["trials"] = trial.batch, trial.runs
            row["foretelling_s"] = round(time.monotonic() - begun, 1)
            write()


def search(name: str, limit: int, row: dict, before: list[str], write) -> None:
    """Bisection; where it begins is the forecast, which saves runs and decides nothing. A later one is only tried."""
    tried = row.setdefault("tried", {})

    def fit(batch: int) -> bool:
        if str(batch) not in tried:
            tried[str(batch)] = fits(name, batch, limit, row.get("card_bytes"), before)
            write()
            print(f"  {name} {limit} MiB, batch {batch}: {'fits' if tried[str(batch)] else 'exhausted'}", flush=True)
        return tried[str(batch)]

    at = max(row["foretold"], 1)
    factor = 1.02
    if "once_more" not in row:
        row["once_more"] = [*everywhere(name, at, limit, row, before)]
        tried[str(at)] = all(row["once_more"])
        write()
    if row.get("sure"):
        return
    if row.get("actual"):
        settle(name, limit, row, before, write)
        return
    if fit(at):
        low, high = at, max(int(at * factor), at + 1)
        while fit(high):
            factor *= factor
            low, high = high, max(int(high * factor), high + 1)
    else:
        low, high = max(int(at / factor), at - 1), at
        while low > 0 and not fit(low):
            factor *= factor
            low, high = min(int(low / factor), low - 1), low
    while high - low > max(STEP * low, 1):
        middle = (low + high) // 2
        low, high = (middle, high) if fit(middle) else (low, middle)
    row["actual"] = low
    settle(name, limit, row, before, write)


def settle(name: str, limit: int, row: dict, before: list[str], write) -> None:
    """Down from the largest that fitted once to one that fits everywhere. ``sure`` keeps what these runs said."""
    at, sure = row["actual"], {}
    while at > 0:
        for fitted in everywhere(name, at, limit, row, before):
            sure.setdefault(str(at), []).append(fitted)
            if not fitted:
                break
        else:
            break
        at = min(int(at * (1 - STEP)), at - 1)
    row["actual"], row["sure"] = at, sure
    write()


def everywhere(name: str, batch: int, limit: int, row: dict, before: list[str]) -> Iterator[bool]:
    """Whether it fits alone, on one core, and beside busy cores."""
    from slowtrain.verify.batch_sizes import memory_need

    for circumstance in memory_need.ALL_CIRCUMSTANCES:
        with memory_need.circumstance_applied(circumstance):
            fitted = fits(name, batch, limit, row.get("card_bytes"), before)
        print(f"  {name} {limit} MiB, batch {batch} {circumstance}: {'fits' if fitted else 'exhausted'}", flush=True)
        yield fitted


def table(known: dict[str, dict], limits: list[int]) -> str:
    rows = [(key, row) for key, row in known.items() if row.get("actual") and "once_more" in row]
    if not rows:
        return "Not measured yet.\n"
    errors = [row["foretold"] / row["actual"] - 1 for _, row in rows]
    failed = [key for key, row in rows if not all(row["once_more"])]
    models = list(dict.fromkeys(key.split("/")[0] for key, _ in rows))
    median = statistics.median(map(abs, errors))
    text = (
        f"{len(models)} models, {len(rows)} cells: median error **{100 * median:.1f} %**, furthest "
        f"{100 * max(map(abs, errors)):.1f} %; batches foretold that did not fit: **{len(failed)}**"
        + (f" ({', '.join(failed)})" if failed else "") + ".\n\n"
    )  # fmt: skip
    again = {key: row["again"] for key, row in rows if row.get("again")}
    if again:
        runs = [fitted for several in again.values() for fitted in several]
        text += f"Answers run again, {len(runs)} runs of {len(again)} cells: {runs.count(False)} did not fit"
        text += "".join(f"; {k} {v.count(False)} of {len(v)}" for k, v in again.items() if not all(v)) + ".\n\n"
    medians = []
    for limit in limits:
        own = [abs(e) for (key, _), e in zip(rows, errors, strict=True) if key.endswith(f"/{limit}")]
        medians += [f"{100 * statistics.median(own):.1f} % under {limit} MiB"] if own else []
    text += f"Median by limit: {', '.join(medians)}.\n\n"
    text += "| model |" + "".join(f" {limit} MiB: foretold | actual | error |" for limit in limits) + "\n"
    text += "|---|" + "---:|---:|---:|" * len(limits) + "\n"
    for model in models:
        cells = []
        for limit in limits:
            row = known.get(f"{model}/{limit}", {})
            if row.get("actual") and "once_more" in row:
                error = 100 * (row["foretold"] / row["actual"] - 1)
                cells.append(f" {row['foretold']:,} | {row['actual']:,} | {error:+.1f} % |")
            else:
                cells.append(" – | – | – |")
        text += f"| {model.replace('_', ' ')} |" + "".join(cells) + "\n"
    return text


def rules(known: dict[str, dict], limits: list[int]) -> str:
    """How far off simpler rules are, by which a batch grows in proportion to memory, and the forecasts beside them.

    The second kind takes it that the largest batch under a limit fills that limit. Its peak is at most that, so the
    rule would answer no less. A cell that lacks what a rule needs is left out of its row, and counted there.
    """
    models = list(dict.fromkeys(key.split("/")[0] for key in known))
    small = []
    for key, row in known.items():
        if row.get("actual") and row.get("peaks"):
            batch = min(map(int, row["peaks"]))
            small.append((int(key.rpartition("/")[2]) * batch * (1 << 20) // row["peaks"][str(batch)], row))
    found = [("limit / peak of the smallest probe × its batch", small, len(known) - len(small))]
    for low, high in ((a, b) for a in limits for b in limits if a < b):
        pairs = [(known.get(f"{model}/{low}", {}), known.get(f"{model}/{high}", {})) for model in models]
        cells = [(a["actual"] * high // low, b) for a, b in pairs if a.get("actual") and b.get("actual")]
        rule = f"largest batch under {low} MiB × {high / low:g}, under {high} MiB"
        found.append((rule, cells, len(pairs) - len(cells)))
    for limit in limits:
        own = [row for key, row in known.items() if key.endswith(f"/{limit}")]
        cells = [(row["foretold"], row) for row in own if row.get("actual") and "once_more" in row]
        found.append((f"forecast, under {limit} MiB", cells, len(own) - len(cells)))
    head = "| rule | cells | left out | median error | lowest | highest | above the actual | of these failed when run |"
    return f"{head}\n|---|---:|---:|---:|---:|---:|---:|---:|\n" + "".join(_ruled(*row) for row in found)


def _ruled(named: str, cells: list[tuple[int, dict]], left_out: int) -> str:
    if not cells:
        return f"| {named} | 0 | {left_out} | – | – | – | – | – |\n"
    errors = [100 * (answer / row["actual"] - 1) for answer, row in cells]
    above = [(answer, row) for answer, row in cells if answer > row["actual"]]
    run = [row["tried"][str(answer)] for answer, row in above if str(answer) in row["tried"]]
    return (
        f"| {named} | {len(cells)} | {left_out} | {statistics.median(map(abs, errors)):.1f} % | {min(errors):+.1f} % | "
        f"{max(errors):+.1f} % | {len(above)} | {run.count(False)} of {len(run)} |\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--json", type=Path, default=HERE.parent / "docs" / "results" / "memory.json")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--limits", nargs="*", type=int, default=list(LIMITS))
    parser.add_argument("--before", default="", help="a command in front of every real run, nice for one")
    parser.add_argument("--anew", action="store_true", help="make all forecasts again")
    parser.add_argument("--tried-anew", action="store_true", help="make all trials again, from the forecasts known")
    parser.add_argument("--records", type=Path, help="where probes' records are kept and looked for")
    parser.add_argument("--again", action="store_true", help="run each known answer once more, and nothing else")
    parser.add_argument("--table", action="store_true", help="measure nothing, write what is known")
    args = parser.parse_args()
    known = json.loads(args.json.read_text()) if args.json.exists() else {}

    def write() -> None:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(known, indent=1) + "\n")

    for row in known.values() if args.anew or args.tried_anew else ():
        for key in ("foretold", "once_more", "again", *(("replayed",) if args.anew else ())):
            row.pop(key, None)
    names = args.only or _names()
    for key, row in known.items() if args.again else ():
        name, _, limit = key.partition("/")
        if name in names and int(limit) in args.limits and "foretold" in row:
            once_more = everywhere(name, row["foretold"], int(limit), row, shlex.split(args.before))
            row.setdefault("again", []).extend(once_more)
            write()
    for name in () if args.table or args.again else names:
        try:
            print(name, flush=True)
            foretell(name, args.limits, known, args.records, write)
            for limit in args.limits:
                search(name, limit, known[f"{name}/{limit}"], shlex.split(args.before), write)
        except Exception as error:  # noqa: BLE001  the others are measured all the same, and this one has no row
            print(f"  {name}: {type(error).__name__}: {error}", flush=True)
    text = f"{table(known, args.limits)}\n### Beside rules in proportion\n\n{rules(known, args.limits)}"
    print(text)
    if args.markdown:
        pages.fill(args.markdown, text)


def _names() -> list[str]:
    """From the text, since importing it would import TensorFlow here."""
    import ast

    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"))
    found = next(n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "MODELS")
    assert isinstance(found, ast.Dict)
    return [str(ast.literal_eval(key)) for key in found.keys if key is not None]


if __name__ == "__main__":
    main()
