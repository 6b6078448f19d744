"""A script runs as it would without us: the same output, the same errors, the same exit code."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from slowtrain.capture.core import span_rows
from slowtrain.capture.process.launch import BOOTSTRAP
from slowtrain.recording import reader

from . import running

SURROUNDINGS = """
    import os, signal, sys, threading
    print(__name__, __file__, sys.argv, sys.orig_argv[1:], sys.path, os.getcwd(), sys.flags)
    print(sys.stdin.read())
    print(sorted(os.environ.items()))
    print(threading.enumerate(), threading.active_count(), sys.gettrace(), sys.getprofile())
    print(sorted(globals()), sys.excepthook is sys.__excepthook__)
    print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    print([signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGQUIT)])
"""
ERRORS = {
    "raise": "def f(x):\n    return 1 / x\nf(0)",
    "chain": "def f():\n    try:\n        {}['a']\n"
    "    except KeyError as e:\n        raise ValueError('b') from e\nf()",
    "context": "try:\n    int('x')\nexcept ValueError:\n    [].pop()",
    "syntax": "print('never')\ndef f(:\n    pass",
    "recursion": "def f(n):\n    return f(n + 1)\nf(0)",
    "exit 0": "import sys\nsys.exit(0)",
    "exit 300": "import sys\nsys.exit(300)",
    "exit text": "raise SystemExit('no data')",
    "_exit": "import os\nprint('a', flush=True)\nos._exit(5)",
    "interrupt": "raise KeyboardInterrupt",
    "kill": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "segfault": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)",
    "thread": "import threading\ndef f():\n    raise ValueError('in a thread')\n"
    "t = threading.Thread(target=f, name='mine')\nt.start()\nt.join()",
    "no module": "import a_module_that_is_not_there",
    "hook": "import sys\ndef hook(kind, value, trace):\n    print('mine', value)\n"
    "    sys.__excepthook__(kind, value, trace)\n"
    "sys.excepthook = hook\nraise ValueError('x')",
    "atexit": "import atexit\natexit.register(print, 'bye')\natexit.register(lambda: 1 / 0)\nraise ValueError('x')",
    "broken import": "import tensorflow",
    "group": "raise ExceptionGroup('two', [ValueError(1), ExceptionGroup('b', [KeyError(2)])])",  # since Python 3.11
}
HABITS = {
    "fork": """
        import os
        pid = os.fork()
        if pid == 0:
            print("child", flush=True)
            raise SystemExit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """,
    "multiprocessing": """
        import multiprocessing as mp, os, pickle
        class Item:
            def __init__(self, n): self.n = n
            def __eq__(self, other): return self.n == other.n
        def work(item):
            return Item(item.n ** 2), sorted(k for k in os.environ if k.startswith(("SLOW", "PYTHONP")))
        if __name__ == "__main__":
            assert pickle.loads(pickle.dumps(Item(2))) == Item(2)
            for method in ("fork", "spawn"):
                with mp.get_context(method).Pool(2) as pool:
                    print(method, [(i.n, e) for i, e in pool.map(work, [Item(3), Item(4)])])
    """,
    "executors": """
        from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
        def double(n): return 2 * n
        if __name__ == "__main__":
            for kind in (ThreadPoolExecutor, ProcessPoolExecutor):
                with kind(2) as pool: print(list(pool.map(double, range(4))))
    """,
    "subprocess": """
        import subprocess, sys
        print(subprocess.run([sys.executable, "-c", "import sys; print(sys.path, 'slowtrain' in sys.modules)"],
                             capture_output=True, text=True).stdout)
    """,
    "settrace": """
        import gc, sys
        seen = []
        def tracer(frame, event, arg):
            seen.append((event, frame.f_code.co_name, frame.f_lineno))
            return tracer
        def f():
            a = 1
            return a
        gc.disable()  # told of by Python where hot.c was not compiled
        sys.settrace(tracer)
        f()
        sys.settrace(None)
        print(seen)
    """,
    "threads": """
        import threading, time
        t = threading.Thread(target=time.sleep, args=(0.1,))
        t.start()
        while threading.active_count() > 1: time.sleep(0.01)
        print("alone", threading.enumerate())
    """,
    "signals": """
        import os, signal, time
        got = []
        signal.signal(signal.SIGUSR1, lambda n, f: got.append(n))
        signal.signal(signal.SIGALRM, lambda n, f: got.append(n))
        os.kill(os.getpid(), signal.SIGUSR1)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        time.sleep(0.1)
        print(got)
    """,
    "exec": """
        import os, sys
        if "again" not in sys.argv:
            sys.stdout.flush()
            os.execv(sys.executable, [sys.executable, __file__, "again"])
        print(sys.argv, sorted(k for k in os.environ if k.startswith(("SLOW", "PYTHONP"))))
    """,
    "warnings": """
        import warnings
        def old():
            warnings.warn("old", UserWarning, stacklevel=2)
        old()
    """,
}


def same(tmp_path: Path, script: Path) -> None:
    alone = running.plain(script, "-a", "b c", stdin="hello")
    guest = running.recorded(tmp_path / "run", script, "-a", "b c", stdin="hello")
    assert said(guest) == said(alone)


def said(done: running.Done) -> tuple[str, str, int]:
    """All that can be seen of a run, without addresses, which differ from one run to the next."""
    out, err = (re.sub(r"0x[0-9a-f]+|started \d+", "…", text) for text in (done.out, done.err))
    return out, err, done.code


def test_surroundings(tmp_path: Path) -> None:
    same(tmp_path, running.write(tmp_path, SURROUNDINGS))


@pytest.mark.parametrize("name", ERRORS)
def test_ends(name: str, tmp_path: Path) -> None:
    running.write(tmp_path, "def helper():\n    raise OSError('no such driver')\nhelper()\n", "tensorflow/__init__.py")
    same(tmp_path, running.write(tmp_path, ERRORS[name]))


@pytest.mark.parametrize("name", HABITS)
def test_habits(name: str, tmp_path: Path) -> None:
    same(tmp_path, running.write(tmp_path, HABITS[name]))


@pytest.mark.skipif(span_rows.hot is None, reason="hot.c was not compiled: collections are told of by Python")
def test_a_tracer_of_the_scripts_sees_no_collection_of_ours(tmp_path: Path) -> None:
    """Collections come anywhere, so also between a script's ``settrace`` and what it traces."""
    script = running.write(
        tmp_path,
        """
        import gc, sys
        seen = []
        sys.settrace(lambda frame, event, arg: seen.append(frame.f_code.co_name))
        gc.collect()
        sys.settrace(None)
        print(seen)
        """,
    )
    done = running.recorded(tmp_path / "run", script)
    assert (done.out, done.err, done.code) == ("[]\n", "", 0)
    assert reader.read_recording(done.folder).lanes["gc"]


@pytest.mark.parametrize("forks", [30, pytest.param(150, marks=pytest.mark.slow)])
def test_many_forks_while_we_write(forks: int, tmp_path: Path) -> None:
    """A fork finds our thread anywhere, in the middle of a transaction too; no child may wait for it."""
    script = running.write(
        tmp_path,
        """
        import gc, os, sys
        codes = set()
        for i in range(int(sys.argv[1])):
            gc.collect(0)
            pid = os.fork()
            if pid == 0:
                raise SystemExit(4)  # through the interpreter's own end, where objects are freed
            codes.add(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        print(codes)
        """,
    )
    done = running.recorded(tmp_path / "run", script, str(forks), timeout_s=60.0 + forks)
    assert (done.out, done.err, done.code) == ("{4}\n", "", 0)
    raw = reader.read_recording(done.folder)
    assert len(raw.lanes["gc"]) >= forks
    assert "end_ns" in raw.facts


def test_a_module(tmp_path: Path) -> None:
    running.write(tmp_path, SURROUNDINGS, "pkg/mod.py")
    running.write(tmp_path, "print('init', __name__)", "pkg/__init__.py")
    alone = running.plain("pkg.mod", "-x", module=True, cwd=tmp_path, stdin="s")
    guest = running.recorded(tmp_path / "run", "pkg.mod", "-x", module=True, cwd=tmp_path, stdin="s")
    assert said(guest) == said(alone)
    assert "init pkg" in alone.out
    assert alone.code == 0


def test_a_module_that_is_not_there(tmp_path: Path) -> None:
    alone = running.plain("pkg.mod", module=True, cwd=tmp_path)
    guest = running.recorded(tmp_path / "run", "pkg.mod", module=True, cwd=tmp_path)
    assert said(guest) == said(alone)


def test_a_folder_with_a_main(tmp_path: Path) -> None:
    running.write(tmp_path, SURROUNDINGS, "app/__main__.py")
    same(tmp_path, tmp_path / "app")


@pytest.mark.parametrize(
    "text",
    ["import sys\nsys.mine = 'set by the user'\nprint('user site')", "import not_there", "1 / 0"],
    ids=["works", "cannot import", "raises"],
)
def test_a_sitecustomize_of_the_users(text: str, tmp_path: Path) -> None:
    running.write(tmp_path, text, "site/sitecustomize.py")
    script = running.write(
        tmp_path, "import sys, os\nprint(getattr(sys, 'mine', 0), os.environ['PYTHONPATH'], sys.path)"
    )
    path = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", ""), ""])
    alone = running.plain(script, env={"PYTHONPATH": path})
    guest = running.recorded(tmp_path / "run", script, env={"PYTHONPATH": path})
    assert (guest.out, guest.code) == (alone.out.replace("user site\n", "user site\n" * 2, 1), alone.code)
    assert guest.err == alone.err * 2  # the process that starts it has a site of its own
    assert (tmp_path / "run" / "recording.sqlite").exists()


def test_modules_of_the_user_go_before_ours(tmp_path: Path) -> None:
    """Names that we use too, in the folder of the script."""
    for name in ("recorder", "state", "errors", "model", "trace", "profile", "code"):
        running.write(tmp_path, f"mine = {name!r}", f"{name}.py")
    same(
        tmp_path,
        running.write(
            tmp_path, "import recorder, state, errors, model, trace, profile, code\nprint(code.mine, trace.mine)"
        ),
    )


@pytest.mark.parametrize("where", ["nowhere", "file"])
def test_a_recording_that_cannot_be_made(where: str, tmp_path: Path) -> None:
    """The folder goes before the script starts: the script does not notice."""
    script = running.write(tmp_path, "import gc\ngc.collect()\nprint('done')")
    place = tmp_path / "run"
    if where == "file":
        place.mkdir()
        (place / "recording.sqlite").mkdir()  # nothing can be opened there
    environment = {"SLOWTRAIN_RECORDING": str(place)}
    path = os.pathsep.join([str(BOOTSTRAP), os.environ.get("PYTHONPATH", "")])
    done = running.plain(script, env={**environment, "PYTHONPATH": path})
    assert (done.out, done.err, done.code) == ("done\n", "", 0)
    assert (place / "failed.txt").exists() == (where == "file")
