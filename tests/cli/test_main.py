"""The command as a user meets it: in a process of its own."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from array import array
from pathlib import Path

import pytest

import slowtrain
from slowtrain.recording.store import Store

COMMAND = [sys.executable, "-m", "slowtrain"]
# Goal: 200 ms. A machine that runs tests for others at the same time gets some room; an import
# of NumPy or TensorFlow, which is what this guards against, is caught by name below.
FRAMEWORKS = {"tensorflow", "keras", "tf_keras", "jax", "torch"}
HEAVY = {*FRAMEWORKS, "msgspec", "numpy", "rich", "psutil", "wrapt", "pynvml"}
TESTS = Path(__file__).parent.parent
PROFILE = TESTS / "trace" / "data" / "v100.xplane.pb"
LOG = TESTS / "dumps" / "data" / "tf221-mlp.log.gz"
FACTS = TESTS / "machine" / "fixtures" / "healthy_t4.json"
MOST_SECONDS = 0.2 if "CI" not in os.environ else 0.6


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False)


def in_process_of_its_own(code: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Runs ``code`` where a verb named ``explain`` can be replaced before ``main``."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, env=environment
    )


def faulty(statement: str) -> str:
    """A program in which the verb ``explain`` does ``statement``."""
    return (
        "import sys, slowtrain.cli as cli, slowtrain.cli.explain as verb, slowtrain.errors as errors\n"
        f"def fail(args):\n    {statement}\n"
        "verb.main = fail\nsys.exit(cli.main(['explain']))\n"
    )


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"slowtrain {slowtrain.__version__}\n", "")


def test_the_installed_command_is_the_same() -> None:
    script = Path(sys.executable).with_name("slowtrain")
    if not script.exists():
        pytest.skip("slowtrain is run from source, not installed")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == f"slowtrain {slowtrain.__version__}\n"


@pytest.mark.parametrize("arguments", [(), ("--help",)], ids=["nothing", "--help"])
def test_help_lists_the_verbs(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 0
    assert "explain" in done.stdout
    assert done.stderr == ""


def test_every_verb_has_help_with_examples() -> None:
    for verb in re.findall(r"^    ([a-z-]+) ", run("--help").stdout, re.MULTILINE):
        done = run(verb, "--help")
        assert done.returncode == 0, verb
        assert f"slowtrain {verb}" in done.stdout.split("examples:")[1], verb


@pytest.mark.bench
@pytest.mark.parametrize(
    "arguments", [("--help",), ("explain", "input/unprefetched-input"), ("report", "nowhere")], ids=lambda a: a[0]
)
def test_it_answers_at_once(arguments: tuple[str, ...]) -> None:
    """The least of several: the processor's time, which others on this machine lengthen little, and not each time."""
    run(*arguments)  # writes the .pyc files
    seconds = []
    for _ in range(7):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run(*arguments)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if min(seconds) < MOST_SECONDS:
            return
    pytest.fail(f"it took {seconds} s of the processor")


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    """Neither by what computes nothing, nor before what is missing is said."""
    recorded(tmp_path / "run")
    (tmp_path / "run" / "checkup.json").write_text("{}", encoding="utf-8")
    lines = [
        "--help", "explain", "explain input/unprefetched-input", "explain missing", "run --help", "runs --out .",
        f"diagnose --list {PROFILE}", f"oom {LOG}", "oom missing", "run missing", "report missing",
        "compare run missing", "compare missing run", "diagnose missing", "cut missing --from-ms 0 --out cut",
        "watch missing", "watch --out missing", "runs --out missing", "lint --recording missing .", "lint missing",
    ]  # fmt: skip
    found = imported(HEAVY, lines, tmp_path)
    assert {
        line: heavy - ({"msgspec", "rich"} if line.startswith("oom") else set()) for line, heavy in found.items()
    } == {line: set() for line in lines}


@pytest.fixture
def numeric(tmp_path: Path) -> list[str]:
    """Command lines that compute, in the folder where what they name is."""
    recorded(tmp_path / "run")
    text = "import tensorflow as tf\n\ntf.data.Dataset.range(3).map(print)\n"
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    return [
        "report run", "compare run run", "watch --once run", f"diagnose {PROFILE}", "lint train.py",
        "lint --recording run train.py", f"doctor --from {FACTS}", f"cut {PROFILE} --from-ms 0 --out cut.xplane.pb",
    ]  # fmt: skip


def test_no_framework_is_imported_to_answer(numeric: list[str], tmp_path: Path) -> None:
    lines = [*numeric, "doctor --from missing"]
    assert imported(FRAMEWORKS, lines, tmp_path) == {line: set() for line in lines}


def test_an_answer_is_whole_where_an_error_follows_it(numeric: list[str], tmp_path: Path) -> None:
    """The process ends at once, but not before what it printed was handed on."""
    command = [*COMMAND, *numeric[0].split(), "--html", "launch.json/report.html"]
    (tmp_path / "launch.json").write_text("{}", encoding="utf-8")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert "Checked and not found" in done.stdout
    assert done.stderr.startswith("slowtrain: cannot write launch.json/report.html")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_the_answer_does_not_wait_for_the_page(tmp_path: Path) -> None:
    """The page is a pipe here, which takes nothing until somebody reads."""
    page = tmp_path / "page"
    recorded(tmp_path / "run")
    os.mkfifo(page)
    command = [*COMMAND, "report", "--html", "page", "run"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout is not None
        said = iter(process.stdout.readline, "")
        assert any("Checked and not found" in line for line in said)
        assert "</html>" in page.read_text(encoding="utf-8")
        assert [*said][-1] == "report: page\n"
    assert process.returncode == 0


def test_a_reader_that_has_gone_takes_nothing_from_the_page(tmp_path: Path) -> None:
    recorded(tmp_path / "run")
    with subprocess.Popen([*COMMAND, "report", "run"], stdout=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout is not None
        process.stdout.close()
    assert "</html>" in (tmp_path / "run/report.html").read_text(encoding="utf-8")


def imported(watched: set[str], lines: list[str], folder: Path) -> dict[str, set[str]]:
    """Command line -> which of these modules a process of its own has imported when it is done, in ``folder``.

    Lines that name something ``missing`` are told so, and all others answered.
    """
    code = f"import sys, slowtrain.cli as cli\nprint(cli.main(), *({watched!r} & set(sys.modules)), file=sys.stderr)"
    found = {}
    for line in lines:
        command = [sys.executable, "-c", code, *line.split()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=folder)
        code_and_modules = done.stderr.splitlines()[-1].split()
        assert code_and_modules[0] in ({"2"} if "missing" in line else {"0", "1"}), done.stderr
        found[line] = set(code_and_modules[1:])
    return found


def recorded(folder: Path) -> None:
    """A recording of forty steps."""
    folder.mkdir()
    store = Store(folder)
    store.begin()
    store.names([(1, "step", "train", {}), (2, "loop", "fit", {})])
    rows = [(1, 10**9 + i * 10**7, 10**9 + i * 10**7 + 8 * 10**6, 77, 1) for i in range(40)]
    store.spans(array("q", [n for row in [*rows, (2, 10**9, 14 * 10**8, 77, 0)] for n in row]).tobytes())
    store.fact("child", {"pid": 1, "begun_ns": 5 * 10**8})
    store.commit()
    (folder / "launch.json").write_text('{"start_ns": 400000000, "end_ns": 2000000000}', encoding="utf-8")
    store.close()


@pytest.mark.parametrize(
    "arguments", [("frobnicate",), ("--frobnicate",), ("explain", "a", "b")], ids=["verb", "option", "too many"]
)
def test_misuse_is_one_line(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch(r"slowtrain: .*; see 'slowtrain.* --help'\n", done.stderr)


@pytest.mark.parametrize(("kind", "code"), [("SlowtrainError", 1), ("InputError", 2), ("EnvironmentMissing", 3)])
def test_an_error_is_one_line_with_its_code(kind: str, code: int, tmp_path: Path) -> None:
    done = in_process_of_its_own(faulty(f"raise errors.{kind}('a file\\nis \\x1b[31mbad; do this')"), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "slowtrain: a file is ?[31mbad; do this\n")


def test_a_fault_of_ours_shows_no_traceback(tmp_path: Path) -> None:
    done = in_process_of_its_own(faulty("raise ZeroDivisionError('of ours')"), tmp_path)
    assert done.returncode == 70
    match = re.fullmatch(
        r"slowtrain: internal error \(ZeroDivisionError: of ours\); please report, details in (.*)\n", done.stderr
    )
    assert match
    details = Path(match.group(1)).read_text(encoding="utf-8")
    assert "Traceback" in details
    assert slowtrain.__version__ in details


def test_a_fault_of_ours_with_no_room_for_details(tmp_path: Path) -> None:
    code = "import tempfile\ntempfile.NamedTemporaryFile = lambda *a, **k: open('/nowhere/at/all', 'w')\n"
    done = in_process_of_its_own(code + faulty("raise KeyError('x')"), tmp_path)
    assert (done.returncode, done.stderr) == (70, "slowtrain: internal error (KeyError: 'x'); please report\n")


def test_control_c(tmp_path: Path) -> None:
    # A shell's background job starts with SIGINT ignored, and so do its children.
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heard}\n" + faulty("print('ready', flush=True); import time; time.sleep(60)")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(90) == 130
        assert process.stderr.read() == b""


def test_a_reader_that_has_seen_enough(tmp_path: Path) -> None:
    code = faulty("[print('x' * 1000) for _ in range(1000)]")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait(90) == 141
        assert process.stderr.read() == b""


def test_a_terminal_without_unicode(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-c", faulty("print('3 × 4'); return 0")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )
    assert (done.returncode, done.stdout) == (0, "3 ? 4\n")
