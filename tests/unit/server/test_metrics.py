"""Metrics: the text of Prometheus, and no label that takes a client's text."""

import re
import threading

from rote.server.metrics import BUCKETS, Metrics

# The grammar of the text format, version 0.0.4, line by line.
_LINE = re.compile(
    r"# (?:HELP|TYPE) [a-z_]+ .+"
    r'|[a-z_]+(?:\{[a-z]+="[^"\\\n]*"(?:,[a-z]+="[^"\\\n]*")*\})? -?[0-9.e+-]+'
)


def made(**gauges: float) -> Metrics:
    asked = {name: (lambda value=value: value) for name, value in gauges.items()}
    return Metrics(["read", "commit"], version="0.1.0", engine="sqlite", gauges=asked)


def values(metrics: Metrics) -> dict[str, float]:
    lines = metrics.text().decode().splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
    }


def test_every_line_is_of_the_format_and_every_name_has_its_type() -> None:
    metrics = made(rote_connections=3, rote_watches=0)
    metrics.answered("read", 200, 0.002, bytes_in=10, bytes_out=400)
    metrics.answered("commit", 409, 0.3, code="conflict")
    metrics.committed("conflict", 0.2)
    text = metrics.text().decode()
    assert text.endswith("\n")
    for line in text.splitlines():
        assert _LINE.fullmatch(line), line
    named = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    assert len(re.findall(r"^# TYPE", text, re.MULTILINE)) == len(named)
    for line in text.splitlines():
        if line[0] != "#":
            name = re.split(r"[{ ]", line)[0]
            assert name in named or re.sub(r"_(bucket|sum|count)$", "", name) in named


def test_what_was_counted_is_told() -> None:
    metrics = made(rote_connections=3)
    for seconds in (0.0001, 0.003, 100.0):
        metrics.answered("read", 200, seconds, bytes_in=1, bytes_out=2)
    metrics.answered("read", 404, 0.001, code="not_found")
    metrics.committed("committed", 0.004)
    metrics.count("rote_watch_frames_total", 7)
    found = values(metrics)
    assert found['rote_requests_total{command="read",status="200"}'] == 3
    assert found['rote_requests_total{command="read",status="404"}'] == 1
    assert found['rote_refusals_total{reason="not_found"}'] == 1
    assert found['rote_commits_total{outcome="committed"}'] == 1
    assert found['rote_commits_total{outcome="replayed"}'] == 0
    assert found['rote_bytes_total{direction="in"}'] == 3
    assert found['rote_bytes_total{direction="out"}'] == 6
    assert found["rote_watch_frames_total"] == 7
    assert found["rote_connections"] == 3
    assert found['rote_build_info{version="0.1.0",engine="sqlite"}'] == 1
    assert found["process_resident_memory_bytes"] > 0
    assert found["process_open_fds"] > 0


def test_a_histogram_counts_what_is_at_or_below_each_bound() -> None:
    metrics = made()
    for seconds in (BUCKETS[0], BUCKETS[1], BUCKETS[-1] + 1):
        metrics.committed("committed", seconds)
    found = values(metrics)
    assert found[f'rote_commit_seconds_bucket{{le="{BUCKETS[0]}"}}'] == 1
    assert found[f'rote_commit_seconds_bucket{{le="{BUCKETS[1]}"}}'] == 2
    assert found['rote_commit_seconds_bucket{le="+Inf"}'] == 3
    assert found["rote_commit_seconds_count"] == 3
    assert found["rote_commit_seconds_sum"] == sum((BUCKETS[0], BUCKETS[1], BUCKETS[-1] + 1))


def test_a_label_never_takes_the_text_of_a_client() -> None:
    metrics = made()
    metrics.answered('x"} 1\nrote_secret{a="', 200, 0.1, code='"\nboo')
    text = metrics.text().decode()
    assert "secret" not in text and "boo" not in text
    assert 'rote_requests_total{command="other",status="200"} 1' in text
    assert 'rote_refusals_total{reason="other"} 1' in text


def test_threads_lose_no_count() -> None:
    metrics = made()

    def count() -> None:
        for _ in range(2_000):
            metrics.answered("read", 200, 0.001)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values(metrics)['rote_requests_total{command="read",status="200"}'] == 8_000
