"""Started through PYTHONPATH by the interpreter that runs the user's script, before the script.

The script is started as ``python script.py``, so everything is as it would be without us: ``__main__``, ``sys.argv``,
``sys.path[0]``, pickling, ``multiprocessing``.
"""

import os
import sys
import time


def _begin() -> None:
    begun_ns = time.perf_counter_ns()
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
    folder = os.environ.pop("SLOWTRAIN_RECORDING", None)
    user_path = os.environ.pop("SLOWTRAIN_PYTHONPATH", None)
    if user_path is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = user_path
    ours = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # type: ignore[import-not-found, unused-ignore]  # noqa: F401  the one that this file stood in front of, if there is any
    except ImportError as error:
        if error.name != "sitecustomize":
            raise  # to site, which reports the error, as it would without us
        sys.modules["sitecustomize"] = ours
    finally:
        if folder:
            _record(folder, begun_ns)


def _record(folder: str, begun_ns: int) -> None:
    try:
        from slowtrain.capture.process import recorder_setup

        recorder_setup.begin_recording(folder, begun_ns)
    except Exception as error:  # the script runs as it would without us; the parent reports the error
        try:
            with open(os.path.join(folder, "failed.txt"), "w") as file:
                file.write(f"{type(error).__name__}: {error}\n")
        except OSError:
            return


_begin()
