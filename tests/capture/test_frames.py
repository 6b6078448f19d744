"""A look at another thread's frames, while that thread goes on and garbage is collected."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import textwrap
import weakref
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

from slowtrain.capture.inspection import user_code
from slowtrain.capture.process import periodic_samples, recorder_setup

# Collections are frequent, and what runs in one of the sampler's lets the main thread go on meanwhile. Without
# frames.uncollected() Python 3.11.7 dies of it within seconds, or finds modules where frames should be.
STRESS = """
    import gc, sys, threading, time
    from pathlib import Path
    from slowtrain.capture.core.recorder import Recorder
    from slowtrain.capture.process.periodic_samples import StackSampler

    sampler = StackSampler(Recorder(Path(".")))
    faults, samples, looking = [], 0, 0

    def collected(phase, info):
        if threading.get_ident() == looking and phase == "start":
            time.sleep(0.002)

    def look():
        global samples, looking
        looking = threading.get_ident()
        while True:
            try:
                sampler()
                samples += 1
            except Exception as error:
                faults.append(repr(error))
            time.sleep(0.0005)

    class Node:
        pass

    def deep(left):
        first, second, third = sys, gc, threading
        nodes = [Node(), Node()]
        nodes[0].me = nodes[0]
        return deep(left - 1) if left else None

    def other(left):
        a, b, c, d, e, f = sys, gc, threading, time, sys, gc
        for _ in range(200):
            pass
        return other(left - 1) if left else None

    gc.set_threshold(40)
    gc.callbacks.append(collected)
    threading.Thread(target=look, daemon=True).start()
    while samples < 600 and not faults:
        deep(80)
        other(90)
    print(samples, sorted(set(faults)))
"""


def test_frames_of_a_running_thread_stay_frames(tmp_path: Path) -> None:
    script = tmp_path / "stress.py"
    script.write_text(textwrap.dedent(STRESS))
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, cwd=tmp_path, timeout=170, check=False
    )
    assert done.returncode == 0, done.stderr
    samples, _, faults = done.stdout.partition(" ")
    assert int(samples) >= 600
    assert faults.strip() == "[]"


def _guarded(method: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(method)
    def error_handler(*args: object) -> None:
        method(*args)

    return error_handler


def _call(self: object) -> None: ...


class _Loader:
    __call__ = _guarded(_call)


def test_an_object_that_is_called_is_named_by_its_class() -> None:
    about = user_code.describe_function(_Loader())
    assert about["qualname"] == "_Loader"
    assert about["file"] == __file__
    assert about["line"] == _call.__code__.co_firstlineno


def test_a_look_at_variables_keeps_nothing_alive_and_takes_nothing_from_the_script() -> None:
    class Large:
        pass

    def look(frame: FrameType) -> bool:
        known = frame.f_locals
        found = "large" in known
        user_code.release_variables(frame, known)
        return found

    def forgets() -> bool:
        large: Large | None = Large()
        there = weakref.ref(large)
        assert look(sys._getframe())
        large = None
        return there() is None

    def asked() -> dict[str, object]:
        large = Large()
        there, mine = weakref.ref(large), locals()
        assert there() is large
        assert look(sys._getframe())
        return mine

    assert forgets()
    assert "large" in asked()


@pytest.mark.parametrize(
    ("file", "mine"),
    [
        ("/home/me/train.py", True),
        ("/home/me/packages/models.py", True),
        ("/home/me/.local/lib/python3.11/site-packages/keras/src/trainers/trainer.py", False),
        ("/sw/tensorflow/2.15/lib/python3/dist-packages/tensorflow/python/eager/context.py", False),
        (os.__file__, False),
        (user_code.__file__, False),
    ],
)
def test_packages_are_nobody_s_own_wherever_they_were_installed(file: str, mine: bool) -> None:
    """Those of `pip install --user` and those on PYTHONPATH lie in no folder that the interpreter tells of."""
    assert user_code.is_user_file(file) is mine


def test_folders_that_packages_were_installed_into_are_nobodys_own(tmp_path: Path) -> None:
    """`pip install --target`, and the folder on PYTHONPATH, as clusters and function services have it."""
    for name in ("theirs/keras-3.15.1.dist-info", "mine", "both/keras-3.15.1.dist-info"):
        (tmp_path / name).mkdir(parents=True)
    path = os.pathsep.join(str(tmp_path / name) for name in ("theirs", "mine", "both", "gone"))
    assert user_code.package_folders(path, [str(tmp_path / "both")]) == (f"{tmp_path / 'theirs'}{os.sep}",)
    assert user_code.package_folders("", []) == ()


def test_the_projects_own_modules_are_no_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Started in a home folder, which holds what `pip install --user` installs as well."""
    for name, file in (("mine", "lib/mine.py"), ("theirs", ".local/lib/python3/site-packages/theirs.py")):
        path = tmp_path / file
        path.parent.mkdir(parents=True)
        path.write_text("")
        module = ModuleType(name)
        module.__file__ = str(path)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.chdir(tmp_path)
    assert [Path(file).name for file in recorder_setup._module_digests()] == ["mine.py"]
    monkeypatch.chdir("/")
    assert os.path.realpath(user_code.__file__) not in recorder_setup._module_digests()


def test_frames_of_a_thread_that_goes_on_are_read_once() -> None:
    """It may return between two looks at the same frame: nothing is above it from then on."""

    class Frame:
        f_code = compile("", "library.py", "exec")

        def __init__(self, *above: Any) -> None:
            self._above = [*above, None]

        @property
        def f_back(self) -> Any:
            return self._above.pop(0)

    leaf: Any = Frame(Frame())
    assert periodic_samples._callee_file(Frame(), leaf) == "library.py"  # type: ignore[arg-type]
