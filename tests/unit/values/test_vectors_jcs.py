"""The public RFC 8785 test data passes whole."""

from pathlib import Path

import pytest

from rote.values import canonical, decode
from tests.vectors import FOLDER, FOUND

FILES = sorted((FOLDER / "jcs" / "input").glob("*.json")) if FOUND else []


@pytest.mark.skipif(not FOUND, reason=f"the public JCS vectors are not at {FOLDER}")
def test_the_vectors_are_all_there() -> None:
    assert {file.stem for file in FILES} >= {
        "arrays",
        "french",
        "structures",
        "unicode",
        "values",
        "weird",
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_canonical_form_of_the_input_is_the_output(file: Path) -> None:
    expected = (file.parent.parent / "output" / file.name).read_bytes()
    assert canonical(decode(file.read_bytes())) == expected
