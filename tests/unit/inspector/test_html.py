import re
from pathlib import Path

import pytest

import rote.inspector
from rote.errors import InternalError
from rote.inspector.html import a, div, exact_text, joined, name, pre, text

SOURCES = sorted(Path(rote.inspector.__file__).parent.rglob("*.py"))


def test_text_is_escaped_and_html_is_not() -> None:
    made = div("<b>", joined(["&", div("'\"")]), None, title='"<')
    assert made.markup == ('<div title="&quot;&lt;">&lt;b&gt;&amp;<div>&#x27;&quot;</div></div>')


def test_only_one_file_makes_html() -> None:
    makers = {path.name for path in SOURCES if re.search(r"\bHtml\(", path.read_text())}
    assert makers == {"html.py"}


def test_a_name_shows_everything_that_cannot_be_seen() -> None:
    assert name("a\u202e\u200b\u00a0\t\u3164b").markup == (
        '<bdi dir="auto">a'
        + "".join(
            f'<span class="unseen">\\u{{{code}}}</span>'
            for code in ("202E", "200B", "A0", "9", "3164")
        )
        + "b</bdi>"
    )


def test_a_text_keeps_what_people_write_with() -> None:
    """Joiners are part of emoji and of scripts; line breaks and tabs lay a text out."""
    kept = "👩\u200d👩 نمی\u200cخواهم \u00ad\n\tx"
    assert text(kept).markup == kept


@pytest.mark.parametrize(
    "character", "\x00\x07\r\x1b\x7f\x9b\u202a\u202e\u2066\u200f\udc80\U000e0041\ufffe"
)
def test_a_text_shows_controls_and_marks_of_direction(character: str) -> None:
    assert text(f"a{character}").markup == f'a<span class="unseen">\\u{{{ord(character):X}}}</span>'


def test_an_exact_text_shows_all_but_line_breaks() -> None:
    assert exact_text("\u200b\n").markup == '<span class="unseen">\\u{200B}</span>\n'


def test_a_line_break_at_the_beginning_of_a_pre_stays() -> None:
    assert pre("\nx").markup == "<pre>\n\nx</pre>"


@pytest.mark.parametrize("address", ["http://example.net", "javascript:x", "//x", "x", "#", "#a b"])
def test_no_link_leaves_the_page(address: str) -> None:
    with pytest.raises(InternalError):
        a("x", href=address)


@pytest.mark.parametrize("attribute", ["style", "onclick", "src", "srcdoc", "x y"])
def test_no_element_has_another_attribute(attribute: str) -> None:
    with pytest.raises(InternalError):
        div("x", **{attribute: "y"})  # type: ignore[misc]
