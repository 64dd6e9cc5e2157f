"""Records in and out of files (JSON, JSON lines, Markdown), and checks of such files."""

from rote.bridges.checking import check_file
from rote.bridges.exports import FORMATS, export_records, write_export
from rote.bridges.imports import ImportReport, import_records
from rote.bridges.markdown_exports import MarkdownExport, export_markdown
from rote.bridges.markdown_imports import (
    MarkdownReport,
    import_markdown,
    is_markdown_path,
    validate_markdown,
)
from rote.bridges.validator import Problem, validate

__all__ = [
    "FORMATS",
    "ImportReport",
    "MarkdownExport",
    "MarkdownReport",
    "Problem",
    "check_file",
    "export_markdown",
    "export_records",
    "import_markdown",
    "import_records",
    "is_markdown_path",
    "validate",
    "validate_markdown",
    "write_export",
]
