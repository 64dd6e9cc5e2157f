import pytest

from rote.errors import InvalidInput
from rote.settings import read_environment

SETTINGS = b"""
[environments.production]
modes = ["off", "read_only"]

[environments.test]
modes = ["buffered_write"]

[environments.bare]
"""


def test_an_environment_says_which_modes_are_enabled() -> None:
    assert read_environment(SETTINGS, "test", place="f").modes == ("buffered_write",)
    assert read_environment(SETTINGS, "production", place="f").modes == ("off", "read_only")
    assert read_environment(SETTINGS, "bare", place="f").modes is None


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"[environments", "no TOML"),
        (b"\xff", "no TOML"),
        (b"", "no environment 'test'"),
        (SETTINGS.replace(b"test", b"tests"), "production, tests, bare"),
        (b"environments = 1", "table"),
        (b"[environments]\ntest = 1", "table"),
        (b"[environments.test]\nmodes = 'off'", "list"),
        (b"[environments.test]\nmodes = [1]", "list"),
        (b"[environments.test]\nmode = ['off']", "'mode'"),
        (b"#" * (1024 * 1024 + 1), "larger"),
    ],
)
def test_what_is_no_environment_is_refused_and_the_file_is_named(data: bytes, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as error:
        read_environment(data, "test", place="there/rote.toml")
    assert "there/rote.toml" in str(error.value)
