"""The way out of an open run."""

from __future__ import annotations


class LeaveOpenRun(Exception):  # noqa: N818 - a signal, not an error
    """Something came that only engines on the clock know how to do; the run begins anew there."""
