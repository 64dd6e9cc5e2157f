"""Traces: what a run read, called and produced, in a form that can be checked and compared. Pure."""

from rote.traces.models import ModelConfig, model_config_id
from rote.traces.profiles import ToolProfile, tool_runtime_profile_hash
from rote.traces.shapes import output_shape_hash, register_shape, structural_form

__all__ = [
    "ModelConfig",
    "ToolProfile",
    "model_config_id",
    "output_shape_hash",
    "register_shape",
    "structural_form",
    "tool_runtime_profile_hash",
]
