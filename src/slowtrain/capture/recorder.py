"""The recorder: what wrappers call, and the one background thread that writes.

The hot path is :attr:`Recorder.emit`: one ``array.extend`` of five integers, a fraction of a
microsecond, without a lock (the interpreter lock makes it whole). Everything else,
naming, compressing, writing, sampling, happens in the thread or on rare events.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
import traceback
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from slowtrain.capture.store import Store

TICK_S = 0.02  # stacks are sampled at this interval
FLUSH_TICKS = 12  # spans are written about every quarter of a second

now = time.perf_counter_ns  # the same clock in every process of the machine (CLOCK_MONOTONIC)


class Recorder:
    """One recording in progress. ``start`` begins the thread; ``stop`` writes what is left.

    A fault of ours is noted in the recording and the part that failed is switched off; a
    fault of the disk ends the recording. Neither reaches the user's script.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.active = True
        self.faults: list[str] = []
        self.pulses: list[tuple[int, Callable[[], None]]] = []
        self.at_exit: list[Callable[[], None]] = []
        self._spans = array("q")
        # ``emit((name, start_ns, end_ns, thread, value))``: the hot path, one call into C without a lock.
        self.emit = self._spans.extend
        self._events: list[tuple[int, int, str, str, Mapping[str, Any]]] = []
        self._new_names: list[tuple[int, str, str, Mapping[str, Any]]] = []
        self._facts: dict[str, Any] = {}
        self._samples: list[tuple[int, Mapping[str, Any]]] = []
        self._pipelines: list[tuple[int, int, bytes]] = []
        self.ids: dict[Any, int] = {}
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._store: Store | None = None
        self._begun_ns = now()

    # -- called by wrappers, in any thread

    def span(self, name: int, start_ns: int, end_ns: int, value: int = 0) -> None:
        self.emit((name, start_ns, end_ns, threading.get_ident(), value))

    def name(self, lane: str, name: str, key: Any = None, **detail: Any) -> int:
        """The number of a name; the same ``key`` (by default lane and name) gives the same number."""
        key = (lane, name) if key is None else key
        known = self.ids.get(key)
        if known is not None:
            return known
        number = self.ids.setdefault(key, len(self.ids) + 1)
        self._new_names.append((number, lane, name, detail))
        return number

    def event(self, lane: str, name: str, start_ns: int, end_ns: int | None = None, **data: Any) -> None:
        """Something rare, with all its details."""
        self._events.append((start_ns, start_ns if end_ns is None else end_ns, lane, name, data))

    def fact(self, key: str, value: Any) -> None:
        self._facts[key] = value

    def sample(self, data: Mapping[str, Any]) -> None:
        self._samples.append((now(), data))

    def pipeline(self, iterator: int, proto: bytes) -> None:
        self._pipelines.append((now(), iterator, proto))

    def fault(self, where: str) -> None:
        """Notes the exception being handled; call it where a part of the recorder failed."""
        text = f"{where}: {traceback.format_exc(limit=4)}"
        if len(self.faults) < 50:
            self.faults.append(text)

    def guard(self, where: str, call: Callable[..., Any], *args: Any) -> Any:
        """The result of ``call``, or None and a note when it fails."""
        try:
            return call(*args)
        except Exception:
            self.fault(where)
            return None

    # -- the thread

    def start(self) -> None:
        self._store = Store(self.folder)
        self._flush()
        self._thread = threading.Thread(target=self._run, name="slowtrain", daemon=True)
        self._thread.start()
        os.register_at_fork(after_in_child=self._forked)

    def every(self, seconds: float, call: Callable[[], None]) -> None:
        """Calls ``call`` in the thread about every ``seconds``; drops it when it fails."""
        self.pulses.append((max(1, round(seconds / TICK_S)), call))

    def stop(self) -> None:
        """Writes what is left. Safe to call twice."""
        if not self.active:
            return
        for call in self.at_exit:
            self.guard("at exit", call)
        self.active = False
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
        self._flush()
        if self._store is not None:
            self.guard("close", self._store.close)
            self._store = None

    def _forked(self) -> None:
        self.active = False
        self._store = None  # the parent's connection: neither used nor closed here

    def _run(self) -> None:
        ticks = 0
        while not self._wake.wait(TICK_S):
            ticks += 1
            for pulse in list(self.pulses):
                every, call = pulse
                if ticks % every == 0:
                    try:
                        call()
                    except Exception:
                        self.fault(getattr(call, "__qualname__", "pulse"))
                        self.pulses.remove(pulse)
            if ticks % FLUSH_TICKS == 0:
                self._facts["recorder"] = self.cost()
                self._flush()

    def cost(self) -> dict[str, float]:
        """The thread's own processor time so far, in seconds, over the wall time that it has run."""
        return {
            "thread_cpu_s": time.thread_time(),
            "wall_s": (now() - self._begun_ns) / 1e9,
            "switch_interval_s": sys.getswitchinterval(),
        }

    def _flush(self) -> None:
        store = self._store
        if store is None:
            return
        # Others append while we copy: what came after the copy stays for the next time.
        settled = self._spans[:]
        del self._spans[: len(settled)]
        try:
            store.begin()
            names, self._new_names = self._new_names, []
            store.names(names)
            if settled:
                store.spans(settled.tobytes())
            events, self._events = self._events, []
            store.events(events)
            facts, self._facts = self._facts, {}
            if self.faults:
                facts["faults"] = list(self.faults)
            for key, value in facts.items():
                store.fact(key, value)
            samples, self._samples = self._samples, []
            for time_ns, data in samples:
                store.sample(time_ns, data)
            pipelines, self._pipelines = self._pipelines, []
            for row in pipelines:
                store.pipeline(*row)
            store.commit()
        except (sqlite3.Error, OSError):
            # A full disk, a folder that was removed: the script goes on without a recording.
            self._store = None
            self.active = False
