"""Reads a document from text or a file: JSON, or YAML where the extra is installed. Refuses what has two readings."""

import io
import re
from pathlib import Path
from typing import Any

from hansard.domain.strict_json import read_json, refuse_twice
from hansard.errors import MissingExtra, UsageError, plainly

MAX_BYTES = 256 * 1024 * 1024
MAX_DEPTH = 64
MAX_VALUES = 1_000_000
INSTALL = "pip install 'hansard[yaml]'"
_TWO_READINGS = re.compile(r"(?i)[-+]?0[0-7_]+|[-+]?0b.*|.*[_:].*|yes|no|on|off|[-+]?\.(inf|nan)")
"""Numbers and claims of YAML 1.1 that are others, or texts, in YAML 1.2: 060, 1:30, 1_000, yes. In JSON no number is infinite."""


def read_yaml(text: str, *, where: str = "document") -> Any:
    """One YAML value, as JSON would hold it: times stay text, and a name that stands twice is refused."""
    try:
        import yaml
    except ImportError as error:
        raise MissingExtra(f"{where} is YAML, which needs PyYAML; run: {INSTALL}, or write it as JSON") from error
    try:
        value = yaml.load(text, Loader=_loader(yaml))
        _count(value)
        return value
    except LookupError as error:
        # As PyYAML stumbles over what it did not expect behind !!bool, !!int and !!float.
        raise UsageError(
            f"{where} is no YAML: what is tagged as a number or a claim is none ({error})"[:300]
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{where} is no YAML: {' '.join(str(error).split())}"[:300]) from error


_DECIDED = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "bool"))


def _loader(yaml: Any) -> Any:
    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Mappings by name once, and no times: a document says them as text."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
            names = [self.construct_object(name, deep=True) for name, _ in node.value]
            for name in names:
                if not isinstance(name, str):
                    raise ValueError(f"{name!r:.60} is a name and no text; put it in quotes")
            refuse_twice(names)
            return dict(super().construct_mapping(node, deep=deep))

        def construct_scalar(self, node: Any) -> Any:
            # A list that is tagged as a number is refused by PyYAML itself.
            if node.tag in _DECIDED and type(node.value) is str and _TWO_READINGS.fullmatch(node.value):
                raise ValueError(f"{node.value!r:.60} has two readings; put it in quotes, or write it as JSON does")
            return super().construct_scalar(node)

    Loader.add_constructor("tag:yaml.org,2002:timestamp", yaml.SafeLoader.construct_yaml_str)
    return Loader


def _count(value: Any, depth: int = 0, counted: int = 0) -> int:
    """How many values there are. Aliases may say a few lines a billion times, or themselves."""
    counted += 1
    if isinstance(value, bytes | set):
        raise ValueError("what is tagged as binary or as a set has no place in JSON")
    if depth > MAX_DEPTH or counted > MAX_VALUES:
        raise ValueError(f"nested deeper than {MAX_DEPTH} or more than {MAX_VALUES} values")
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        counted = _count(each, depth + 1, counted)
    return counted


def load(path: Path) -> Any:
    """The value in a .json, .yaml or .yml file."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise UsageError(f"{path} is larger than {MAX_BYTES} bytes")
        text = io.TextIOWrapper(io.BytesIO(data), "utf-8-sig").read()
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {plainly(error)}") from error
    return (read_yaml if path.suffix in {".yaml", ".yml"} else read_json)(text, where=str(path))
