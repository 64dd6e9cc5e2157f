"""Traces: what a run read, called and produced, in a form that can be checked and compared. Pure."""

from rote.traces.checking import check_trace
from rote.traces.comparing import compare_traces
from rote.traces.reports import Failure, Report
from rote.traces.retrieval_events import retrieval_event

__all__ = ["Failure", "Report", "check_trace", "compare_traces", "retrieval_event"]
