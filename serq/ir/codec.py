"""IR files: a program as JSON, without loss, and back with every check."""

from __future__ import annotations

from serq.ir.nodes import Program


def encode(program: Program) -> bytes:
    """The program as a JSON file: UTF-8, one fixed form, so that equal programs give equal bytes."""
    raise NotImplementedError


def decode(data: bytes) -> Program:
    """The program of a JSON file.

    Raises:
        CompileError: for anything that is not a legal program of this IR version.
    """
    raise NotImplementedError
