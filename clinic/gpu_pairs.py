"""The profiles of a real GPU in tests/trace/recorded, in pairs: what is said of them, foretold and measured.

    python clinic/gpu_pairs.py                              prints the table
    python clinic/gpu_pairs.py --markdown docs/gpu.md       writes it between that file's marks

The profiles, and the times without the profiler in times.jsonl, are made by tests/trace/recorded/make_gpu.py.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from slowtrain.diagnose import diagnose_trace
from slowtrain.number_text import format_number
from slowtrain.trace.loading import profile_trace

RECORDED = Path(__file__).parents[1] / "tests" / "trace" / "recorded"
CURED = {
    "gpu-float32": "gpu-tf32", "gpu-convolution-float32": "gpu-convolution-tf32", "gpu-double": "gpu-single",
    "gpu-unaligned": "gpu-aligned", "gpu-elementwise": "gpu-elementwise-fused", "gpu-host-ops": "gpu-device-ops",
    "gpu-input-bound": "gpu-input-ready", "gpu-eager": "gpu-eager-compiled", "gpu-readback": "gpu-logs-unread",
    "gpu-loss-read": "gpu-loss-kept", "gpu-fed": "gpu-fed-bytes", "gpu-small-copies": "gpu-one-copy",
    "gpu-tf32": "gpu-healthy", "gpu-convolution-tf32": "gpu-convolution",
    "gpu-rnn": "gpu-rnn-fused", "gpu-launch-bound-kernels": "gpu-launch-bound",
}  # fmt: skip
COLUMNS = ("profile", "profiled ms", "timed ms", "busy", "first cause", "foretold", "cured", "timed ms", "gain")
BEGIN, END = "<!-- table -->", "<!-- end -->"


def rows() -> Iterator[list[str]]:
    lines = (RECORDED / "times.jsonl").read_text(encoding="utf-8").splitlines()
    timed = {row["name"]: row["step_ms"] for row in map(json.loads, lines)}
    for name in sorted(timed):
        trace = profile_trace.load_profile([RECORDED / f"{name}.xplane.pb.gz"])
        found = [d for d in diagnose_trace(trace).diagnoses if d.cause != "compute/compute-bound"]
        busy = trace.device.busy_ms / trace.step_ms if trace.device else 0.0
        first, foretold = "–", "–"
        if found:
            saving = found[0].saving
            first, foretold = found[0].cause, f"{saving.speedup:.1f} ({saving.low:.1f} to {saving.high:.1f})"
        pair = CURED.get(name)
        cured = [pair, format_number(timed[pair]), f"{timed[name] / timed[pair]:.1f}"] if pair else ["", "", ""]
        yield [name, format_number(trace.step_ms), format_number(timed[name]), f"{busy:.0%}", first, foretold, *cured]


def table() -> str:
    lines = [f"| {' | '.join(COLUMNS)} |", "|---|---:|---:|---:|---|---:|---|---:|---:|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", type=Path)
    given = parser.parse_args()
    made = table()
    if given.markdown is None:
        print(made)
        return
    text = given.markdown.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    given.markdown.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
