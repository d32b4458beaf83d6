"""How commands end: 0 done, 1 a program or a run failed, 2 a wrong call, 130 stopped from the keyboard."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Any, NoReturn

import click

from serq.errors import CompileError, SerqError

FAILED = 1
INTERRUPTED = 130


class ExitingGroup(click.Group):
    """A group of commands whose errors are one message on stderr and an exit code, never a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn what it raises into an exit."""
        show_what_the_terminal_cannot()
        try:
            return super().invoke(ctx)
        except CompileError as error:
            click.echo(str(error), err=True)
            sys.exit(error.exit_code)
        except SerqError as error:
            fail(str(error), error.exit_code)
        except RecursionError:
            fail("the program is nested too deeply", FAILED)
        except KeyboardInterrupt:
            fail("interrupted", INTERRUPTED)
        except BrokenPipeError:
            abandon_output()
            sys.exit(FAILED)
        except OSError as error:
            abandon_output()
            fail(f"the output cannot be written ({error.strerror})", FAILED)


def show_what_the_terminal_cannot() -> None:
    """Escape characters that the encoding of the terminal lacks (the ± of a report in ASCII), and go on."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def fail(message: str, code: int) -> NoReturn:
    """Print ``message`` as an error and end the process with ``code``."""
    click.echo(f"error: {message}", err=True)
    sys.exit(code)


def abandon_output() -> None:
    """Drop what is not yet printed: the reader went away (`serq run … | head`), or the disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
