"""Recordings in progress, written as the recorder writes them, by a process that lives: this one."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from slowtrain.recording.store import Store

MS = 1_000_000
STEP, INPUT, STACK, LOOP = 1, 2, 3, 4
SCRIPT = "/home/me/train.py"
SITE = ["/home/me/train.py", 31]


class Making:
    """A run of Keras' ``fit`` that began ``age_s`` ago. Chunks are written a half second each.

    With ``text`` it is that script, whose loop calls ``train_step`` at ``line``.
    """

    def __init__(
        self,
        folder: Path,
        age_s: float = 600.0,
        *,
        epochs: int = 10,
        per_epoch: int | None = 1000,
        text: str = "",
        line: int = 2,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.store = Store(folder)
        self.start_ns = time.perf_counter_ns() - int(age_s * 1e9)
        self.at_ns = self.start_ns + 1000 * MS
        self.steps = 0
        self.about = {
            "argv": ["python", "train.py"],
            "start_ns": self.start_ns,
            "start_time": time.time() + 1,  # of this process, which is older
            "cwd": str(folder),
        }
        (folder / "launch.json").write_text(json.dumps(self.about))
        fit = {"epochs": epochs, "steps_per_epoch": per_epoch, "nested": 0, "site": SITE}
        by_hand = {"site": [SCRIPT, line], "file": SCRIPT, "line": 90, "training": True}
        self.write(
            names=[
                (STEP, "function", "train_step", by_hand) if text else (STEP, "step", "train", {}),
                (INPUT, "next", "next", {"site": SITE}),
                (STACK, "stack", "read", {"site": SITE, "within": "load"}),
                (LOOP, "loop", "fit", {}),
            ],
            events=[] if text else [(self.at_ns, self.at_ns, "epoch", "begin", {"epoch": 0})],
            facts={
                "child": {"pid": os.getpid(), "begun_ns": self.start_ns},
                "unfinished": [] if text else [[self.at_ns, "loop", "fit", fit]],
                "sources": {SCRIPT: text} if text else {},
                "machine": {"memory": {"usable_bytes": 16e9}, "cpu": {"usable_cores": 4}},
            },
        )

    def write(
        self, names: Any = (), events: Any = (), facts: dict[str, Any] | None = None, samples: Any = (), spans: Any = ()
    ) -> None:
        self.store.begin()
        self.store.names(names)
        if len(spans):
            self.store.spans(np.asarray(spans, dtype="<i8").tobytes())
        self.store.events(events)
        for key, value in (facts or {}).items():
            self.store.fact(key, value)
        for at, data in samples:
            self.store.sample(at, data)
        self.store.commit()

    def takes(self, count: int, ms: float = 10.0, waits_ms: float = 0.0, piece: int = 50) -> None:
        """So many steps more, each with a wait for input before the call."""
        step, wait = int(ms * MS), int(waits_ms * MS)
        for first in range(0, count, piece):
            begun = self.at_ns + step * np.arange(min(piece, count - first), dtype=np.int64)
            one = np.ones_like(begun)
            calls = np.stack((STEP * one, begun, begun + step - wait - MS // 10, 77 * one, one), axis=1)
            rows = calls
            if wait:
                asked = np.stack((INPUT * one, begun + step - wait, begun + step - MS // 20, 77 * one, 0 * one), axis=1)
                rows = np.concatenate((calls, asked))
            self.write(spans=rows)
            self.at_ns = int(begun[-1]) + step
        self.steps += count
        self.write(facts={"steps_so_far": self.steps})

    def passes(self, number: int, line: int) -> None:
        """A data set is iterated anew, at that line."""
        made = {"number": number, "pipeline": 0, "keras": False, "site": [SCRIPT, line]}
        self.write(events=[(self.at_ns, self.at_ns, "iterator", "made", made)])

    def rest(self, seconds: float) -> None:
        self.at_ns += int(seconds * 1e9)

    def until_now(self, ms: float = 10.0, waits_ms: float = 0.0) -> None:
        left = time.perf_counter_ns() - self.at_ns
        self.takes(int(left / (ms * MS)), ms, waits_ms)

    def seen_at(self, at_ns: int) -> None:
        """A sample of the main thread's stack."""
        self.write(spans=[(STACK, at_ns, at_ns, 99, 0)])

    def sampled(self, rss_bytes: Any, seconds: float = 0.5, **more: float) -> None:
        """Samples of the machine, the last one now."""
        now = time.perf_counter_ns()
        count = len(rss_bytes)
        rows = [
            (now - int((count - 1 - i) * seconds * 1e9), {"rss_bytes": float(r), "available_bytes": 8e9, **more})
            for i, r in enumerate(rss_bytes)
        ]
        self.write(samples=rows)

    def ends(self, code: int = 0) -> None:
        self.store.close()
        (self.folder / "launch.json").write_text(json.dumps({**self.about, "end_ns": self.at_ns, "exit_code": code}))
