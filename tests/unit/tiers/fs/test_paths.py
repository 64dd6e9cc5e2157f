"""Paths are judged by their text: what is below the sandbox, and how a name may be written."""

import pytest

from rote.errors import RoteError
from rote.tiers.fs.paths import extension_of, segments_of


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("a", ("a",)),
        ("/reports/daily.json", ("reports", "daily.json")),
        ("reports/daily.json", ("reports", "daily.json")),
        ("/etc/passwd", ("etc", "passwd")),
        ("...", ("...",)),
        ("..a/b..", ("..a", "b..")),
        (".hidden", (".hidden",)),
        ("~/x", ("~", "x")),
        ("C:/x", ("C:", "x")),
        ("a b/ü/日本", ("a b", "ü", "日本")),
        ("%2e%2e/x", ("%2e%2e", "x")),
        ("/", ()),
        ("", ()),
        ("/".join("a" * 32), tuple("a" * 32)),
        ("x" * 255, ("x" * 255,)),
        ("é" * 127, ("é" * 127,)),
        ("/".join(["x" * 255] * 4)[:1024], ("x" * 255,) * 4),
    ],
)
def test_a_path_is_its_names_below_the_root(path: str, names: tuple[str, ...]) -> None:
    assert segments_of(path) == names


@pytest.mark.parametrize(
    "path",
    ["..", "../x", "a/..", "a/../b", "/..", "/../etc/passwd", "a//../b", "./../x", "../../../../x"],
)
def test_a_step_upwards_is_outside_whatever_stands_before_it(path: str) -> None:
    with pytest.raises(RoteError) as caught:
        segments_of(path)
    assert caught.value.code == "outside_sandbox"


@pytest.mark.parametrize(
    "path",
    [
        "//", "//a", "a//b", "a/", "/a/", ".", "./a", "a/.", "a/./b", "a\\b", "..\\x", "\\\\server\\x",
        "a\0b", "a\nb", "\x1b[31m", "a\x7f", "a\x85b", "e\u0301", "\u212b", "\ud800", "x\udcffy",
        "x" * 256, "é" * 128, "/".join("a" * 33), "x/" * 512 + "x", ".rote.draft", "a/.rote.draft",
        ".rote.draft/a",
    ],
)  # fmt: skip
def test_a_malformed_path_is_refused(path: str) -> None:
    with pytest.raises(RoteError) as caught:
        segments_of(path)
    assert caught.value.code == "bad_path"


@pytest.mark.parametrize(
    ("name", "extension"),
    [
        ("a.txt", ".txt"), ("a.tar.gz", ".gz"), ("a.TXT", ".TXT"), ("a", ""), ("a.", "."),
        (".txt", ""), (".a.txt", ""), ("..txt", ""), ("a..txt", ".txt"),
    ],
)  # fmt: skip
def test_an_extension_begins_with_the_last_dot(name: str, extension: str) -> None:
    assert extension_of(name) == extension
