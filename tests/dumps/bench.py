"""How long a log of 100 MB takes: ``python tests/dumps/bench.py``. Not a test: it depends on the computer."""

from __future__ import annotations

import gzip
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

DUMP = gzip.decompress((Path(__file__).parent / "data/tf221-mlp.log.gz").read_bytes())
RANKS = b"".join(b"[1,%d]<stderr>:%s\n" % (rank, line) for line in DUMP.splitlines() for rank in range(4))
TRAINING = b"2026-01-31 12:00:00 INFO trainer: step 123456 loss 0.12345 accuracy 0.98765 samples/s 5230\n"
BYTES = 100_000_000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, piece, last in (("dumps", DUMP, b""), ("four ranks", RANKS, b""), ("training", TRAINING, DUMP)):
            log, times = Path(folder, f"{name}.log"), BYTES // len(piece)
            with log.open("wb") as file:
                for _ in range(times):  # never whole in memory: a child begins with its parent's
                    file.write(piece)
                file.write(last)
            lines = times * piece.count(b"\n") + last.count(b"\n")
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            subprocess.run([sys.executable, "-m", "slowtrain", "oom", log], check=True, stdout=subprocess.DEVNULL)
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent, most = used.ru_utime - before, used.ru_maxrss / 1024
            size = f"{log.stat().st_size / 1e6:.0f} MB, {lines:,} lines"
            print(f"{name}: {size}: {spent:.1f} s of one core, at most {most:.0f} MiB")


if __name__ == "__main__":
    main()
