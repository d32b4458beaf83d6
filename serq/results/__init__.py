"""From records to answers: statistics, frames, and the report in text, HTML and JSON."""

from serq.results.report import Report
from serq.results.statistics import Summary

__all__ = ["Report", "Summary"]
