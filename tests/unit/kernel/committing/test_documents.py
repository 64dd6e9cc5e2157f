"""A stamp changes the text of a value as it would change the value."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rote.kernel.committing.documents import stamped
from rote.patch import format_pointer
from rote.testing.strategies import json_values
from rote.values import canonical, format_time
from tests.lanes import examples

NAMES = st.sampled_from(
    ["created_at", "a", "", "a/b", "~", '"\\', "\x00\n\x7f", "é", "\ue000", "😀"]
)


@given(
    document=st.dictionaries(NAMES, json_values(), max_size=6),
    names=st.lists(NAMES, min_size=1, max_size=3),
    at=st.integers(0, 4_000_000_000_000_000),
)
@settings(max_examples=examples(150, 5_000))
def test_a_stamp_of_members_leaves_the_canonical_bytes_of_the_stamped_value(
    document: dict[str, Any], names: list[str], at: int
) -> None:
    pointers = tuple(format_pointer([name]) for name in names)
    wanted = canonical({**document, **dict.fromkeys(names, format_time(at))})
    assert stamped(canonical(document), pointers, at) == wanted
