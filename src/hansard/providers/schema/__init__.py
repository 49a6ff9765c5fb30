"""JSON Schema, the part that we use, kept to the letter: `compile(schema).check(value)` gives a Breach or None."""

from hansard.providers.schema.rule import Breach, show
from hansard.providers.schema.validator import Constant, Validator, compile

__all__ = ["Breach", "Constant", "Validator", "compile", "show"]
