"""``slowtrain cut``: cuts a profile to a range of time. The bytes that stay are not changed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from slowtrain.errors import InputError

if TYPE_CHECKING:
    from slowtrain.profile.format.time_range import ProfileCut

HELP = "cut a profile to a range of time, to share or archive it; events that stay are not changed"
EXAMPLES = """
slowtrain cut worker-0.xplane.pb --from-ms 200 --to-ms 350 --out small.xplane.pb
slowtrain cut logs --from-ms 200 --out end.xplane.pb.gz    the newest profile of a log folder, from 200 ms on
slowtrain cut worker-0.xplane.pb --steps 5 --out five-steps.xplane.pb.gz
"""
PS_PER_MS = 1_000_000_000  # picoseconds in a millisecond
MAX_TIME_PS = (1 << 63) - 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "profile", metavar="PROFILE", type=Path, help="a *.xplane.pb file, optionally gzipped, or its folder"
    )
    parser.add_argument(
        "--from-ms", metavar="A", type=float, help="keep events that start at A or later, in ms since the profile began"
    )
    parser.add_argument("--to-ms", metavar="B", type=float, help="keep events that start before B")
    parser.add_argument("--steps", metavar="N", type=int, help="keep N steps from the middle, as divided by diagnose")
    parser.add_argument(
        "--out", metavar="FILE", type=Path, required=True, help="output file, gzipped if its name ends with .gz"
    )


def main(args: argparse.Namespace) -> int:
    if args.steps is not None and (args.from_ms is not None or args.to_ms is not None):
        raise InputError("--steps cannot be combined with --from-ms and --to-ms")
    start_ps, end_ps = (0, 0) if args.steps is not None else _time_range_ps(args.from_ms, args.to_ms)
    source = _find_profile(args.profile)
    from slowtrain.cli import _answers
    from slowtrain.profile import profile_files  # slow imports, after the checks above
    from slowtrain.profile.format import (
        time_range,  # slow imports, after the checks above
    )

    if args.steps is not None:
        start_ps, end_ps = _step_range_ps(source, args.steps)
    if args.out.exists() and args.out.samefile(source):
        raise InputError(f"--out {args.out} is the profile itself; choose another name")
    found = time_range.cut_profile(profile_files.profile_bytes(source), start_ps, end_ps, str(source))
    if not found.events.kept:
        raise InputError(f"{source}: {_no_events_message(found)}")
    _answers.write_file(args.out, _gzip_bytes(found.data) if args.out.name.endswith(".gz") else found.data)
    print(
        f"kept {found.events} events, {found.lines} lines, {found.planes} planes, {found.names} names; "
        f"{found.size} bytes\n{args.out}"
    )
    return 0


def _time_range_ps(from_ms: float | None, to_ms: float | None) -> tuple[int, int]:
    if from_ms is None and to_ms is None:
        raise InputError("nothing to cut; give --from-ms, --to-ms or both, or --steps")
    try:
        start, end = (
            known if ms is None else round(ms * PS_PER_MS)
            for ms, known in ((from_ms, -MAX_TIME_PS), (to_ms, MAX_TIME_PS))
        )
    except (ValueError, OverflowError):  # NaN or infinite
        raise InputError("--from-ms and --to-ms must be finite numbers of milliseconds") from None
    if start >= end:
        raise InputError(f"--from-ms {from_ms:g} is not before --to-ms {to_ms:g}")
    return max(start, -MAX_TIME_PS), min(end, MAX_TIME_PS)


def _step_range_ps(source: Path, count: int) -> tuple[int, int]:
    """Start and end of ``count`` steps in the middle of the profile, in ps since its start."""
    from slowtrain.profile import profile_steps, timeline
    from slowtrain.profile.format import xplane

    if count < 1:
        raise InputError(f"--steps {count}: must be at least 1")
    whole = timeline.read_timeline([xplane.read_space(source)])
    found = profile_steps.find_profile_steps(whole, whole.active[0] if whole.active else None)
    if not found.source:
        raise InputError(f"{source}: no steps found in it; give --from-ms and --to-ms")
    if count > len(found):
        raise InputError(f"--steps {count}: the profile holds {len(found)} whole steps ({found.source})")
    first = (len(found) - count) // 2
    return round(float(found.start_ms[first]) * PS_PER_MS), round(float(found.end_ms[first + count - 1]) * PS_PER_MS)


def _find_profile(path: Path) -> Path:
    """The profile at ``path``, or the newest one below it. Raises ``InputError`` if it consists of several files."""
    from slowtrain.profile import profile_files

    session = profile_files.find_sessions(path)[0]
    files, _ = profile_files.distinct_files(session.files)
    if len(files) > 1:
        raise InputError(f"{session.folder} holds {len(files)} profiles; name one, such as {files[0]}")
    return files[0]


def _no_events_message(found: ProfileCut) -> str:
    if found.starts_ps is None:
        return "the profile holds no events"
    first, last = (ps / PS_PER_MS for ps in found.starts_ps)
    return f"no event starts in that range; they start between {first:.3f} and {last:.3f} ms"


def _gzip_bytes(data: bytes) -> bytes:
    import gzip

    return gzip.compress(data, mtime=0)  # no time stamp, so that the same cut gives the same bytes
