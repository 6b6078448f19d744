"""When the profiler's windows begin and end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.thread_state import Progress
from slowtrain.capture.windows import framework_profilers
from slowtrain.capture.windows.deep_windows import MAX_REPEATED_WINDOWS, MIN_PROFILE_STEPS, NEVER_NS, DeepWindows


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    found = Recorder(tmp_path)
    found.active = True
    yield found
    found.active = False


def begun(recorder: Recorder, monkeypatch: pytest.MonkeyPatch, steps: int) -> tuple[DeepWindows, Progress, list[str]]:
    """A window that is open since ``steps`` steps, and what is called when it ends."""
    order: list[str] = []
    monkeypatch.setattr(framework_profilers, "begin_profile", lambda folder: lambda: order.append(folder.name))
    progress = Progress()
    windows = DeepWindows(recorder, progress, enabled=False)
    windows._begin(progress.steps, now())
    progress.steps += steps
    assert windows._sessions
    return windows, progress, order


def test_a_window_ends_before_anything_is_compiled_in_it(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    windows, progress, order = begun(recorder, monkeypatch, MIN_PROFILE_STEPS)
    heard = progress.compiling
    assert heard is not None
    heard()
    assert order == ["window-1"]
    assert progress.compiling is None, "there is nothing to end any more"
    assert not windows._sessions
    ((_, _, lane, name, data),) = recorder._events
    assert (lane, name, data["steps"]) == ("window", "profile", MIN_PROFILE_STEPS)
    assert windows._done == 1  # the tracer of lines is next


def test_a_window_that_had_to_end_too_early_comes_again_but_not_for_ever(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows, progress, order = begun(recorder, monkeypatch, MIN_PROFILE_STEPS - 1)
    for nth in range(MAX_REPEATED_WINDOWS):
        assert progress.compiling is not None
        progress.compiling()
        assert windows._done == 0, nth
        windows._boundary(progress.steps)
        assert not windows._sessions, "a little later, not at once"
        windows._begin(progress.steps, now())
    assert progress.compiling is not None
    progress.compiling()
    assert windows._done == 1
    assert order == [f"window-{n + 1}" for n in range(MAX_REPEATED_WINDOWS + 1)]


def test_windows_spent_on_predictions_come_again_when_training_begins(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framework_profilers, "begin_profile", lambda folder: lambda: None)
    progress = Progress()
    windows = DeepWindows(recorder, progress)
    progress.step(1)
    windows._done, windows._next_ns, progress.boundary = 2, NEVER_NS, None  # the profile and the lines are taken
    progress.step(1)
    assert progress.boundary is None, "more of the same is no reason"
    progress.step(4)
    assert windows.progress.boundary is not None
    assert (windows._done, windows._next_ns, progress.steps) == (0, 0, 1)
    for kind in range(5, 5 + MAX_REPEATED_WINDOWS):
        windows._done, windows._next_ns = 2, NEVER_NS
        progress.step(kind)
    assert windows._done == 2, "not for ever"


def test_a_window_on_what_turned_out_not_to_train_comes_again(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent acts for some steps before its first update: these are what counts from there on."""
    windows, progress, order = begun(recorder, monkeypatch, 9)
    windows._since = progress.steps
    progress.set_last_kind(2)
    windows._boundary(progress.steps + 1)
    assert order == ["window-1"]
    assert windows._done == 0, "the profiler's window comes again"
    assert not windows._sessions
    assert windows._next_ns > now(), "a little later"


def test_another_threads_compiling_ends_no_window(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    windows, progress, order = begun(recorder, monkeypatch, MIN_PROFILE_STEPS)
    assert progress.compiling is not None
    thread = threading.Thread(target=progress.compiling)
    thread.start()
    thread.join()
    assert not order
    assert windows._sessions
