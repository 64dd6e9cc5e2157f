"""Schemas that stored values must conform to. Pure: the caller reads registry, schemas and values."""

from rote.schemas.registry import (
    REGISTRY_ID,
    RESERVED_PREFIX,
    SCHEMA_PREFIX,
    Registry,
    parse_registry,
)
from rote.schemas.validator import Validator, compile_schema
from rote.schemas.violations import Violation

__all__ = [
    "REGISTRY_ID",
    "RESERVED_PREFIX",
    "SCHEMA_PREFIX",
    "Registry",
    "Validator",
    "Violation",
    "compile_schema",
    "parse_registry",
]
