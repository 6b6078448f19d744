"""Watches a recording from a separate process, on behalf of the process that makes it, which saves its processor time.

The arguments are FOLDER SECONDS PARENT. Each frame is a line of JSON. The process ends with the recording or with its
parent.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from slowtrain.errors import SlowtrainError
from slowtrain.shared.live_frame import Alert, Curve, FoundCause, Frame, Gpu, Machine, Progress, RunState, StepTime
from slowtrain.shared.vocabulary import Part, Place
from slowtrain.watch import child_environment

STREAM_NICENESS = 5
STREAM_COMMAND = f"from {__name__} import write_frames; write_frames()"
LAST_LOOK_S = 15.0  # for the last look, after the recording has ended
MAX_STDERR_CHARACTERS = 300  # characters of the process's last output

log = logging.getLogger("slowtrain")


class FrameStream:
    """Calls ``seen`` with each frame, in its own thread. Exceptions in ``seen`` are stored, not raised.

    A failure of the process is reported immediately, because no alerts follow.
    """

    def __init__(self, folder: Path, every_s: float, seen: Callable[[Frame], None]) -> None:
        self.seen = seen
        self.faults: list[str] = []
        self.frame: Frame | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-c", STREAM_COMMAND, str(folder), str(every_s), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=child_environment(),
        )
        self._thread = threading.Thread(target=self._read_frames, name="slowtrain alerts", daemon=True)
        self._thread.start()

    def _read_frames(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        for line in self._process.stdout:
            try:
                self.frame = parse_frame(json.loads(line))
                self.seen(self.frame)
            except Exception as error:  # noqa: BLE001  somebody's function, a line cut off
                if len(self.faults) < 10:
                    self.faults.append(f"{type(error).__name__}: {error}")
        if (code := self._process.wait()) > 0:
            last = (
                self._process.stderr.read()
                .decode(errors="replace")
                .strip()
                .rpartition("\n")[2][-MAX_STDERR_CHARACTERS:]
            )
            log.warning("no alerts and no figures from now on: reading the recording failed (%s)", last or code)

    def close(self) -> None:
        """Waits for the last look after the recording has ended."""
        try:
            self._process.wait(LAST_LOOK_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join(LAST_LOOK_S)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


def parse_frame(document: Mapping[str, Any]) -> Frame:
    """Builds a frame from its JSON, without its curves."""
    machine = dict(document["machine"])
    machine |= {"rss": Curve(), "gpus": tuple(Gpu(**gpu) for gpu in machine["gpus"])}
    step = {**document["step"], "over_run": Curve(), "lately": Curve()}
    rest = {k: v for k, v in document.items() if k != "schema"}
    return Frame(
        **{
            **rest,
            "state": RunState(document["state"]),
            "progress": Progress(**document["progress"]),
            "step": StepTime(**step),
            "machine": Machine(**machine),
            "parts": tuple(Part(**part) for part in document["parts"]),
            "doing": Place(**document["doing"]) if document["doing"] else None,
            "alerts": tuple(_parse_alert(a) for a in document["alerts"]),
            "found": tuple(FoundCause(**f) for f in document["found"]),
        }
    )


def _parse_alert(document: Mapping[str, Any]) -> Alert:
    # JSON encodes numbers that are not finite as words
    numbers = {key: float(value) for key, value in document["numbers"].items()}
    return Alert(**{**document, "numbers": numbers, "where": tuple(Place(**p) for p in document["where"])})


def write_frames() -> None:
    """Runs in the separate process."""
    from slowtrain.report import frames
    from slowtrain.watch.run_watch import ENDED_STATES, Watch

    folder, every_s, parent = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    with contextlib.suppress(OSError):
        os.nice(STREAM_NICENESS)
    watch = Watch(folder)
    try:
        while True:
            seen = watch.look()
            os.write(1, frames.frame_json(seen, indent=None).encode() + b"\n")
            if seen.state in ENDED_STATES or os.getppid() != parent:
                return
            time.sleep(every_s)
    except (SlowtrainError, OSError):
        return  # the recording or the reader has gone
    finally:
        watch.close()
