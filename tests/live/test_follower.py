"""A recording that grows: each look reads what is new, and the rest stays bounded."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import psutil
import pytest

from slowtrain.columns.arrays import Ints
from slowtrain.columns.steps import Steps
from slowtrain.errors import InputError
from slowtrain.machine.host import host_facts
from slowtrain.recording import live_follower, reader
from slowtrain.recording.live_follower import Follower
from slowtrain.recording.reader import Recording
from slowtrain.report import frames
from slowtrain.report import live as live_view
from slowtrain.shared.live_frame import Frame, RunState
from slowtrain.trace.loading import recording_windows
from slowtrain.watch.run_watch import Watch

from .making import STEP, Making


def watch(folder: Path) -> Watch:
    return Watch(folder, examine=False)


def shown(frame: Frame) -> str:
    return "\n".join(live_view.screen_lines(frame, width=80, height=24, colour=False, unicode=True))


def test_a_run_in_progress(tmp_path: Path) -> None:
    made = Making(tmp_path / "run", 40.0)
    made.until_now(20.0, waits_ms=5.0)
    made.sampled([1e9] * 40, process_cpu_seconds=1.0)
    frame = watch(made.folder).look()
    assert (frame.state, frame.source, frame.command) == (RunState.RUNNING, "fit", "train.py")
    assert frame.progress.steps == made.steps
    assert frame.step.now_ms == pytest.approx(20, rel=0.01)
    assert frame.step.run_ms == pytest.approx(20, rel=0.01)
    shares = {p.name: p.share for p in frame.parts}
    assert shares["input"] == pytest.approx(0.25, abs=0.02)
    assert sum(shares.values()) == pytest.approx(1)
    assert frame.machine.rss_bytes == 1e9


def test_now_and_over_the_run_differ(tmp_path: Path) -> None:
    made = Making(tmp_path / "run", 120.0)
    made.takes(8000, 10.0)
    made.until_now(30.0)
    step = watch(made.folder).look().step
    assert step.now_ms == pytest.approx(30, rel=0.02)
    assert step.run_ms == pytest.approx(10, rel=0.02)
    known = step.over_run.known_values
    assert known[0] == pytest.approx(10, rel=0.05)
    assert known[-1] == pytest.approx(30, rel=0.05)


def test_each_look_takes_what_is_new(tmp_path: Path) -> None:
    made = Making(tmp_path / "run", 100.0)
    follower = Follower(made.folder)
    made.takes(1000)
    follower.look()
    assert len(follower.spans()) == 1000
    follower.look()
    assert len(follower.spans()) == 1000
    made.takes(500)
    follower.look()
    assert len(follower.spans()) == 1500
    (history,) = follower.histories.kinds.values()
    assert history.count == 1500
    assert sum(history.turns) == 1499


def test_a_long_run_is_neither_kept_nor_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_follower, "MAX_FOLLOWED_SPANS", 5000)
    made = Making(tmp_path / "run", 2000.0)
    made.takes(60_000)
    made.takes(60_000, 20.0)
    read: list[int] = []
    real = reader.decode_chunk

    def rows(data: bytes) -> Ints:
        read.append(1)
        return real(data)

    monkeypatch.setattr(reader, "decode_chunk", rows)
    late, early = Follower(made.folder), Follower(made.folder)
    late.look()
    assert len(late.spans()) <= 5000
    assert len(read) <= live_follower.MAX_OLD_CHUNKS * 2 + 5000 // 50
    for follower in (early, late):
        follower.look()
        (history,) = follower.histories.kinds.values()
        # Who comes late knows as well how it was.
        assert history.quantile_ms(0.2) == pytest.approx(10)
        assert history.quantile_ms(0.8) == pytest.approx(20)
        assert history.longest_gap_ns <= 21e6


def test_who_comes_late_learns_from_the_profilers_window_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What computes inside a call only that window says, and its steps are no longer among those that are kept."""
    monkeypatch.setattr(live_follower, "MAX_FOLLOWED_SPANS", 5000)
    made = Making(tmp_path / "run", 2000.0)
    made.takes(300)
    begun = made.at_ns
    made.takes(20)
    made.write(events=[(begun, made.at_ns, "window", "profile", {"steps": 20, "folder": "window-1"})])
    made.takes(60_000)
    seen: list[tuple[int, int]] = []

    def deep(_raw: Recording, found: Steps, *, eager: bool) -> tuple[None, None, None]:
        seen.append((len(found), int(found.windowed.sum())))
        return None, None, None

    monkeypatch.setattr(recording_windows, "read_deep_windows", deep)
    watch(made.folder).look()
    ((steps, windowed),) = seen
    assert 20 <= windowed <= 24
    assert 100 <= steps <= 500


def test_the_window_grows_until_it_holds_steps(tmp_path: Path) -> None:
    made = Making(tmp_path / "run", 3000.0)
    made.until_now(60_000.0)
    looking = watch(made.folder)
    looking.look()
    frame = looking.look()
    assert frame.step.now_ms == pytest.approx(60_000, rel=0.01)
    assert frame.window_ms > 8 * 60_000


def test_a_stretch_that_was_thinned_is_no_long_step(tmp_path: Path) -> None:
    made = Making(tmp_path / "run", 300.0)
    made.takes(25_000)
    made.store.drop("chunk", range(100, 300))
    follower = Follower(made.folder)
    follower.look()
    (history,) = follower.histories.kinds.values()
    assert history.longest_gap_ns == 10e6


def test_epochs_of_two_steps(tmp_path: Path) -> None:
    """The time between epochs is no step, however often there is one."""
    made = Making(tmp_path / "run", 400.0, epochs=10_000, per_epoch=2)
    for epoch in range(200):
        moment = made.at_ns
        made.write(events=[(moment, moment, "epoch", "begin", {"epoch": epoch})])
        made.takes(2, 10.0, piece=2)
        made.write(events=[(made.at_ns, made.at_ns, "epoch", "end", {"epoch": epoch, "logs": {"loss": 0.5}})])
        made.rest(0.5)
    follower = Follower(made.folder)
    follower.look()
    (history,) = follower.histories.kinds.values()
    assert history.quantile_ms(0.5) == pytest.approx(10)


def test_time_left_from_steps_and_from_epochs(tmp_path: Path) -> None:
    made = Making(tmp_path / "run", 100.0, epochs=3, per_epoch=1000)
    made.takes(500, 10.0)
    looking = watch(made.folder)
    done = looking.look().progress
    assert (done.epoch, done.epochs, done.steps_per_epoch) == (1, 3, 1000)
    assert done.left_ms == pytest.approx(2500 * 10, rel=0.05)
    # An epoch of 1000 steps and half a minute of validation took 40 s: so will the next ones.
    made.takes(500, 10.0)
    made.rest(30.0)
    made.write(events=[(made.at_ns, made.at_ns, "epoch", "begin", {"epoch": 1})])
    made.until_now(10.0)
    done = looking.look().progress
    inside_ms = looking.looking.follower.now_ns(True) / 1e6 - (made.start_ns / 1e6 + 41_000)
    assert done.epoch == 2
    assert done.left_ms == pytest.approx(max(40_000 - inside_ms, 0) + 40_000, rel=0.02)


def test_no_time_left_is_said_where_the_run_does_not_say_how_long_it_is(tmp_path: Path) -> None:
    made = Making(tmp_path / "run", 30.0, per_epoch=None)
    made.until_now()
    assert watch(made.folder).look().progress.left_ms is None


def test_time_left_of_a_loop_written_by_hand(tmp_path: Path) -> None:
    """Its text says how many steps there will be; a second without any in each hundred is in the pace."""
    made = Making(tmp_path / "run", 100.0, text="for step in range(10_000):\n    train_step(step)\n")
    for _ in range(20):
        made.takes(100, 10.0)
        made.rest(1.0)
    frame = watch(made.folder).look()
    done = frame.progress
    assert (done.steps, done.planned, done.loop, done.at_most) == (2000, 10_000, "train.py:1", False)
    assert done.left_ms == pytest.approx(8000 * 20, rel=0.06)
    assert "step 2,000 of 10,000 · about 3 min left (train.py:1)" in shown(frame)
    assert ", 3 min left" in frames.status_line(frame)


def test_time_left_is_an_upper_bound_where_a_loop_may_end_early(tmp_path: Path) -> None:
    text = "for step in range(10_000):\n    if train_step(step) < 0.1:\n        break\n"
    made = Making(tmp_path / "run", 30.0, text=text)
    made.takes(1000, 20.0)
    frame = watch(made.folder).look()
    assert frame.progress.at_most
    assert "step 1,000 of at most 10,000 · at most 3 min left (train.py:1)" in shown(frame)


def test_time_left_of_epochs_written_by_hand(tmp_path: Path) -> None:
    """How long the data set is, the text does not say; the first pass over it does."""
    text = "for epoch in range(4):\n    for x in data:\n        train_step(x)\n"
    made = Making(tmp_path / "run", 30.0, text=text, line=3)
    made.passes(1, 2)
    made.takes(500, 10.0)
    looking = watch(made.folder)
    assert looking.look().progress.left_ms is None
    made.rest(5.0)
    made.passes(2, 2)
    begun_ns = made.at_ns
    made.takes(300, 10.0)
    frame = looking.look()
    done = frame.progress
    assert (done.epoch, done.epochs, done.planned) == (2, 4, None)
    inside_ms = (looking.looking.follower.now_ns(True) - begun_ns) / 1e6
    assert done.left_ms == pytest.approx(max(10_000 - inside_ms, 0) + 20_000, rel=0.02)
    assert "epoch 2 of 4" in shown(frame)


@pytest.mark.parametrize(
    "text",
    [
        "for step in range(int(sys.argv[1])):\n    train_step(step)\n",
        "for step in range(100):\n    train_step(step)\n",  # more than that were taken
        "for step in range(10_000):\n    other_step(step)\n",
    ],
)
def test_no_time_left_is_said_where_the_text_does_not_say_it(tmp_path: Path, text: str) -> None:
    made = Making(tmp_path / "run", 30.0, text=text)
    made.takes(1000)
    done = watch(made.folder).look().progress
    assert (done.steps, done.planned, done.left_ms) == (1000, None, None)


def test_epochs_are_not_counted_where_some_were_thinned(tmp_path: Path) -> None:
    text = "for epoch in range(9):\n    for x in data:\n        train_step(x)\n"
    made = Making(tmp_path / "run", 30.0, text=text, line=3)
    for number in (1, 2, 4):
        made.passes(number, 2)
        made.takes(300, 10.0)
    done = watch(made.folder).look().progress
    assert (done.steps, done.epoch, done.left_ms) == (900, None, None)


def test_steps_of_one_loop_are_told_from_others_of_a_run_that_is_opened_late(tmp_path: Path) -> None:
    """Of a thinned run the recorder's count is believed, unless other functions may be in it."""
    made = Making(tmp_path / "run", 300.0, text="for step in range(100_000):\n    train_step(step)\n")
    made.takes(25_000)
    made.store.drop("chunk", range(100, 300))
    done = watch(made.folder).look().progress
    assert (done.steps, done.planned) == (25_000, 100_000)
    assert done.left_ms == pytest.approx(75_000 * 10, rel=0.02)
    other = {"site": ["/home/me/train.py", 7], "file": "/home/me/train.py", "line": 95}
    at = made.at_ns + 10_000_000 * np.arange(5000, dtype=np.int64)
    one = np.ones_like(at)
    made.write(names=[(9, "function", "other", other)])
    made.write(spans=np.stack((9 * one, at - 10**10, at - 10**10 + 1000, 77 * one, one), axis=1))
    assert watch(made.folder).look().progress.planned is None


def test_ended_lost_and_taken_away(tmp_path: Path) -> None:
    made = Making(tmp_path / "run", 30.0)
    made.until_now()
    made.write(facts={"child": {"pid": 2**22 + 1, "begun_ns": made.start_ns}})
    looking = watch(made.folder)
    assert looking.look().state is RunState.LOST
    made.write(facts={"child": {"pid": os.getpid(), "begun_ns": made.start_ns}})
    assert looking.look().state is RunState.RUNNING
    shutil.move(made.folder, tmp_path / "away")
    assert looking.look().state is RunState.CUT
    shutil.move(tmp_path / "away", made.folder)
    made.ends(3)
    frame = watch(made.folder).look()
    assert (frame.state, frame.exit_code) == (RunState.ENDED, 3)
    assert frame.step.now_ms == pytest.approx(10)


def test_a_process_that_came_later_by_the_same_number_is_not_the_run(tmp_path: Path) -> None:
    made = Making(tmp_path / "run", 30.0)
    made.about["start_time"] = 1_000_000.0
    made.until_now()
    (made.folder / "launch.json").write_text(__import__("json").dumps(made.about))
    assert watch(made.folder).look().state is RunState.LOST


def test_a_clock_that_is_set_does_not_kill_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour forward, as when a virtual machine has slept: by the time of day every process began later."""
    made = Making(tmp_path / "run", 30.0)
    made.until_now()
    made.write(
        facts={"child": {"pid": os.getpid(), "born": host_facts.process_birth(os.getpid()), "begun_ns": made.start_ns}}
    )
    noted = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: noted(self) + 3600.0)
    assert watch(made.folder).look().state is RunState.RUNNING


@pytest.mark.skipif(
    not host_facts.process_birth(os.getpid()), reason="the kernel does not count from the machine's start here"
)
def test_another_start_of_the_machine_or_of_a_process_is_not_the_run(tmp_path: Path) -> None:
    boot, ticks = host_facts.process_birth(os.getpid()).split()
    for born in (f"{boot} {int(ticks) - 1}", f"{boot[::-1]} {ticks}"):
        made = Making(tmp_path / born, 30.0)
        made.until_now()
        made.write(facts={"child": {"pid": os.getpid(), "born": born, "begun_ns": made.start_ns}})
        assert watch(made.folder).look().state is RunState.LOST
    assert host_facts.process_birth(2**22 + 1) == ""


def test_before_the_first_byte(tmp_path: Path) -> None:
    """`slowtrain run --live` looks before the script's process has made its file."""
    made = Making(tmp_path / "run", 5.0)
    for file in made.folder.glob("recording*"):
        file.unlink()
    assert watch(made.folder).look().state is RunState.STARTING


@pytest.mark.parametrize("what", ["nothing", "folder", "text"])
def test_no_recording(what: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    if what != "nothing":
        folder.mkdir()
    if what == "text":
        (folder / "recording.sqlite").write_text("no database at all, for all that it says")
    with pytest.raises(InputError, match=r"recording"):
        watch(folder).look()


def test_half_a_span_more(tmp_path: Path) -> None:
    made = Making(tmp_path / "run", 30.0)
    made.takes(100)
    looking = watch(made.folder)
    looking.look()
    made.store.begin()
    made.store.spans(np.array([STEP, 1, 2], dtype="<i8").tobytes())
    made.store.commit()
    with pytest.raises(InputError, match="damaged"):
        looking.look()
