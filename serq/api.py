"""The library: compile a program, check one, run one. ``run`` shows the whole way in four calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from os import PathLike
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from serq import arguments
from serq.errors import CompileError, RunError, UsageError
from serq.ir import nodes
from serq.ir.validate import require_horizon, validate
from serq.ir.walk import descendants
from serq.profiling import Profile
from serq.results import Report
from serq.results.money import checked_price
from serq.runtime.records import Records
from serq.runtime.trace import Trace, TraceSource, open_trace, read_trace
from serq.source import Diagnostic, Place, SourceFile, SourceMap, as_text, read_text

if TYPE_CHECKING:
    from serq.results.run_folder import PartFormat, RunWriter

Sets = Mapping[str, str | float]
"""New values for `let`s: a number, or the text of a constant expression."""
EngineMode = Literal["auto", "fast", "planned", "reference"]
"""How `vllm` stages run: planned ahead where that is possible, always or refused, never."""
ENGINE_MODES: Final = ("auto", "fast", "planned", "reference")
Settings = Mapping[str, float]
"""New values for parts of the run block."""
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
    folder: Path = Path()
    """Where the files lie that its executors read, unless they are named by absolute paths."""
    lets: Mapping[str, float] = field(default_factory=dict)
    """The values of its `let`s, which `sets` can replace; none is left in an IR file."""
    price_per_hour: float | None = None
    """What a device costs an hour; None: reports say nothing of money."""

    def to_json(self) -> str:
        """The program as the text of an IR file. Its trace, if any, is named and not included."""
        from serq.ir.codec import encode

        return encode(self.ir).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Program:
        """The program of an IR file; needs no parser. Raises CompileError for what is not a legal one."""
        return _decode(text.encode() if isinstance(text, str) else text, {})

    def report(self, records: Records) -> Report:
        """The report of a run of this program, which answers what the program asks."""
        report = Report(records, self.warnings, self.ir, self.source_map)
        report.price_per_hour = self.price_per_hour
        return report

    def read_trace(self) -> Trace | None:
        """The trace that the program replays, None where it replays none. Raises DataError."""
        return None if self.trace_file is None else read_trace(self.trace_file)

    def open_trace(self) -> TraceSource | None:
        """The trace as a run reads it: a long one stays in its file. Raises DataError."""
        return None if self.trace_file is None else open_trace(self.trace_file)


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
    slos: Sequence[str] = (),
    price_per_hour: float | None = None,
) -> Program:
    """Compile a program file (`.sq`, `.json` for an IR file, `-` for standard input), or a ``source``.

    The other arguments replace what the program says: ``sets`` the values of `let`s, ``seed``, ``horizon``,
    ``warmup`` and ``arrivals`` the run block, ``trace`` the trace file. Times are in the program's unit.
    ``slos`` adds objectives, each as it stands between `slo` and `;`. ``price_per_hour`` is what a device
    costs an hour: reports then say what the run costs (docs/metrics.md).

    Raises CompileError with every independent mistake, DataError for a file that cannot be read, and
    UsageError for arguments that cannot be meant (WrongTypeError for those of another type).
    """
    settings = _settings(seed=seed, horizon=horizon, warmup=warmup, arrivals=arrivals)
    path = None if path is None else arguments.path("path", path)
    sets = None if sets is None else arguments.lets("sets", sets)
    slos = arguments.texts("slos", slos, "ttft p99 < 2")
    trace = None if trace is None else arguments.refuse_program(arguments.path("trace", trace))
    try:
        program = _load(path, source, sets, settings, slos)
        require_horizon(program.ir)
    except CompileError as error:
        name = "<source>" if path is None else str(path)
        raise CompileError([_named(diagnostic, name) for diagnostic in error.diagnostics]) from None
    if price_per_hour is not None:
        program = replace(program, price_per_hour=checked_price(program.ir, price_per_hour))
    return program if trace is None else _replaying(program, trace)


def run(
    program: Program | str | Path | None = None,
    *,
    steps: bool = False,
    progress: Progress | None = None,
    profile: Profile | None = None,
    out: RunWriter | str | Path | None = None,
    engine: EngineMode = "auto",
    **settings: Any,
) -> Report:
    """Run a program, or the file at a path, to its end. Raises RunError, with what was recorded by then.

    ``settings`` are those of :func:`compile`, which takes them beside a path: ``serq.run("engine.sq",
    seed=2)``; a text is given as ``source``.

    ``steps`` keeps what every step of a `vllm` stage is made of, so that the report tells how it lay on the
    device; without it a run is faster. ``profile`` is told how long the phases of the run took. ``out`` keeps
    the run in a folder while it goes on: a new folder, or an open one (see :func:`open_run_folder`).
    ``engine`` says how `vllm` stages run: "auto" plans steps ahead where that is possible, "fast" raises
    RunError for a stage where it never is, "reference" forms every step by itself. What is recorded is the
    same.
    """
    if engine not in ENGINE_MODES:
        raise UsageError(f"engine={engine!r}: it is one of {', '.join(ENGINE_MODES)}")
    steps = arguments.flag("steps", steps)
    profile = profile or Profile()
    with profile.phase("load"):
        from serq.runtime.codegen.model import model_of
        from serq.runtime.simulation import simulate

    with profile.phase("compile"):
        program = _compiled(program, settings)
    writer = _writer(out, program)
    with profile.phase("load"):
        trace = program.open_trace()
    with profile.phase("compile"):
        model_of(program.ir)
    try:
        with profile.phase("run"):
            records = simulate(
                program.ir,
                trace=trace,
                keep_rows=steps,
                source_map=program.source_map,
                progress=progress,
                sink=writer,
                folder=program.folder,
                engine=engine,
            )
    except RunError as error:
        if error.records is not None:
            error.report = _report(program, error.records, writer)
        raise
    with profile.phase("report"):
        return _report(program, records, writer)


SETTINGS: Final = ("seed", "horizon", "warmup", "arrivals", "trace", "price_per_hour")
"""The arguments of :func:`compile` that every call has which runs programs."""
_COMPILED_WITH: Final = ("source", "sets", *SETTINGS, "slos")
_RUN_WITH: Final = ("steps", "progress", "profile", "out", "engine")


def _compiled(program: Program | str | Path | None, settings: Mapping[str, Any]) -> Program:
    """What to run. Raises UsageError for settings of a program that is compiled already."""
    arguments.only_known("run", settings, (*_COMPILED_WITH, *_RUN_WITH))
    if isinstance(program, Program):
        if settings:
            name = next(iter(settings))
            raise UsageError(f"{name}: the program is compiled already; give {name} to serq.compile")
        return program
    if not isinstance(program, str | PathLike) and (program is not None or "source" not in settings):
        raise arguments.wrong("program", program, "a path, or what serq.compile gives")
    return compile(program, **settings)


def _writer(out: RunWriter | str | Path | None, program: Program) -> RunWriter | None:
    """The run folder that was meant, opened where only its path was given."""
    if out is None:
        return None
    if isinstance(out, str | PathLike):
        return open_run_folder(out, program)
    from serq.results.run_folder import RunWriter

    if not isinstance(out, RunWriter):
        raise arguments.wrong("out", out, "the path of a folder, or what serq.open_run_folder gives")
    return out


def _report(program: Program, records: Records, out: RunWriter | None) -> Report:
    """The report of a run, which ``out`` keeps in its folder."""
    if out is None:
        return program.report(records)
    return out.finish(records, program.warnings, program.source_map, program.price_per_hour)


def open_run_folder(
    folder: str | Path, program: Program, part_format: PartFormat = "parquet", *, overwrite: bool = False
) -> RunWriter:
    """A folder in which :func:`run` keeps a run of ``program``; :func:`read_run` reads it again.

    ``part_format`` is ``"parquet"`` or ``"csv"``; ``overwrite`` removes an earlier run from the folder.
    Raises UsageError where the folder holds something else or a package is missing, DataError where it
    cannot be written.
    """
    from serq.results.run_folder import RunWriter

    if not isinstance(program, Program):
        raise arguments.wrong("program", program, "what serq.compile gives")
    flag = arguments.flag("overwrite", overwrite)
    return RunWriter.open(arguments.path("folder", folder), program.ir, part_format, overwrite=flag)


def read_run(folder: str | Path) -> Report:
    """The report of the run in ``folder``; its tables stay there until they are asked for.

    A run that was killed has what it had written. Raises DataError for a folder that holds no run.
    """
    from serq.results.run_folder import read_run

    return read_run(arguments.path("folder", folder))


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


def _settings(**given: float | None) -> dict[str, float]:
    """The settings that were given. Raises UsageError for what no program could mean."""
    whole = ("seed", "arrivals")
    settings = {
        name: arguments.whole(name, value) if name in whole else arguments.number(name, value)
        for name, value in given.items()
        if value is not None
    }
    horizon, warmup = settings.get("horizon", 1.0), settings.get("warmup", 0.0)
    if not 0 < horizon < inf:
        raise UsageError(f"a horizon of {horizon:g}: it must be positive and finite")
    if not 0 <= warmup < inf:
        raise UsageError(f"a warm-up of {warmup:g}: it must be 0 or more, and finite")
    if not 0 <= settings.get("seed", 0) < 2**64:
        raise UsageError(f"a seed of {settings['seed']}: it must be a whole number from 0 to 2**64 - 1")
    if settings.get("arrivals", 1) < 1:
        raise UsageError(f"{settings['arrivals']} arrivals: there must be at least one")
    return settings


def _load(
    path: str | Path | None, source: str | None, sets: Sets | None, settings: Settings, slos: Sequence[str]
) -> Program:
    if source is not None and path is None:
        arguments.text("source", source, "stage server : fifo; …")
        return _link(SourceFile("<source>", source), sets, settings, slos, None)
    if path is None or source is not None:
        raise UsageError("give either the path of a program or its text (`source=`)")
    if "\n" in str(path) or (";" in str(path) and not Path(path).exists()):
        raise UsageError("this is the text of a program, not a path: give it as `source=`")
    arguments.refuse_trace(Path(path))
    name, text, is_ir = _read_program(path)
    if not is_ir:
        return _link(SourceFile(name, text), sets, settings, slos, Path(path).parent)
    if sets:
        raise UsageError(f"{path}: an IR file has no `let`s left to set; set them in the program's text")
    if slos:
        raise UsageError(f"{path}: objectives cannot be added to an IR file; give the program's text")
    return _decode(text.encode(), settings)


def _read_program(path: str | Path) -> tuple[str, str, bool]:
    """The name and the text of a program, and whether it is an IR file; `-` is standard input."""
    if str(path) != "-":
        return str(path), read_text(path, "program"), Path(path).suffix == ".json"
    text = as_text(sys.stdin.buffer.read(), "standard input")
    return "<stdin>", text, text.lstrip().startswith("{")


def _named(diagnostic: Diagnostic, name: str) -> Diagnostic:
    """The diagnostic with the name of its program, where it has no place in a text."""
    if diagnostic.source is not None:
        return diagnostic
    return replace(diagnostic, owner=f"{name}: {diagnostic.owner}" if diagnostic.owner else name)


def _link(
    source: SourceFile, sets: Sets | None, settings: Settings, slos: Sequence[str], folder: Path | None
) -> Program:
    from serq.grammar import link_program

    def load(name: str, user: SourceFile) -> SourceFile:
        file = normpath(Path(user.name).parent / name)
        return SourceFile(file, read_text(file, "program"))

    loader = None if folder is None else load
    linked = link_program(source, sets=sets, settings=settings, loader=loader, slos=slos)
    _check_executors(linked.program, linked.executors)
    trace_file = _trace_file(linked.program, folder or Path())
    return Program(
        linked.program, linked.source_map, linked.warnings, trace_file, folder or Path(), linked.lets
    )


def _decode(data: bytes, settings: Settings) -> Program:
    from serq.ir.codec import decode

    ir = decode(data, settings)
    _check_executors(ir, {})
    warnings = tuple(problem.diagnostic for problem in validate(ir))  # decoding has refused errors
    return Program(ir, warnings=warnings, trace_file=_trace_file(ir, Path()))


def _check_executors(ir: nodes.Program, places: Mapping[str, Place]) -> None:
    """Raise CompileError for executors that no stage could use, such as one of an unknown model."""
    if not ir.executors:
        return
    from serq.kernels.registry import check_executor

    found = []
    for executor in ir.executors:
        try:
            check_executor(executor)
        except RunError as error:
            place = places.get(executor.name)
            found.append(
                Diagnostic(
                    "E439",
                    error.message,
                    source=None if place is None else place.source,
                    span=None if place is None else place.span,
                    owner=f"executor `{executor.name}`" if place is None else None,
                    help=None if error.diagnostic is None else error.diagnostic.help,
                )
            )
    if found:
        raise CompileError(found)


def _replaying(program: Program, trace: Path) -> Program:
    """The program with another trace, and a warning if it reads none (R-B-082)."""
    reads = any(isinstance(node, nodes.Turn | nodes.Traced) for node in descendants(program.ir))
    if reads:
        return replace(program, trace_file=trace)
    message = f"the program reads nothing of {trace}: it has neither `arrive trace` nor `turn;`"
    warning = Diagnostic("W608", message, severity="warning", owner="--trace")
    return replace(program, trace_file=trace, warnings=(*program.warnings, warning))


def _trace_file(ir: nodes.Program, folder: Path) -> Path | None:
    return None if ir.workload.trace is None else folder / ir.workload.trace
