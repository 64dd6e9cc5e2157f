"""Schemas, judged the slow and obvious way: every part of a schema at every place of a value.

A judge that is independent of the library, for the keywords that tests draw. It never stops early,
so it also counts how often each place is judged at most.
"""

import re
from collections import Counter
from typing import Any

from rote.values import Json, canonical

_TYPES: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}


class NaiveJudge:
    """Judges values by one document."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self.met: Counter[tuple[str | int, ...]] = Counter()  # judgements of each place

    def allows(self, value: Json) -> bool:
        self.met.clear()
        return self._allows(self._root, value, ())

    def _allows(self, schema: Any, value: Json, place: tuple[str | int, ...]) -> bool:
        self.met[place] += 1
        if type(schema) is bool:
            return schema
        answers = [
            *self._here(schema, value, place),
            *self._simple(schema, value),
        ]
        if type(value) is dict:
            answers += self._members(schema, value, place)
        if type(value) is list:
            answers += self._elements(schema, value, place)
        return all(answers)

    def _here(self, schema: Any, value: Json, place: Any) -> list[bool]:
        answers = []
        if "$ref" in schema:
            answers.append(self._allows(self._target(schema["$ref"]), value, place))
        for keyword in ("allOf", "anyOf", "oneOf"):
            if keyword in schema:
                options = schema[keyword]
                count = sum(self._allows(option, value, place) for option in options)
                enough = {"allOf": count == len(options), "anyOf": count > 0, "oneOf": count == 1}
                answers.append(enough[keyword])
        if "not" in schema:
            answers.append(not self._allows(schema["not"], value, place))
        parts = {
            keyword: self._allows(schema[keyword], value, place)
            for keyword in ("if", "then", "else")
            if keyword in schema
        }
        if "if" in parts:
            answers.append(parts.get("then" if parts["if"] else "else", True))
        return answers

    def _target(self, reference: str) -> Any:
        target = self._root
        for token in reference[1:].split("/")[1:]:
            target = target[token]
        return target

    def _simple(self, schema: Any, value: Json) -> list[bool]:
        answers = []
        if "type" in schema:
            answers.append(_is(schema["type"], value))
        if "const" in schema:
            answers.append(canonical(schema["const"]) == canonical(value))
        if "enum" in schema:
            answers.append(canonical(value) in [canonical(option) for option in schema["enum"]])
        if type(value) is str and "pattern" in schema:
            answers.append(re.search(schema["pattern"], value) is not None)
        kinds = {"Length": str, "Items": list, "Properties": dict}
        for name, kind in kinds.items():
            if type(value) is kind:
                answers.append(schema.get(f"min{name}", 0) <= len(value))
                answers.append(len(value) <= schema.get(f"max{name}", len(value)))
        if type(value) in (int, float):
            answers.append(schema.get("minimum", value) <= value <= schema.get("maximum", value))
        return answers

    def _members(self, schema: Any, value: dict[str, Any], place: Any) -> list[bool]:
        answers = [name in value for name in schema.get("required", ())]
        for name, member in value.items():
            parts = [schema["properties"][name]] if name in schema.get("properties", {}) else []
            parts += [
                part
                for pattern, part in schema.get("patternProperties", {}).items()
                if re.search(pattern, name)
            ]
            if not parts and "additionalProperties" in schema:
                parts = [schema["additionalProperties"]]
            answers += [self._allows(part, member, (*place, name)) for part in parts]
            if "propertyNames" in schema:
                answers.append(self._allows(schema["propertyNames"], name, (*place, name)))
        return answers

    def _elements(self, schema: Any, value: list[Any], place: Any) -> list[bool]:
        prefix = schema.get("prefixItems", [])
        parts = [*prefix, *[schema.get("items", True)] * (len(value) - len(prefix))]
        answers = [
            self._allows(part, element, (*place, index))
            for index, (part, element) in enumerate(zip(parts, value, strict=False))
            if index < len(prefix) or "items" in schema
        ]
        if "contains" in schema:
            found = [
                self._allows(schema["contains"], element, (*place, index))
                for index, element in enumerate(value)
            ]
            answers.append(any(found))
        if schema.get("uniqueItems"):
            answers.append(len({canonical(element) for element in value}) == len(value))
        return answers


def _is(name: str, value: Json) -> bool:
    if name == "integer":
        return type(value) is int or (type(value) is float and value.is_integer())
    return type(value) in _TYPES[name]
