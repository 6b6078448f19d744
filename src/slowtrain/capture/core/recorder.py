"""The recorder: the methods that wrappers call, and the one background thread that writes.

The hot path is :attr:`Recorder.emit`. It stores five integers (:mod:`slowtrain.capture.core.span_rows`) in a fraction
of a microsecond. It takes no lock, because the interpreter lock makes the call atomic. Naming, compressing, writing
and sampling happen in the thread or on rare events.
"""

from __future__ import annotations

import _thread
import ctypes
import itertools
import os
import sqlite3
import threading
import time
import traceback
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from slowtrain.capture.core.process_stops import StopDetector
from slowtrain.capture.core.span_rows import Row, new_rows
from slowtrain.capture.core.switch_interval import SwitchInterval
from slowtrain.capture.inspection import user_code
from slowtrain.recording.store import STOPPED_EVENT, SUSPEND_LANE, Store
from slowtrain.recording.thinning import DEFAULT_MAX_BYTES, Thinning

TICK_S = 0.05  # stacks are sampled at every tick, everything else at every few ticks
# Rows: first tick of the pace, seconds between two ticks, ticks between two writes, and the factor by which all
# watches except those of every tick become rarer. After 20 seconds, and again after a minute, there are enough
# samples, and rarer looks disturb the script less. At most the last second of a recording is lost.
TICK_PACES = ((800, 3.4 * TICK_S, 5, 2), (400, 2 * TICK_S, 8, 1), (0, TICK_S, 15, 1))
MAX_FAULTS = 50  # faults noted in a recording; a fault in every step would fill the disk
MAX_FAULTS_OF_PART = 5  # faults of one part before it is switched off
MAX_NAMES = 100_000  # later names of a lane share one name, in case a script makes functions without end
MIN_SLEEP_NS = 500_000_000  # smallest difference between the two clocks that counts as sleep of the machine
ENDED_FILE = "ended.txt"  # says why recording ended before the script did

# Errors of the disk end the recording. Any other sqlite3.Error is our own fault and costs one batch.
DISK_ERRORS = (OSError, sqlite3.OperationalError, sqlite3.InternalError, sqlite3.NotSupportedError)

now = time.perf_counter_ns  # the same clock in every process of the machine (CLOCK_MONOTONIC)


class Recorder:
    """One recording in progress. ``start`` begins the thread; ``stop`` writes what is left.

    A fault of our own is noted in the recording, and the part that failed is switched off. An error of the disk ends
    the recording. Neither reaches the user's script.
    """

    def __init__(self, folder: Path, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.active = True
        self.faults: list[str] = []
        self.trains: Callable[[], bool] = lambda: True  # whether a step has been taken
        self.pulses: list[tuple[int, Callable[[], None]]] = []
        self.at_exit: list[Callable[[], None]] = []
        self.at_end: list[Callable[[], None]] = []  # called if recording has to end before the script does
        self.at_fork: list[Callable[[], None]] = []  # called in the child of a fork, which is not recorded
        self.rows = new_rows()
        # ``emit((name, start_ns, end_ns, thread, value))``: the hot path, one call into C without a lock.
        self.emit: Callable[[Row], None] = self.rows.emit
        self._events: list[tuple[int, int, str, str, Mapping[str, Any]]] = []
        self._new_names: list[tuple[int, str, str, Mapping[str, Any]]] = []
        self._unfinished: dict[tuple[int, str, str], Mapping[str, Any]] = {}
        self._written_unfinished: list[
            tuple[int, str, str]
        ] = []  # the unfinished events that the file already contains
        self._facts: dict[str, Any] = {}
        self._samples: list[tuple[int, Mapping[str, Any]]] = []
        self._pipelines: list[tuple[int, int, bytes]] = []
        self.ids: dict[Any, int] = {}
        self._numbers = itertools.count(1)  # next() is atomic; len(ids) + 1 is not, between threads
        self._codes: list[CodeType] = []
        self._failed: dict[str, int] = {}
        self._off: set[str] = set()
        self._sleep = _thread.allocate_lock()  # held while the thread is to keep running
        self._awake = _thread.allocate_lock()  # held while the thread runs
        self._store: Store | None = None
        self._thinning: Thinning | None = None
        self._asleep_ns = _suspended_ns()
        self._begun_ns = now()

    # -- called by wrappers, in any thread

    def span(self, name: int, start_ns: int, end_ns: int, value: int = 0) -> None:
        if self.active:
            self.emit((name, start_ns, end_ns, threading.get_ident(), value))

    def name(self, lane: str, name: str, key: Any = None, **detail: Any) -> int:
        """Returns the number of a name. The same ``key`` (by default lane and name) always gives the same number."""
        key = (lane, name) if key is None else key
        known = self.ids.get(key)
        if known is not None:
            return known
        if len(self.ids) >= MAX_NAMES:
            number = self.ids.get((lane, None))
            if number is not None:
                return number
            key, name, detail = (lane, None), "others", {}
        number = self.ids.setdefault(key, next(self._numbers))
        if self.active:
            self._new_names.append((number, lane, name, detail))
        return number

    def name_at(self, frame: FrameType | None, lane: str, text: str, key: Any, **detail: Any) -> int:
        """Returns the number of a name for calls from the innermost line of the user's at or above ``frame``.

        The line number is looked up once for each instruction, because Python walks a table as long as the code for
        it.
        """
        frame = user_code.user_frame(frame)
        if frame is None:
            return self.ids.get(key) or self.name(lane, text, key, site=None, **detail)
        code, at = frame.f_code, frame.f_lasti
        known = self.ids.get((key, id(code), at))
        if known is None and len(self._codes) >= MAX_NAMES:
            return self.name(lane, text, (lane, None))
        if known is None:
            self._codes.append(code)  # keeps the code alive, so that no other code gets its id
            place = (code.co_filename, frame.f_lineno)
            known = self.ids[key, id(code), at] = self.name(lane, text, (key, place), site=place, **detail)
        return known

    def event(self, lane: str, name: str, start_ns: int, end_ns: int | None = None, **data: Any) -> None:
        """Records a rare event with all its details."""
        self._unfinished.pop((start_ns, lane, name), None)
        if self.active:
            self._events.append((start_ns, start_ns if end_ns is None else end_ns, lane, name, data))

    def note_begin(self, lane: str, name: str, start_ns: int, **data: Any) -> None:
        """Notes that something long has begun. It is written if it outlives a flush, so that it is known if the
        process dies.

        Calling :meth:`event` with the same start ends it.
        """
        self._unfinished[start_ns, lane, name] = data

    def fact(self, key: str, value: Any) -> None:
        self._facts[key] = value

    def sample(self, data: Mapping[str, Any]) -> None:
        if self.active:
            self._samples.append((now(), data))

    def pipeline(self, iterator: int, proto: bytes) -> None:
        if self.active:
            self._pipelines.append((now(), iterator, proto))

    def fault(self, where: str) -> None:
        """Notes the exception that is being handled. A part that fails again and again is switched off."""
        count = self._failed[where] = self._failed.get(where, 0) + 1
        if count >= MAX_FAULTS_OF_PART:
            self._off.add(where)
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(f"{where}: {traceback.format_exc(limit=4)}")

    def guard(self, where: str, call: Callable[..., Any], *args: Any) -> Any:
        """Returns the result of ``call``, or None with a note if it fails. Returns None at once if it has failed too
        often.
        """
        if where in self._off:
            return None
        try:
            return call(*args)
        except Exception:
            self.fault(where)
            return None

    # -- the thread

    def open(self) -> None:
        """Creates the file. :meth:`start` does this, too."""
        self._store = Store(self.folder)
        self._thinning = Thinning(self._store, self.folder, self.max_bytes)
        self._flush()

    def start(self) -> None:
        self.open()
        self._sleep.acquire()
        self._awake.acquire()
        # Not threading.Thread, because scripts count the threads that the threading module knows, and wait for them.
        _thread.start_new_thread(self._run, ())
        os.register_at_fork(after_in_child=self._stop_in_child)

    def every(self, seconds: float, call: Callable[[], None]) -> None:
        """Calls ``call`` in the thread about every ``seconds``, later less often. Drops it if it fails."""
        self.pulses.append((max(1, round(seconds / TICK_S)), call))

    def stop(self) -> None:
        """Writes what is left. Can be called twice."""
        if not self.active:
            return
        for call in self.at_exit:
            self.guard("at exit", call)
        self.active = False
        self._stop_thread()
        # the thread is stuck in a driver or on a disk, and may still use the store
        if not self._awake.acquire(timeout=5):
            return
        self.close()

    def close(self) -> None:
        """Writes what is left and closes the file. No thread of ours may be running."""
        self._flush()
        if self._thinning is not None and self._store is not None:
            self.guard("thinning", self._thinning.finish)
        if self._store is not None:
            self.guard("close", self._store.close)
            self._store = self._thinning = None

    def halt(self) -> None:
        """Writes what is left, called in the recorder's own thread just before the process ends."""
        self.active = False
        self._flush()

    def end(self, reason: str) -> None:
        """Ends recording at once, keeps what has been written, and notes the reason if the disk still allows it."""
        self.active = False
        self._stop_thread()
        self._store = self._thinning = None
        for call in self.at_end:
            self.guard("at end", call)
        try:
            (self.folder / ENDED_FILE).write_text(reason)
        except OSError:
            return

    def _stop_in_child(self) -> None:
        """Runs in the child of a fork, which is not recorded."""
        self.active = False
        # The parent's connection must be neither used nor closed here. Its locks may be held by the thread that exists
        # only in the parent, and closing would wait for them for ever. So the store is never freed.
        if self._store is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._store))
            self._store = self._thinning = None
        for call in self.at_fork:
            self.guard("after fork", call)

    def _stop_thread(self) -> None:
        if self._sleep.locked():
            self._sleep.release()

    def _run(self) -> None:
        ticks, stops, turns = 0, StopDetector(), SwitchInterval(self._sleep)
        self.at_fork.append(turns.end)
        try:
            while True:
                wait_s = _pace_at_tick(ticks)[0]
                stops.waits()
                if turns.wait(wait_s, trains=self.trains()):
                    break
                stopped = stops.stop_during_wait(wait_s)
                if stopped is not None:
                    self.event(SUSPEND_LANE, STOPPED_EVENT, *stopped)
                ticks += 1
                self._tick(ticks)
        finally:
            turns.end()
            self._awake.release()

    def _tick(self, ticks: int) -> None:
        _, writing, slower = _pace_at_tick(ticks)
        for pulse in list(self.pulses):
            every, call = pulse
            if ticks % (every if every == 1 else every * slower) == 0:
                try:
                    call()
                except Exception:
                    self.fault(getattr(call, "__qualname__", type(call).__name__))
                    self.pulses.remove(pulse)
        if ticks % writing == 0:
            self._facts["recorder"] = self.cost()
            self._note_sleep()
            self._flush()

    def _note_sleep(self) -> None:
        """Notes that the machine was suspended. Our clock stands still meanwhile, so no step becomes longer by it."""
        asleep, known = _suspended_ns(), self._asleep_ns
        self._asleep_ns = asleep
        if asleep - known > MIN_SLEEP_NS:
            self.event(SUSPEND_LANE, "machine asleep", now(), slept_s=(asleep - known) / 1e9)

    def cost(self) -> dict[str, float]:
        """Returns the thread's own processor time and the wall time it has run, in seconds."""
        return {
            "thread_cpu_s": time.thread_time(),
            "wall_s": (now() - self._begun_ns) / 1e9,
        }

    def _flush(self) -> None:
        store = self._store
        if store is None:
            return
        try:
            self._write(store, self.rows.take())
            self._thin(store)
        except DISK_ERRORS as error:
            # A full disk or a removed folder: the script goes on without a recording.
            self.end(str(error) or type(error).__name__)
        except Exception:
            self.fault("writing")
            self.guard("writing", store.rollback)

    def _thin(self, store: Store) -> None:
        """Keeps the recording below its maximum size, or ends it if that is not possible."""
        thinning = self._thinning
        if thinning is None:
            return
        fits = self.guard("thinning", thinning.work)
        if fits is None:  # thinning failed, or is switched off
            store.rollback()
            fits = store.used_bytes() <= thinning.room_bytes()
        if not fits:
            self.end(f"it would outgrow {self.max_bytes / 1e6:.0f} MB; give it more with --max-disk")

    def _write(self, store: Store, packed: bytes) -> None:
        names, self._new_names = self._new_names, []
        events, self._events = self._events, []
        facts, self._facts = self._facts, {}
        samples, self._samples = self._samples, []
        pipelines, self._pipelines = self._pipelines, []
        if self.faults:
            facts["faults"] = list(self.faults)
        unfinished = list(self._unfinished)
        if unfinished != self._written_unfinished:
            self._written_unfinished = unfinished
            facts["unfinished"] = [[*key, self._unfinished.get(key, {})] for key in unfinished]
        store.begin()
        store.names(names)
        chunk = store.spans(packed) if packed else 0
        store.events(events)
        for key, value in facts.items():
            store.fact(key, value)
        for time_ns, data in samples:
            store.sample(time_ns, data)
        for row in pipelines:
            store.pipeline(*row)
        store.commit()
        if self._thinning is not None:
            self._thinning.note_names(names)
            self._thinning.samples.wrote(len(samples))
            self._thinning.wrote(chunk, array("q", packed), events)


def _pace_at_tick(ticks: int) -> tuple[float, int, int]:
    """Returns the seconds until the next tick, the ticks between two writes, and the factor for rarer looks."""
    return next((seconds, writing, slower) for since, seconds, writing, slower in TICK_PACES if ticks >= since)


def _suspended_ns() -> int:
    """Returns for how many ns the machine has been suspended since it started; a constant if this is not known."""
    try:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    except (AttributeError, OSError):
        return 0
