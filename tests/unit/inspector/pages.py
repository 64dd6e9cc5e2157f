"""Pages as a strict parser sees them: only known elements and attributes, all of them closed, nothing
that leads or loads from elsewhere."""

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

VOID = {"meta"}
ATTRIBUTES = {
    "id", "class", "dir", "lang", "title", "href", "open", "scope", "data-page", "data-event",
    "data-code", "aria-label",
}  # fmt: skip
# Elements that stand for characters or for a part of a value; a text decides how many there are.
OF_TEXT = {"unseen", "key", "escape", "cut"}


class Page(HTMLParser):
    """One page; reading it fails where the page holds what no page may hold."""

    def __init__(self, content: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []  # of all elements, in order
        self.elements: list[str] = []  # the same without those that a text makes
        self.names: list[str] = []  # the texts of all <bdi>
        self.blocks: list[str] = []  # the texts of all <pre>
        self.codes: list[str] = []
        self.css = self.policy = self.title = ""
        self._texts: list[str] = []
        self._open: list[str] = []
        self._held: list[list[str]] = []
        self.feed(content.decode())
        self.close()
        assert self._open == []
        self.text = "".join(self._texts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        assert len(given) == len(attrs)
        if tag == "meta":
            self._take_meta(given)
            return
        assert given.keys() <= ATTRIBUTES
        assert re.fullmatch(r"#[a-z0-9-]+", given.get("href") or "#x")
        if given.get("class") not in OF_TEXT and tag not in ("bdi", "mark"):
            self.elements.append(tag)
        if (code := given.get("data-code")) is not None:
            self.codes.append(code)
        self._open.append(tag)
        if tag in ("bdi", "pre", "style", "title"):
            self._held.append([])

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if tag not in ("bdi", "pre", "style", "title"):
            return
        held = "".join(self._held.pop())
        match tag:
            case "bdi":
                self.names.append(held)
            case "pre":
                self.blocks.append(held.removeprefix("\n"))
            case "style":
                self.css += held
            case "title":
                self.title += held

    def handle_data(self, data: str) -> None:
        for held in self._held:
            held.append(data)
        if "style" not in self._open:
            self._texts.append(data)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        raise AssertionError(f"<{tag}/>")

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"an instruction: {data}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a section: {data}")

    def handle_decl(self, decl: str) -> None:
        assert decl == "DOCTYPE html"

    def _take_meta(self, given: dict[str, str | None]) -> None:
        if "http-equiv" in given:
            assert given["http-equiv"] == "Content-Security-Policy"
            self.policy += given["content"] or ""
        assert given.keys() in ({"charset"}, {"http-equiv", "content"}, {"name", "content"})


def read_page(content: bytes) -> Page:
    """Read a page that stands alone: no script, one style sheet, which its policy allows."""
    page = Page(content)
    assert "script" not in page.elements
    assert page.elements.count("style") == page.elements.count("h1") == 1
    assert re.search(r"url\(|@import|expression|//", page.css) is None
    digest = b64encode(sha256(page.css.encode()).digest()).decode()
    assert page.policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    return page


# Python counts these as printable, but nobody sees them: joiners, fillers, selectors, a blank.
_INVISIBLE = re.compile(
    "[\u034f\u115f-\u1160\u17b4-\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)


def seen(text: str) -> str:
    """Return a name as a person sees it: what cannot be seen by its code point."""
    return "".join(
        each if each.isprintable() and not _INVISIBLE.match(each) else f"\\u{{{ord(each):X}}}"
        for each in text
    )
