"""What a model said, made into the content of a message: trimmed, strict, and fit for a digest (§5.4, §6.5)."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from hansard.deliberation.documents.breach import Invalid
from hansard.deliberation.documents.turns import SynthesisContent, TurnStructuredOutput, Verdict
from hansard.deliberation.documents.vocabulary import OutputSchema
from hansard.providers.schema import Breach, Constant, Validator

OUTPUTS: Mapping[OutputSchema, type[TurnStructuredOutput] | type[Verdict] | type[SynthesisContent]] = {
    "turn_structured_output": TurnStructuredOutput,
    "verdict": Verdict,
    "synthesis_content": SynthesisContent,
}


class _Output(Validator):
    """Reads what a provider has taken for JSON, which has canonical bytes: its rules about numbers and texts are the same."""

    __slots__ = ("_expected",)

    def __init__(self, expected: OutputSchema) -> None:
        self._expected = expected

    def check(self, value: Any) -> Breach | None:
        return self.read(value)[1]

    def read(self, value: Any) -> tuple[Any, Breach | None]:
        document = OUTPUTS[self._expected]
        try:
            try:
                document.parse(value)
            except Invalid:
                # Most answers have nothing to trim: what parses as it is holds nothing that trimming would take away.
                value = document.trim(value)
                document.parse(value)
            return value, None
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
