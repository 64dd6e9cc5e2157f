"""Models: those whose replies are fixed, and the fields that identify them."""

from hashlib import sha256
from typing import Any

import pytest

from rote.errors import InvalidInput
from rote.traces import ModelConfig, model_config_id
from rote.traces.models import is_fixed
from rote.values import canonical, decode

TOOLS = "0" * 64


def test_the_identity_is_the_hash_of_these_bytes() -> None:
    model = ModelConfig("acme", "large-1", temperature=0.0, max_tokens=100, seed=7)
    assert (
        model_config_id(model, TOOLS)
        == sha256(
            b'{"decoding":{"frequency_penalty":null,"max_tokens":100,"presence_penalty":null,'
            b'"temperature":0,"top_p":null},"deterministic_provider":false,"model_name":"large-1",'
            b'"model_revision":null,"provider_name":"acme","seed":7,"stochastic_unseeded":false,'
            b'"tool_runtime_profile_hash":"' + TOOLS.encode() + b'"}'
        ).hexdigest()
    )


def test_a_run_without_a_model_has_the_identity_of_null_whatever_its_tools() -> None:
    null = sha256(b"null").hexdigest()
    assert model_config_id(None, TOOLS) == model_config_id(None, "1" * 64) == null


@pytest.mark.parametrize(
    "other",
    [
        {"provider_name": "other"},
        {"model_name": "large-2"},
        {"model_revision": "2"},
        {"temperature": 0.5},
        {"top_p": 0.5},
        {"max_tokens": 5},
        {"frequency_penalty": 0.5},
        {"presence_penalty": 0.5},
        {"seed": 8},
        {"seed": None, "stochastic_unseeded": True},
        {"deterministic_provider": True},
    ],
    ids=str,
)
def test_everything_that_decides_about_replies_is_part_of_the_identity(
    other: dict[str, Any],
) -> None:
    given: dict[str, Any] = {"provider_name": "acme", "model_name": "large-1", "seed": 7}
    assert model_config_id(ModelConfig(**given), TOOLS) != model_config_id(
        ModelConfig(**{**given, **other}), TOOLS
    )
    assert model_config_id(ModelConfig(**given), TOOLS) != model_config_id(
        ModelConfig(**given), "1" * 64
    )


def test_a_seed_or_the_guarantee_of_the_provider_makes_a_model_deterministic() -> None:
    assert ModelConfig("acme", "m", seed=0).is_deterministic
    assert ModelConfig("acme", "m", deterministic_provider=True).is_deterministic
    assert not ModelConfig("acme", "m", temperature=0).is_deterministic
    assert not ModelConfig("acme", "m", stochastic_unseeded=True).is_deterministic


def test_a_model_that_nothing_fixes_is_the_same_whether_it_is_called_stochastic_or_not() -> None:
    plain, called = ModelConfig("acme", "m"), ModelConfig("acme", "m", stochastic_unseeded=True)
    assert plain.to_dict() == called.to_dict()
    assert plain.to_dict()["stochastic_unseeded"] is True
    assert model_config_id(plain, TOOLS) == model_config_id(called, TOOLS)
    assert ModelConfig("acme", "m", seed=0).to_dict()["stochastic_unseeded"] is False


def test_replies_are_fixed_without_a_model_by_a_deterministic_one_or_by_a_recording() -> None:
    unfixed = ModelConfig("acme", "m")
    assert is_fixed(None, replayed=False)
    assert is_fixed(ModelConfig("acme", "m", seed=0), replayed=False)
    assert not is_fixed(unfixed, replayed=False)
    assert is_fixed(unfixed, replayed=True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"provider_name": ""},
        {"model_name": 5},
        {"model_revision": ""},
        {"model_name": "x" * 1_025},
        {"temperature": float("nan")},
        {"top_p": "0.5"},
        {"frequency_penalty": True},
        {"presence_penalty": 10**400},
        {"max_tokens": 0},
        {"max_tokens": 1.5},
        {"seed": 2**63},
        {"seed": True},
        {"stochastic_unseeded": 1},
        {"deterministic_provider": None},
        {"seed": 7, "stochastic_unseeded": True},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_is_no_configuration_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        ModelConfig(**{"provider_name": "acme", "model_name": "m", **wrong})


def test_a_configuration_cannot_be_changed() -> None:
    model = ModelConfig("acme", "m")
    with pytest.raises(AttributeError):
        model.seed = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    "model",
    [
        ModelConfig("acme", "large-1"),
        ModelConfig("acme", "large-1", stochastic_unseeded=True, top_p=0.5),
        ModelConfig("acme", "m", model_revision="2", temperature=0, max_tokens=9, seed=-7),
        ModelConfig("acme", "m", deterministic_provider=True, presence_penalty=-1.5),
    ],
    ids=str,
)
def test_a_model_is_made_again_from_its_dictionary(model: ModelConfig) -> None:
    again = ModelConfig.from_dict(decode(canonical(model.to_dict())))
    assert again.to_dict() == model.to_dict()
    assert model_config_id(again, TOOLS) == model_config_id(model, TOOLS)


@pytest.mark.parametrize(
    "change",
    [
        {"more": 1},
        {"seed": "7"},
        {"seed": True},
        {"provider_name": ""},
        {"deterministic_provider": 1},
        {"stochastic_unseeded": True, "seed": 7},
        {"decoding": {}},
        {"decoding": None},
        {"temperature": 0},
    ],
    ids=str,
)
def test_another_dictionary_makes_no_model(change: dict[str, Any]) -> None:
    settings = ModelConfig("acme", "large-1", seed=7).to_dict()
    with pytest.raises(InvalidInput):
        ModelConfig.from_dict({**settings, **change})


@pytest.mark.parametrize("settings", [None, [], "acme", {}, {"provider_name": "acme"}], ids=str)
def test_a_model_lacks_no_member(settings: Any) -> None:
    with pytest.raises(InvalidInput, match=r"has the members of ModelConfig\.to_dict"):
        ModelConfig.from_dict(settings)
