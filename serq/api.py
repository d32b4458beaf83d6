"""The library: compile a program, check one, run one. ``run`` shows the whole way in four calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import msgspec

from serq.errors import CompileError, UsageError
from serq.ir import nodes
from serq.results import Report
from serq.runtime.trace import Trace, read_trace
from serq.source import Diagnostic, SourceFile, SourceMap, read_text

Sets = Mapping[str, str | float]
"""New values for `let`s: a number, or the text of a constant expression."""
Progress = Callable[[float, int], None]
"""Called now and then during a run with the model time reached and the number of events so far."""


@dataclass(frozen=True)
class Program:
    """A compiled program: what runs, where its statements stand in a text, and what looks unintended."""

    ir: nodes.Program
    source_map: SourceMap | None = None
    warnings: tuple[Diagnostic, ...] = ()
    trace_file: Path | None = None
    """The trace that a run reads: the one given to :func:`compile`, else the program's own (R-B-082)."""

    def to_json(self) -> str:
        """The program as the text of an IR file. Its trace, if any, is named and not included."""
        from serq.ir.codec import encode

        return encode(self.ir).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Program:
        """The program of an IR file; needs no parser. Raises CompileError for what is not a legal one."""
        from serq.ir.codec import decode

        ir = decode(text.encode() if isinstance(text, str) else text)
        return cls(ir, trace_file=_trace_file(ir, Path()))

    def read_trace(self) -> Trace | None:
        """The trace that the program replays, None where it replays none. Raises DataError."""
        return None if self.trace_file is None else read_trace(self.trace_file)


def compile(
    path: str | Path | None = None,
    *,
    source: str | None = None,
    sets: Sets | None = None,
    seed: int | None = None,
    horizon: float | None = None,
    warmup: float | None = None,
    arrivals: int | None = None,
    trace: str | Path | None = None,
) -> Program:
    """Compile a program file (`.sq`, or `.json` for an IR file), or a text given as ``source``.

    The other arguments replace what the program says: ``sets`` the values of `let`s, ``seed``, ``horizon``,
    ``warmup`` and ``arrivals`` the run block, ``trace`` the trace file. Times are in the program's unit.

    Raises CompileError with every independent mistake, DataError for a file that cannot be read, and
    UsageError for arguments that cannot be meant.
    """
    program = _load(path, source, sets)
    settings = {"seed": seed, "horizon": horizon, "warmup": warmup, "arrivals": arrivals}
    given = {name: value for name, value in settings.items() if value is not None}
    _refuse_impossible(seed=seed, horizon=horizon, warmup=warmup, arrivals=arrivals)
    ir = msgspec.structs.replace(program.ir, run=msgspec.structs.replace(program.ir.run, **given))
    _require_window(ir.run)
    trace_file = program.trace_file if trace is None else Path(trace)
    return Program(ir, program.source_map, program.warnings, trace_file)


def run(program: Program | str | Path, *, progress: Progress | None = None) -> Report:
    """Run a program, or the file at a path, to its end. Raises RunError, with what was recorded by then."""
    from serq.runtime.simulation import simulate  # type: ignore[import-not-found, unused-ignore]

    if not isinstance(program, Program):
        program = compile(program)
    trace = program.read_trace()
    records = simulate(program.ir, trace=trace, source_map=program.source_map, progress=progress)
    return Report(records, program.warnings)


def check(
    path: str | Path | None = None, *, source: str | None = None, sets: Sets | None = None
) -> list[Diagnostic]:
    """What is wrong with a program, and what looks unintended, without running it; empty: nothing.

    Takes what :func:`compile` takes. Raises DataError for a file that cannot be read.
    """
    try:
        return list(compile(path, source=source, sets=sets).warnings)
    except CompileError as error:
        return list(error.diagnostics)


def _load(path: str | Path | None, source: str | None, sets: Sets | None) -> Program:
    if (path is None) == (source is None):
        raise UsageError("give either the path of a program or its text (`source=`)")
    if path is None:
        return _link(SourceFile("<source>", source or ""), sets, None)
    file = Path(path)
    text = read_text(file, "program")
    if file.suffix != ".json":
        return _link(SourceFile(str(path), text), sets, file.parent)
    if sets:
        raise UsageError(f"{path}: an IR file has no `let`s left to set; set them in the program's text")
    program = Program.from_json(text)
    return Program(program.ir, trace_file=_trace_file(program.ir, Path()))


def _link(source: SourceFile, sets: Sets | None, folder: Path | None) -> Program:
    from serq.grammar import link_program

    def load(name: str) -> SourceFile:
        file = (folder or Path()) / name
        return SourceFile(str(file), read_text(file, "program"))

    linked = link_program(source, sets=sets, loader=None if folder is None else load)
    return Program(
        linked.program, linked.source_map, linked.warnings, _trace_file(linked.program, folder or Path())
    )


def _trace_file(ir: nodes.Program, folder: Path) -> Path | None:
    return None if ir.workload.trace is None else folder / ir.workload.trace


def _refuse_impossible(
    *, seed: int | None, horizon: float | None, warmup: float | None, arrivals: int | None
) -> None:
    """What no program could mean, whatever its own run block says."""
    if seed is not None and seed < 0:
        raise UsageError(f"a seed of {seed}: it must be a whole number, 0 or more")
    if horizon is not None and not 0 < horizon < float("inf"):
        raise UsageError(f"a horizon of {horizon:g}: it must be positive and finite")
    if warmup is not None and not (warmup >= 0 and isfinite(warmup)):
        raise UsageError(f"a warm-up of {warmup:g}: it must be 0 or more, and finite")
    if arrivals is not None and arrivals < 1:
        raise UsageError(f"{arrivals} arrivals: there must be at least one")


def _require_window(settings: nodes.RunSettings) -> None:
    """A run needs an end, and a warm-up that is over before it (R-B-090)."""
    if settings.horizon is None:
        raise CompileError(
            [
                Diagnostic(
                    "no-horizon",
                    "the program does not say how long to run",
                    owner="run",
                    help="write `run { horizon 600; }`, or give a horizon (`--horizon 600`)",
                )
            ]
        )
    if not settings.warmup < settings.horizon:
        message = f"the warm-up ({settings.warmup:g}) must end before the horizon ({settings.horizon:g})"
        raise CompileError([Diagnostic("warmup-not-below-horizon", message, owner="run")])
