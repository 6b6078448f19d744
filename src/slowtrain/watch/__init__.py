"""Watches a run in progress: each look at its recording gives a :class:`Frame`.

    recording_look.py          what one look measures: step times, their parts, memory, progress
    alert_rules.py             all rules by which an alert begins and ends
    background_processes.py    processes of their own, which diagnose the recording at intervals or make frames of it
    frame_outputs.py           passes alerts to a Python callable or a command, and frames to Prometheus

It only reads. The cost of a look does not grow with the run.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from slowtrain.model.live_frame import Frame, RunState
from slowtrain.recording.live_follower import Follower
from slowtrain.watch.alert_rules import AlertBook
from slowtrain.watch.background_processes import BackgroundDiagnosis
from slowtrain.watch.recording_look import RecordingWatcher

ENDED_STATES = (RunState.ENDED, RunState.LOST)


class Watch:
    """``window_s``: the length of "now". ``examine``: whether the recording is diagnosed at intervals.

    The first look raises ``InputError`` if there is no recording.
    """

    def __init__(self, folder: Path, *, window_s: float = 30.0, examine: bool = True) -> None:
        self.folder = folder
        self.looking = RecordingWatcher(Follower(folder), window_s)
        self.book = AlertBook()
        self.examining = BackgroundDiagnosis(folder) if examine else None

    def look(self) -> Frame:
        """Takes one look; returns its frame with the current alerts."""
        sight = self.looking.look()
        told = None
        if self.examining is not None:
            over = sight.frame.state in ENDED_STATES
            self.examining.turn(sight.frame.run_ms, wanted=not over and sight.enough)
            told = self.examining.told
        alerts = self.book.look(sight, told)
        found = told.found if told is not None else ()
        return replace(
            sight.frame,
            alerts=alerts,
            found=found,
            examined_ms=None if told is None else told.at_ms,
        )

    def close(self) -> None:
        if self.examining is not None:
            self.examining.close()
