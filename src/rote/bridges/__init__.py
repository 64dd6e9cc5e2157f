"""Records in and out of files: JSON, JSON lines, and what is wrong with them."""

from rote.bridges.checking import check_file
from rote.bridges.exports import FORMATS, export_records, write_export
from rote.bridges.imports import ImportReport, import_records
from rote.bridges.validator import Problem, validate

__all__ = [
    "FORMATS",
    "ImportReport",
    "Problem",
    "check_file",
    "export_records",
    "import_records",
    "validate",
    "write_export",
]
