import pytest

from tests.unit.cli.command import error_of, run


@pytest.mark.parametrize(
    ("options", "expected"),
    [([], '{"a":"e\u0301","b":0.1234567,"c":1}'), (["--v1"], '{"a":"\u00e9","b":0.123457,"c":1}')],
)
def test_canonical_writes_exactly_the_bytes_of_the_form(options: list[str], expected: str) -> None:
    text = '{"c": 1.0, "b": 0.1234567, "a": "e\\u0301"}\n'
    result = run("canonical", *options, stdin=text)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout_bytes == expected.encode()


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"NaN", b'{"a":1,"a":1}', b"1 2"])
def test_canonical_of_what_is_not_json_is_an_error(text: bytes) -> None:
    assert "standard input" in error_of(run("canonical", stdin=text))
