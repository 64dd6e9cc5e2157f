"""Calls of an adapter as a host makes them, without the host's own refusals."""

from collections.abc import Mapping
from typing import Any

import pytest

from rote.errors import RoteError
from rote.tiers.adapters import Adapter
from rote.values import Json


def call(
    adapter: Adapter, verb: str, *args: Json, granted: Mapping[str, Json] | None = None
) -> Any:
    form = adapter.verbs[verb]
    return adapter.call(verb, form.filled(form.bind(args, {})), granted or {})


def refusal(
    adapter: Adapter, verb: str, *args: Json, granted: Mapping[str, Json] | None = None
) -> RoteError:
    """Return the error of a call; it must have one."""
    with pytest.raises(RoteError) as caught:
        call(adapter, verb, *args, granted=granted)
    return caught.value


def code(adapter: Adapter, verb: str, *args: Json, **more: Any) -> str:
    return refusal(adapter, verb, *args, **more).code
