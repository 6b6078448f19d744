"""Watches a run in progress: each look at its recording gives a :class:`Frame`.

    run_watch.py         looks at intervals, and diagnoses the recording so far in a process of its own
    recording_look.py    what one look measures: step times, their parts, memory, progress
    run_progress.py      the epochs of a run, and its remaining time
    alert_rules.py       all rules by which an alert begins and ends
    frame_outputs.py     passes alerts to a Python callable or a command, and frames to Prometheus
    frame_stream.py      a process of its own, which makes frames for the process that records itself

Of these, the user's process imports frame_stream.py and frame_outputs.py alone, if a monitor asks for frames.

It only reads. The cost of a look does not grow with the run. A process of its own diagnoses the recording so far, at
intervals, so that neither the view nor the run waits for it. It runs the same causes as the report, so that the live
view cannot contradict the report.
"""

from __future__ import annotations

import os


def child_environment() -> dict[str, str]:
    """The environment without variables that would record the process itself."""
    return {k: v for k, v in os.environ.items() if not k.startswith("SLOWTRAIN_")}
