"""A daily log that was once written as Markdown is read, and written, in the same way for ever."""

from pathlib import Path
from typing import Any

from rote.bridges.daily_logs import parse_log, render_log
from rote.bridges.pages import parse_page

FILE = Path(__file__).with_name("daily-log-1.md")
RECORD: dict[str, Any] = {
    "namespace": "daily_log",
    "record_kind": "note",
    "record_id": "2026-03-20",
    "created_at": "2026-03-20T09:00:00.000000Z",
    "updated_at": "2026-03-20T17:30:00.000000Z",
    "ttl_seconds": 86400,
    "payload": {
        "title": "A day\u2028with `marks`",
        "entries": [
            {"at": "2026-03-20T12:00:00+02:00", "text": "asked about [teapots](x)"},
            {"text": "[2026-03-20T09:00:00Z] is no time\n\n- \\ ---\n`{}`\n", "price": 20.5},
            {"ts": "2026-03-20T08:00:00Z", "text": "carriage\r\nreturn & &#13; &amp;#13;"},
            {"time": "2026-03-20T08:00:00Z", "at": "later", "`": "`"},
            {"text": ""},
            {},
        ],
    },
    "metadata": {"source": "import.markdown", "tags": ["tea"]},
}


def test_the_file_is_the_record_and_the_record_is_the_file() -> None:
    data = FILE.read_bytes()
    assert parse_log(parse_page(FILE.name, data)) == RECORD
    assert render_log(RECORD).encode() == data
