"""What is built: a pure wheel, or with SERQ_COMPILE=1 one whose loops are machine code.

See docs/development.md, "A compiled wheel".
"""

from __future__ import annotations

import os
import runpy
import shutil
import sys
from contextlib import chdir
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "SERQ_COMPILE"
COMPILERS = ("mypy[mypyc]>=2.4,<3", "setuptools>=75")
MYPY_OPTIONS = (
    "--config-file=",
    f"--cache-dir={os.devnull}",
    "--no-site-packages",
    "--ignore-missing-imports",
    "--follow-imports=silent",
)
"""Types were checked before, with everything installed. Here only what is compiled is looked at, and nothing
depends on what else is installed.
"""
SAME_FLOATS = "-ffp-contract=off"
"""A product and a sum are two roundings, as in Python: never one instruction with one."""


def is_wanted() -> bool:
    """Whether the environment asks for a compiled wheel. Exits where it says neither yes nor no."""
    value = os.environ.get(VARIABLE, "")
    if value not in ("", "0", "1"):
        sys.exit(f"{VARIABLE}={value}: it is 1 for a compiled wheel; 0, empty or absent for a pure one")
    return value == "1"


class CompiledLoops(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles the modules that `serq.compiled` lists, and puts them beside their sources."""

    PLUGIN_NAME = "custom"
    _folder: str | None = None

    def dependencies(self) -> list[str]:
        """Nothing is needed for a pure wheel."""
        return list(COMPILERS) if is_wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, where that is wanted."""
        if not is_wanted():
            return
        if version == "editable":
            sys.exit(f"{VARIABLE}=1 compiles a wheel; an editable install runs the sources: drop one of them")
        self._folder = mkdtemp(prefix="serq-compiled-")
        folder = Path(self._folder)
        with chdir(self.root):
            compile_into(folder)
        for file in sorted((folder / "lib").rglob("*")):
            if file.is_file():
                build_data["force_include"][str(file)] = file.relative_to(folder / "lib").as_posix()
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Leave nothing behind."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def compile_into(folder: Path) -> None:
    """Write machine code of the listed modules below ``folder / "lib"``. Exits where no compiler does it."""
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext
    from setuptools.errors import BaseError, CCompilerError, CompileError, LinkError

    modules = runpy.run_path("serq/compiled.py")["MODULES"]
    sources = [name.replace(".", "/") + ".py" for name in modules]
    extensions = mypycify(
        [*MYPY_OPTIONS, *sources],
        group_name="serq",
        target_dir=str(folder / "c"),
        debug_level="0",
    )
    for extension in extensions:
        if sys.platform != "win32":
            extension.extra_compile_args.append(SAME_FLOATS)
    command = build_ext(Distribution({"name": "serq", "ext_modules": extensions}))
    command.build_lib, command.build_temp = str(folder / "lib"), str(folder / "temp")
    command.ensure_finalized()
    try:
        command.run()
    except (BaseError, CCompilerError, CompileError, LinkError) as error:
        sys.exit(
            f"{VARIABLE}=1 needs a C compiler and the headers of {sys.executable}: {error}\n"
            "Install them (Debian: build-essential and python3-dev; macOS: xcode-select --install; Windows: "
            f"the build tools of Visual Studio), or leave {VARIABLE} away: the pure wheel computes the same."
        )
