"""The model of a run and its settings; comparable runs have the same. Frozen."""

from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Self

from rote.errors import InvalidInput
from rote.values import Json, check_trace_name, fingerprint
from rote.values.limits import INTEGER_MAX, INTEGER_MIN

_DECODING = ("temperature", "top_p", "max_tokens", "frequency_penalty", "presence_penalty")
_WHOLE = ("max_tokens", "seed")
_FLAGS = ("stochastic_unseeded", "deterministic_provider")


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A model with all settings that affect its replies; None for a setting that nobody has set."""

    provider_name: str
    model_name: str
    _: KW_ONLY
    model_revision: str | None = None  # or the version of a deployment
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    stochastic_unseeded: bool = False  # replies are known to be drawn at random each time
    deterministic_provider: bool = False  # the provider's own guarantee of the same reply

    def __post_init__(self) -> None:
        check_trace_name(self.provider_name, "provider_name")
        check_trace_name(self.model_name, "model_name")
        if self.model_revision is not None:
            check_trace_name(self.model_revision, "model_revision")
        for name in (*_DECODING, "seed"):
            _check_number(name, getattr(self, name))
        for name in _FLAGS:
            if type(getattr(self, name)) is not bool:
                raise InvalidInput(f"{name} is True or False", argument=name)
        if self.stochastic_unseeded and self.seed is not None:
            raise InvalidInput(
                "a model with a seed is not stochastic_unseeded; give one of the two",
                argument="seed",
            )

    @property
    def is_deterministic(self) -> bool:
        """Whether the same question gets the same reply; the claim that a run was deterministic needs
        that."""
        return self.deterministic_provider or self.seed is not None

    def to_dict(self) -> dict[str, Json]:
        """Return the settings that identify it, without the tools; unset ones are null. A model that
        nothing fixes is stochastic_unseeded, whether it was called so or not."""
        given: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        given["stochastic_unseeded"] |= not self.is_deterministic
        rest = {name: value for name, value in given.items() if name not in _DECODING}
        return {**rest, "decoding": {name: given[name] for name in _DECODING}}

    @classmethod
    def from_dict(cls, settings: Json) -> Self:
        """Return the model whose `to_dict` is given; InvalidInput for anything else."""
        names = {field.name for field in fields(cls)}.difference(_DECODING)
        if type(settings) is not dict or settings.keys() != {*names, "decoding"}:
            raise InvalidInput("a model has the members of ModelConfig.to_dict", argument="model")
        decoding = settings["decoding"]
        if type(decoding) is not dict or decoding.keys() != {*_DECODING}:
            raise InvalidInput(f"decoding has the members {', '.join(_DECODING)}", argument="model")
        given: dict[str, Any] = {**settings, **decoding}
        del given["decoding"]
        return cls(**given)


def is_fixed(model: ModelConfig | None, *, replayed: bool) -> bool:
    """Return whether the replies of a run's model are the same each time: there is no model, it is
    deterministic, or they come from a recording."""
    return model is None or model.is_deterministic or replayed


def model_config_id(model: ModelConfig | None, tool_runtime_profile_hash: str) -> str:
    """Return the identity of a model with its tools; without a model it is that of null."""
    if model is None:
        return fingerprint(None)
    return fingerprint({**model.to_dict(), "tool_runtime_profile_hash": tool_runtime_profile_hash})


def _check_number(name: str, value: Any) -> None:
    if value is None:
        return
    if name in _WHOLE:
        least = 1 if name == "max_tokens" else INTEGER_MIN
        if type(value) is not int or not least <= value <= INTEGER_MAX:
            raise InvalidInput(f"{name} is an integer of 64 bits from {least} on", argument=name)
    elif type(value) not in (int, float) or not INTEGER_MIN <= value <= INTEGER_MAX:
        raise InvalidInput(f"{name} is a finite number", argument=name)
