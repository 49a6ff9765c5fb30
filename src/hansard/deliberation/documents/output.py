"""What a model said, made into the content of a message: trimmed, strict, and fit for a digest (§5.4, §6.5)."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from hansard.deliberation.documents.breach import Invalid
from hansard.deliberation.documents.jcs import unrepresentable
from hansard.deliberation.documents.turns import SynthesisContent, TurnStructuredOutput, Verdict
from hansard.deliberation.documents.vocabulary import OutputSchema
from hansard.providers.schema import Breach, Constant, Validator

OUTPUTS: Mapping[OutputSchema, type[TurnStructuredOutput] | type[Verdict] | type[SynthesisContent]] = {
    "turn_structured_output": TurnStructuredOutput,
    "verdict": Verdict,
    "synthesis_content": SynthesisContent,
}


def canonical_output(expected: OutputSchema, data: object) -> dict[str, Any]:
    """The output as JSON, without what the schema does not know. Invalid where it misses the schema or could never be hashed.

    The second check comes here and not at the end, so that a paid session never dies when its digest is made.
    """
    said = _trimmed(expected, data)
    if why := unrepresentable(said):
        error = Invalid(why, rule="R-7.7-1")
        error.document = OUTPUTS[expected].__name__
        raise error
    return said


def _trimmed(expected: OutputSchema, data: object) -> dict[str, Any]:
    document = OUTPUTS[expected]
    try:
        output = document.parse(data)
    except Invalid:
        # Most answers have nothing to trim: what parses as it is holds nothing that trimming would take away.
        output = document.parse(document.trim(data))
    return output.as_data()


class _Output(Validator):
    """Reads what a provider has taken for JSON, which has canonical bytes: its rules about numbers and texts are the same."""

    __slots__ = ("_expected",)

    def __init__(self, expected: OutputSchema) -> None:
        self._expected = expected

    def check(self, value: Any) -> Breach | None:
        return self.read(value)[1]

    def read(self, value: Any) -> tuple[Any, Breach | None]:
        try:
            return _trimmed(self._expected, value), None
        except Invalid as error:
            return None, Breach(path=error.path, rule=error.rule, message=error.message)


@cache
def asking_schema(expected: OutputSchema) -> Constant:
    """The schema to ask a model with: as strict about what must be there, and deaf to what is taken away from the answer."""
    return Constant(_lenient(OUTPUTS[expected].schema()), _Output(expected))


def _lenient(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_lenient(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: _lenient(each) for name, each in schema.items() if name not in {"additionalProperties", "allOf"}}
    if "properties" in schema:
        required = schema.get("required", ())
        kept["properties"] = {
            name: _lenient(each) if name in required else {"anyOf": [_lenient(each), {"type": "null"}]}
            for name, each in schema["properties"].items()
        }
    return kept
