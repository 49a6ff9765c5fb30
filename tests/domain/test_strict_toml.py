import pytest

from hansard.domain.strict_toml import MOST_PARTS, read_toml

LONG = 50_000


@pytest.mark.parametrize(
    "text",
    [
        ".".join(["a"] * LONG) + " = 1",
        "\t . \t".join(["a"] * LONG) + " = 1",
        ".".join(['"a b"'] * LONG) + " = 1",
        ".".join(["'='"] * LONG) + " = 1",
        ".".join([r'"\""'] * LONG) + " = 1",
        "[" + ".".join(["a"] * LONG) + "]",
        "x = {" + ".".join(["a"] * LONG) + " = 1}",
    ],
    ids=["plain", "spaced", "quoted", "literal", "escaped", "header", "inline"],
)
def test_a_key_of_many_parts_is_refused_before_it_is_parsed(text: str) -> None:
    with pytest.raises(ValueError, match=f"more than {MOST_PARTS} parts"):
        read_toml(text)


@pytest.mark.parametrize("text", ["a" * LONG, '"' + r"\"" * LONG, "'" * LONG, "\\" * LONG, "a  " * LONG])
def test_what_is_no_toml_is_refused_without_being_looked_through_again_and_again(text: str) -> None:
    with pytest.raises(ValueError, match="at "):
        read_toml(text)


def test_whatever_people_write_is_read() -> None:
    key = ".".join(["a"] * (MOST_PARTS - 1))
    read = read_toml(f"{key}.b = 1\n[c.'d e'.\"f\"]\nnumbers = [{'1.5, ' * 100}]\ntext = '{'One two. ' * 100}'\n")
    assert read["c"]["d e"]["f"] == {"numbers": [1.5] * 100, "text": "One two. " * 100}
