"""Traces: the reads, calls and outputs of a run, to be checked and compared. Pure functions."""

from rote.traces.checking import check_trace
from rote.traces.comparing import compare_traces
from rote.traces.models import ModelConfig, model_config_id
from rote.traces.profiles import ToolProfile, tool_runtime_profile_hash
from rote.traces.reports import Failure, Report
from rote.traces.retrieval_events import retrieval_event
from rote.traces.shapes import output_shape_hash, register_shape, structural_form

__all__ = [
    "Failure",
    "ModelConfig",
    "Report",
    "ToolProfile",
    "check_trace",
    "compare_traces",
    "model_config_id",
    "output_shape_hash",
    "register_shape",
    "retrieval_event",
    "structural_form",
    "tool_runtime_profile_hash",
]
