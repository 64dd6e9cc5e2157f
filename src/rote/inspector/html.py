"""HTML from typed functions: a text is escaped unless its type says that it is HTML.

Only this file makes the type `Html`. The names of elements and attributes come from this file too, so
that no page can have a script, a style attribute, an event handler or an address from elsewhere.

Stored text may hold anything. Characters that cannot be seen, or that turn the text around them,
are shown by their code points in a marked span: `\\u{202E}`.
"""

import re
from collections.abc import Callable, Iterable
from html import escape
from typing import Literal, TypedDict, Unpack

from msgspec import Struct

from rote.errors import invariant
from rote.values.limits import PAGE_NAME_CHARACTERS_MAX

# In any text: controls but TAB and LF, marks of direction, lone surrogates, tags, noncharacters.
_UNSEEN_IN_TEXT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff\U000e0000-\U000e007f]"
)
# In a name also what has no width although Python counts it as printable: joiners, fillers, selectors.
_UNSEEN_IN_NAME = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)
_is_anchor = re.compile(r"#[a-z0-9-]+").fullmatch


class Html(Struct, frozen=True):
    """A piece of HTML; only functions of this file make one."""

    markup: str


Part = str | Html | None


class Attributes(TypedDict, total=False):
    """The attributes that an element may have; a trailing underscore is left out."""

    id: str
    class_: str
    dir: Literal["auto"]
    lang: str
    title: str
    href: str  # a place on the same page
    open: bool
    scope: Literal["col", "row"]
    aria_label: str
    data_page: str
    data_event: str
    data_code: str


def text(content: str) -> Html:
    """Return a text, escaped, with what must not stay unseen made visible."""
    if _UNSEEN_IN_TEXT.search(content) is None:
        return Html(escape(content))
    return _shown(content, lambda each: _UNSEEN_IN_TEXT.match(each) is not None)


def exact_text(content: str) -> Html:
    """Return a text with everything visible that cannot be seen, but for line breaks."""
    return _shown(content, lambda each: each != "\n" and _is_unseen(each))


def name(content: str) -> Html:
    """Return a stored name in an element that isolates it; what cannot be seen is visible in it."""
    return Html(f'<bdi dir="auto">{_shown(_cut(content), _is_unseen).markup}</bdi>')


def _is_unseen(character: str) -> bool:
    return not character.isprintable() or _UNSEEN_IN_NAME.match(character) is not None


def _shown(content: str, is_unseen: Callable[[str], bool]) -> Html:
    return Html(
        "".join(
            f'<span class="unseen">{_code_point(each)}</span>' if is_unseen(each) else escape(each)
            for each in content
        )
    )


def _code_point(character: str) -> str:
    return f"\\u{{{ord(character):X}}}"


def _cut(content: str) -> str:
    """Return a name; a long one is cut and tells its size."""
    if len(content) <= PAGE_NAME_CHARACTERS_MAX:
        return content
    return f"{content[:PAGE_NAME_CHARACTERS_MAX]}… ({len(content):,} characters)"


def _plain(content: str) -> str:
    """Return a name, escaped, for a place that holds no elements."""
    shown = (_code_point(each) if _is_unseen(each) else each for each in _cut(content))
    return escape("".join(shown))


def joined(parts: Iterable[Part]) -> Html:
    """Return parts one after the other."""
    return Html("".join(_markup(part) for part in parts))


def _markup(part: Part) -> str:
    if part is None:
        return ""
    return part.markup if isinstance(part, Html) else text(part).markup


class Element:
    """Makes elements of one tag."""

    __slots__ = ("_tag",)

    def __init__(self, tag: str) -> None:
        self._tag = tag

    def __call__(self, *parts: Part, **attributes: Unpack[Attributes]) -> Html:
        shown = "".join(_attribute(key, value) for key, value in attributes.items())
        # A browser leaves out a line break that begins a pre, so it gets one that may go.
        lead = "\n" if self._tag == "pre" else ""
        return Html(f"<{self._tag}{shown}>{lead}{joined(parts).markup}</{self._tag}>")


def _attribute(key: str, value: object) -> str:
    invariant(key in Attributes.__annotations__, f"there is no attribute {key}")
    invariant(key != "href" or _is_anchor(str(value)) is not None, "a link leaves the page")
    if value is False:
        return ""
    label = key.rstrip("_").replace("_", "-")
    return f" {label}" if value is True else f' {label}="{_plain(str(value))}"'


a = Element("a")
article = Element("article")
b = Element("b")
code = Element("code")
dd = Element("dd")
details = Element("details")
div = Element("div")
dl = Element("dl")
dt = Element("dt")
footer = Element("footer")
h1 = Element("h1")
h2 = Element("h2")
h3 = Element("h3")
header = Element("header")
li = Element("li")
main = Element("main")
mark = Element("mark")
ol = Element("ol")
p = Element("p")
pre = Element("pre")
section = Element("section")
small = Element("small")
span = Element("span")
summary = Element("summary")
table = Element("table")
tbody = Element("tbody")
td = Element("td")
th = Element("th")
thead = Element("thead")
tr = Element("tr")
ul = Element("ul")


def document(*, title: str, body: Html, css: str, policy: str) -> str:
    """Return a whole page. `css` is our own; the policy says what the page may load and run."""
    invariant("<" not in css, "a style sheet could end its element")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{_plain(title)}</title>\n<style>{css}</style>\n</head>\n"
        f"<body>\n{body.markup}\n</body>\n</html>\n"
    )
