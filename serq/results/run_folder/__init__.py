"""A run kept in a folder while it goes on: part files of its tables, and what it came to."""

from serq.results.run_folder.part_files import PART_FORMATS, PartFormat
from serq.results.run_folder.stored_run import read_run
from serq.results.run_folder.writer import RunWriter

__all__ = ["PART_FORMATS", "PartFormat", "RunWriter", "read_run"]
