"""Profiles where people have them: files, session folders, log folders, and folders without any."""

from __future__ import annotations

import filecmp
import gzip
import os
from pathlib import Path

import pytest

from slowtrain.errors import InputError
from slowtrain.profile import profile_files
from slowtrain.profile.format import xplane

TRACES = Path(__file__).parents[2].parent / "shared" / "traces"


def make(path: Path, content: bytes = b"x", modified_s: float | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if modified_s is not None:
        os.utime(path, (modified_s, modified_s))
    return path


def session(log: Path, name: str, *hosts: str, modified_s: float = 1e9) -> Path:
    for host in hosts or ("host",):
        make(log / "plugins" / "profile" / name / f"{host}.xplane.pb", host.encode(), modified_s)
    return log / "plugins" / "profile" / name


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        profile_files.find_sessions(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---- finding ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["host.xplane.pb", "host.xplane.pb.gz", "saved by hand.pb", "anything"])
def test_a_file_is_a_session_of_one_host_whatever_its_name(tmp_path: Path, name: str) -> None:
    file = make(tmp_path / name)
    assert profile_files.find_sessions(file) == [profile_files.Session(name, tmp_path, (file,))]


@pytest.mark.parametrize(
    "given", ["run/train/plugins/profile/2026_01_31_12_00_00", "run/train/plugins/profile", "run/train", "run", "."]
)
def test_every_folder_that_leads_to_a_session_will_do(tmp_path: Path, given: str) -> None:
    folder = session(tmp_path / "run" / "train", "2026_01_31_12_00_00", "worker-1", "worker-0")
    (found,) = profile_files.find_sessions(tmp_path / given)
    assert (found.name, found.folder) == (folder.name, folder)
    assert [file.name for file in found.files] == ["worker-0.xplane.pb", "worker-1.xplane.pb"]


def test_the_newest_comes_first_by_the_time_in_the_name_even_if_the_files_were_copied_later(tmp_path: Path) -> None:
    session(tmp_path / "a", "2026_01_31_12_00_00", modified_s=1.9e9)
    session(tmp_path / "b", "2026_02_01_09_30_00", modified_s=1.8e9)
    session(tmp_path / "a", "2025_12_31_23_59_59", modified_s=2.0e9)
    names = [s.name for s in profile_files.find_sessions(tmp_path)]
    assert names == ["2026_02_01_09_30_00", "2026_01_31_12_00_00", "2025_12_31_23_59_59"]


def test_sessions_with_names_of_the_users_own_go_by_their_files(tmp_path: Path) -> None:
    for name, modified_s in (("healthy", 3e8), ("slow", 5e8), ("2026_99_99_12_00_00", 4e8)):
        session(tmp_path, name, modified_s=modified_s)
    assert [s.name for s in profile_files.find_sessions(tmp_path)] == ["slow", "2026_99_99_12_00_00", "healthy"]


def test_what_lies_beside_a_profile_is_no_host(tmp_path: Path) -> None:
    folder = session(tmp_path, "s", "host")
    for name in ("ALL_HOSTS.op_stats.pb", "host.trace.json.gz", "host.hlo_proto.pb", ".host.xplane.pb.part"):
        make(folder / name)
    assert [file.name for file in profile_files.find_sessions(tmp_path)[0].files] == ["host.xplane.pb"]


def test_a_gzipped_copy_is_not_a_second_host(tmp_path: Path) -> None:
    folder = session(tmp_path, "s", "a")
    make(folder / "a.xplane.pb.gz")
    make(folder / "b.xplane.pb.gz")
    assert [file.name for file in profile_files.find_sessions(tmp_path)[0].files] == ["a.xplane.pb", "b.xplane.pb.gz"]


def test_the_folder_one_is_in_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(session(tmp_path, "here"))
    assert [s.name for s in profile_files.find_sessions(Path())] == ["here"]


# ---- bounds -----------------------------------------------------------------------------------------------------


LAYOUTS = {  # where TensorBoard, SageMaker's debugger and Vertex AI put profiles
    "tensorboard": "logs/20240101-120000/train/plugins/profile/2024_01_01_12_00_00",
    "old tensorboard": "logs/train/plugins/profile/2020-05-01_12-00-00",
    "sagemaker": "bucket/job-2024/profiler-output/framework/tensorflow/detailed_profiling/2024010112/000000000/"
    "plugins/profile/2024_01_01_12_00_00",
    "vertex": "staging/aiplatform-custom-training-2024-01-01-12:00:00.000/logs/1/train/plugins/profile/"
    "2024_01_01_12_00_00",
    "very deep": "/".join("abcdefghijklmnopqrstuvwxyz") + "/plugins/profile/2024_01_01_12_00_00",
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_profiles_are_found_however_deep_they_lie(tmp_path: Path, layout: str) -> None:
    make(tmp_path / LAYOUTS[layout] / "algo-1.xplane.pb")
    (found,) = profile_files.find_sessions(tmp_path)
    assert found.folder == tmp_path / LAYOUTS[layout]


def test_where_the_looking_ends_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_files, "MAX_ENTRIES", 20)
    found = session(tmp_path / "a", "s")
    for i in range(30):
        make(tmp_path / "a" / "images" / f"{i}.png")
        make(tmp_path / "b" / f"{i}.png")
    looked = profile_files.search_sessions(found.parent.parent)
    assert len(looked.sessions) == 1
    assert not looked.notes
    assert "among the first 20 files and folders" in refusal(tmp_path)
    make(tmp_path / "0.xplane.pb")
    looked = profile_files.search_sessions(tmp_path)
    assert [s.folder for s in looked.sessions] == [tmp_path]
    assert looked.notes == ("only the first 20 files and folders were searched: there may be newer profiles",)


def test_other_profiles_are_named_beside_the_newest(tmp_path: Path) -> None:
    for year in range(2020, 2026):
        session(tmp_path / str(year), f"{year}_01_01_00_00_00")
    said = profile_files.other_sessions_note(profile_files.find_sessions(tmp_path))
    assert said.startswith("this is the newest of 6 profiles, 2025_01_01_00_00_00; --list shows the others (")
    assert "2024_01_01_00_00_00" in said
    assert "2 more" in said


def test_links_and_other_forms_beside_a_profile_are_told(tmp_path: Path) -> None:
    folder = session(tmp_path, "s")
    (folder / "b.xplane.pb").symlink_to(folder / "host.xplane.pb")
    make(tmp_path / "viewed" / "host.trace.json.gz")
    links, viewed = profile_files.search_sessions(tmp_path).notes
    assert links == "links to profiles are not followed: 1"
    assert viewed.startswith("folders that contain only a trace viewer's JSON are left out: ")


def test_a_trace_viewers_json_counts_where_nothing_else_is_there(tmp_path: Path) -> None:
    for name in ("host.trace.json.gz", "host.trace.json"):
        make(tmp_path / "s" / name)
    assert [f.name for s in profile_files.find_sessions(tmp_path) for f in s.files] == ["host.trace.json"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    folder = session(tmp_path / "log", "s")
    (folder / "round").symlink_to(tmp_path / "log", target_is_directory=True)
    assert len(profile_files.find_sessions(tmp_path / "log")) == 1
    make(tmp_path / "linked" / "note.txt")
    (tmp_path / "linked" / "a.xplane.pb").symlink_to(folder / "host.xplane.pb")
    assert "links, which are not followed" in refusal(tmp_path / "linked")
    # But what the user names is what the user means.
    (tmp_path / "link").symlink_to(tmp_path / "log", target_is_directory=True)
    assert len(profile_files.find_sessions(tmp_path / "link")) == 1
    assert len(profile_files.find_sessions(tmp_path / "linked" / "a.xplane.pb")) == 1


def test_hidden_folders_are_not_entered(tmp_path: Path) -> None:
    session(tmp_path / ".cache", "s")
    assert "no profile" in refusal(tmp_path)


# ---- nothing there ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], "the folder is empty"),
        (["s/local.trace"], "legacy traces (*.trace) without the *.xplane.pb"),
        (["s/host.overview_page.pb"], "*.pb files but none named *.xplane.pb"),
        (["train/events.out.tfevents.1700000000.host"], "TensorBoard's event files but no profile"),
        (["train.py", "data/a.csv"], "no profile (*.xplane.pb) among its 3 entries"),
    ],
    ids=["empty", "legacy", "analysis", "events", "others"],
)
def test_a_folder_without_a_profile_says_what_it_holds(tmp_path: Path, names: list[str], said: str) -> None:
    for name in names:
        make(tmp_path / name)
    message = refusal(tmp_path)
    assert message.startswith(f"{tmp_path}: ")
    assert said in message


def test_paths_that_are_nothing(tmp_path: Path) -> None:
    assert "no such file or folder" in refusal(tmp_path / "absent")
    (tmp_path / "dangling").symlink_to(tmp_path / "absent")
    assert "the link's target does not exist" in refusal(tmp_path / "dangling")
    assert "cannot be read" in refusal(tmp_path / ("x" * 300))
    os.mkfifo(tmp_path / "pipe")
    assert "not a file or folder" in refusal(tmp_path / "pipe")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0)
    assert "check its permissions" in refusal(tmp_path)


# ---- one file under two names -------------------------------------------------------------------------------------


def test_byte_identical_files_are_one_host(tmp_path: Path) -> None:
    contents = {"a": b"one", "b": b"two", "c": b"one", "d": b"longer", "e": b"one", "f": b"two"}
    at = {name: make(tmp_path / name, content) for name, content in contents.items()}
    kept, dropped = profile_files.distinct_files(at.values())
    assert kept == [at["a"], at["b"], at["d"]]
    assert dropped == [(at["c"], at["a"]), (at["e"], at["a"]), (at["f"], at["b"])]


def test_files_of_different_sizes_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filecmp, "cmp", lambda *files, **_: pytest.fail(f"{files} were read"))
    files = [make(tmp_path / name, content) for name, content in (("a", b"1"), ("b", b"22"))]
    assert profile_files.distinct_files(files) == (files, [])


def test_a_host_that_vanishes_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        profile_files.distinct_files([tmp_path / "absent"])


# ---- other files, as the reader of profiles meets them ------------------------------------------------------------

JSON_TRACE = b'{"displayTimeUnit":"ns","metadata":{},"traceEvents":[' + b'{"ph":"X"},' * 900
EVENT_FILE = bytes([24, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 9]) + bytes(8) + b"\x1a\rbrain.Event:2"
OTHERS: dict[str, tuple[bytes, str]] = {
    "host.trace.json": (JSON_TRACE, "a trace viewer's JSON"),
    "host.trace.json.gz": (gzip.compress(JSON_TRACE), "a trace viewer's JSON"),
    "config.json": (b'\xef\xbb\xbf\n [{"a": 1}]', "JSON"),
    "notes.txt": ("\nperçu\n".encode() * 800, "text"),
    "page.html": (b"<!doctype html><p>x", "text"),
    "weights.h5": (b"\x89HDF\r\n\x1a\n" + bytes(90), "HDF5"),
    "model.keras": (b"PK\x03\x04" + bytes(90), "a zip archive"),
    "model.pkl": (b"\x80\x04\x95\x10\0\0\0\0\0\0\0}", "a Python pickle"),
    "events.out.tfevents.1": (EVENT_FILE, "TensorBoard's event file"),
    "checkpoint": (b'model_checkpoint_path: "ckpt-1"\n', "list of checkpoints"),
    "ckpt-1.index": (b"\x00\x00\x04\x0a\x08\x01\x1a\x00", "part of a TensorFlow checkpoint"),
    "ckpt-1.data-00000-of-00001": (bytes(range(256)), "part of a TensorFlow checkpoint"),
    "saved_model.pb": (b"\x08\x01\x12\x02\x0a\x00", "part of a SavedModel"),
    "renamed.pb": (b"\x08\x01\x12\x07\x0a\x05\x12\x03abc\x00", "part of a SavedModel"),
    "local.trace": (
        b"\n0\x08\x01\x12,\n\r/device:GPU:0\x10\x01\x1a\x19\x08\0",
        "a legacy trace; give the *.xplane.pb in the same folder",
    ),
    "frozen.pb": (b"\n\x16\n\x05dense\x12\x0bPlaceholder*\x00", "a graph (GraphDef) without times"),
    "host.kernel_stats.pb": (
        b"\n\x08\n\x04gemm\x10\x02",
        "an analysis of a profile, written by TensorBoard's profiler",
    ),
    "recording.sqlite": (b"SQLite format 3\x00" + bytes(90), "SQLite"),
    "zeros.xplane.pb.gz": (gzip.compress(bytes(5000)), "not a protobuf message"),  # gigabytes of them are not unzipped
    "profile.xplane.pb.zst": (b"\x28\xb5\x2f\xfd" + bytes(9), "zstd; unpack it first"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_file_of_another_kind_is_named(tmp_path: Path, name: str) -> None:
    content, kind = OTHERS[name]
    with pytest.raises(InputError) as caught:
        xplane.read_space(make(tmp_path / name, content))
    assert str(caught.value).startswith(f"{tmp_path / name}: not a readable profile: it seems to be ")
    assert kind in str(caught.value)
    assert str(caught.value).endswith("give a *.xplane.pb, or the log folder that holds it")


def test_the_analyses_beside_a_profile_are_named() -> None:
    files = sorted(TRACES.glob("tf-gpu-*/*.pb"))
    if not files:
        pytest.skip(f"the shared traces are not at {TRACES}")
    for file in files:
        with pytest.raises(InputError, match="seems to be an analysis of a profile, written by TensorBoard"):
            xplane.read_space(file)


def test_no_real_profile_is_taken_for_another_kind() -> None:
    files = [file for file in TRACES.rglob("*.xplane.pb") if file.name != "corrupt.xplane.pb"]
    if not files:
        pytest.skip(f"the shared traces are not at {TRACES}")
    assert all(xplane.read_space(file).planes for file in files)
