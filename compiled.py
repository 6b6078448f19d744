"""Compiles ``hot.c`` into the wheel where there is a C compiler, on Linux. Without it nothing is missing but speed."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULE = "slowtrain.capture.core.hot"
FOLDER = "src/slowtrain/capture/core"


class Compiled(BuildHookInterface[Any]):
    """Found by hatchling. The module is made beside its source, for editable installs."""

    def initialize(self, _version: str, build_data: dict[str, Any]) -> None:
        if sys.platform != "linux":
            return
        try:
            made = compiled(Path(self.root))
        except (Exception, SystemExit) as error:  # noqa: BLE001  no compiler, no headers: distutils' own errors
            for old in (Path(self.root) / FOLDER).glob(f"hot.{sys.implementation.cache_tag}*.so"):
                old.unlink()  # of other sources than these
            warnings.warn(f"{MODULE} could not be compiled, the wrappers in Python do its work: {error}", stacklevel=1)
            return
        build_data["artifacts"].append(f"/{FOLDER}/{made.name}")
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


def compiled(root: Path) -> Path:
    from setuptools import Distribution, Extension

    given = Extension(MODULE, [str(root / FOLDER / "hot.c")], extra_compile_args=["-O2", "-g0", "-std=gnu11"])
    command: Any = Distribution({"ext_modules": [given]}).get_command_obj("build_ext")
    command.build_temp = command.build_lib = str(root / "build" / "compiled" / str(sys.implementation.cache_tag))
    command.ensure_finalized()
    command.run()
    made = Path(command.get_ext_fullpath(MODULE))
    return made.replace(root / FOLDER / made.name)
