"""A package as text for a prompt."""

from typing import Any

import pytest

import rote
from rote.errors import InvalidInput


def package_of(*items: tuple[str, str | None, str]) -> dict[str, Any]:
    selected = [
        {"memory_id": id, "ts_utc": time, "excerpt": excerpt} for id, time, excerpt in items
    ]
    return {"selection": {"selected": selected}}


PACKAGE = package_of(
    ('<a&"b">', "2026-01-31T12:00:00.500000Z", 'x < y & "z"\n > w'),
    ("later", "2026-02-01T00:00:00Z", " two\n  lines "),
    ("no time", None, "first"),
    ("empty", "2026-01-01T00:00:00Z", ""),
    ("before", "2026-01-31T12:00:00Z", "earlier"),
)


def test_tags_hold_nothing_that_could_be_taken_for_a_tag() -> None:
    assert rote.package_text(PACKAGE).startswith(
        '<memory id="&lt;a&amp;&quot;b&quot;&gt;" at="2026-01-31T12:00:00.500000Z">\n'
        "x &lt; y &amp; &quot;z&quot;\n &gt; w\n</memory>\n"
        '<memory id="later" at="2026-02-01T00:00:00Z">\n two\n  lines \n</memory>\n'
        '<memory id="no time">\nfirst\n</memory>\n'
    )


def test_plain_lines_have_single_blanks_and_days() -> None:
    assert rote.package_text(PACKAGE, style="plain", order="time") == (
        "- first\n"
        "- (2026-01-31) earlier\n"
        '- (2026-01-31) x < y & "z" > w\n'
        "- (2026-02-01) two lines\n"
    )


def test_a_package_of_the_seed_has_no_times() -> None:
    package = {"selection": {"selected": [{"memory_id": "a", "excerpt": "b"}]}}
    assert rote.package_text(package) == '<memory id="a">\nb\n</memory>\n'
    assert rote.package_text(package, style="plain") == "- b\n"


@pytest.mark.parametrize("bad", [{"style": "xml"}, {"order": "score"}, {"style": None}])
def test_a_style_and_an_order_are_those_that_there_are(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="must be one of"):
        rote.package_text(PACKAGE, **bad)


@pytest.mark.parametrize("package", [{}, None, [], {"selection": 5}, package_of((5, None, "x"))])  # type: ignore[arg-type]
def test_what_is_no_package_is_refused(package: Any) -> None:
    with pytest.raises(InvalidInput, match="package that `retrieve` returned"):
        rote.package_text(package)
