"""Pages in a real browser: nothing of the data runs, no request leaves, and the page fits."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rote.inspector.comparison_report import comparison_report
from rote.inspector.run_report import run_report
from rote.traces.reports import Failure, Report
from rote.traces.timeline import Timeline
from tests import browser
from tests.browser import Browser, Visit
from tests.lanes import SLOW
from tests.unit.inspector.pages import read_page, seen
from tests.unit.inspector.runs import HOSTILE, call, event, full_timeline, timeline

pytestmark = pytest.mark.skipif(not browser.FOUND, reason="there is no Chromium here")
STORABLE = [text.encode(errors="ignore").decode() or "x" for text in HOSTILE]
TAGS = "Array.from(document.querySelectorAll('*'), each => each.localName)"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("chromium"))
    yield opened
    opened.close()


def check_inert(visit: Visit, path: Path, title: str) -> None:
    """Check that a page is what the strict parser saw, asked for nothing and did nothing."""
    assert visit.requests == [path.as_uri()]
    assert visit.complaints == []
    assert visit.dialogs == []
    # A browser shows runs of blanks in a title as one.
    assert visit.evaluate("document.title").startswith(" ".join(title.split()))
    assert visit.evaluate(TAGS) == read_page(path.read_bytes()).tags


def hostile_run(texts: list[str]) -> Timeline:
    """Return a run with an event for each text, which it has in every place."""
    return timeline(
        "".join(texts),
        events=[event(index, text, *full_timeline(text).rest) for index, text in enumerate(texts)],
        rest=full_timeline("".join(texts)).rest,
    )


def different(*codes: str) -> Report:
    failures = tuple(Failure(code, "", "<b>", "</b>", f"{code} <i>") for code in codes)
    return Report(False, "different", failures)


def test_what_a_page_does_is_seen(chromium: Browser, tmp_path: Path) -> None:
    """The other tests would not pass if a page did something."""
    path = tmp_path / "bad.html"
    path.write_text(
        "<title>a</title><img src=http://127.0.0.1:9/x>"
        "<script>alert(1);document.title='b';no()</script>"
    )
    with chromium.visit(path) as visit:
        assert visit.requests == [path.as_uri(), "http://127.0.0.1:9/x"]
        assert visit.dialogs == ["1"]
        assert visit.evaluate("document.title") == "b"
        assert "no is not defined" in "".join(visit.complaints)


def test_nothing_of_the_data_runs_and_no_request_leaves(chromium: Browser, tmp_path: Path) -> None:
    runs = [hostile_run(STORABLE), *([hostile_run([text]) for text in STORABLE] if SLOW else [])]
    for number, run in enumerate(runs):
        path = tmp_path / f"{number}.html"
        path.write_bytes(run_report(run))
        with chromium.visit(path) as visit:
            check_inert(visit, path, seen(run.workflow_id[:20]).strip())


def test_nothing_runs_in_a_comparison_either(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "comparison.html"
    codes = [f"tool_args_mismatch:{index}:0" for index in range(len(STORABLE))]
    report = different(*codes, "event_mismatch:1:role", "output_mismatch:output_type")
    sides = hostile_run(STORABLE), hostile_run(STORABLE[::-1])
    path.write_bytes(comparison_report(report, *sides))
    with chromium.visit(path) as visit:
        check_inert(visit, path, "The runs differ: ")


def test_the_policy_stops_what_would_slip_through(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "holed.html"
    hole = b"<script>document.title='stolen'</script><img src=http://127.0.0.1:9/x></main>"
    path.write_bytes(run_report(timeline("x")).replace(b"</main>", hole))
    with chromium.visit(path) as visit:
        assert visit.evaluate("document.title") == "x x"
        refused = [each for each in visit.complaints if "Content Security Policy" in each]
        assert len(refused) == len(visit.complaints) == 2


def long_sides() -> tuple[Timeline, Timeline]:
    """Return two runs of 300 events that differ in one argument."""

    def side(name: str, query: str) -> Timeline:
        events = [
            event(
                i,
                "worker",
                call("read_invoice", args={"query": query if i == 137 else "open", "n": i}),
            )
            for i in range(300)
        ]
        return timeline(name, events=events, workflow_id="billing")

    return side("monday", "all of March"), side("tuesday", "all of April")


PLACES = """
["h3", ".side:nth-child(1) mark", ".side:nth-child(2) mark"].map(each => {
  const found = document.querySelector("article " + each), box = found.getBoundingClientRect()
  return [found.textContent, box.top >= 0 && box.bottom <= innerHeight && box.right <= innerWidth]
})
"""


def test_the_first_screen_names_event_and_tool_and_shows_both_values(
    chromium: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "long.html"
    path.write_bytes(comparison_report(different("tool_args_mismatch:137:0"), *long_sides()))
    with chromium.visit(path, width=1280, height=800) as visit:
        assert visit.evaluate(PLACES) == [
            ["Event 137 · read_invoice", True], ["March", True], ["April", True],
        ]  # fmt: skip


@pytest.mark.parametrize("width", [320, 1280])
def test_no_page_scrolls_sideways(chromium: Browser, tmp_path: Path, width: int) -> None:
    run = full_timeline("W" * 400)
    pages = run_report(run), comparison_report(different("tool_args_mismatch:0:0"), run, run)
    for number, content in enumerate(pages):
        path = tmp_path / f"{number}.html"
        path.write_bytes(content)
        with chromium.visit(path, width=width) as visit:
            visit.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
            assert visit.evaluate("document.documentElement.scrollWidth") == width


def test_a_page_is_light_or_dark_as_the_system_is(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    path.write_bytes(run_report(timeline("x")))
    seen_colours = []
    for scheme in ("light", "dark"):
        with chromium.visit(path, scheme=scheme) as visit:
            colour = "getComputedStyle(document.body).backgroundColor"
            seen_colours.append(sum(map(int, visit.evaluate(f"{colour}.match(/[0-9]+/g)"))))
    assert seen_colours[0] > 3 * 200 > 3 * 60 > seen_colours[1]
