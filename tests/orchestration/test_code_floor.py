import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from answer_rows import Row, rows, worst_share, wrong
from hansard.orchestration.checks.code import MAX_BLOCK, code


def label_of(row: Row) -> str | None:
    found = code(row["answer"])
    if not found.blocks:
        return None
    return "bad" if found.flagged else "fine"


def test_at_least_nineteen_of_twenty_labelled_answers_are_judged_right() -> None:
    among = [row for row in rows() if row["code"] is not None]
    assert len(among) >= 25
    assert len(wrong(among, "code", label_of)) * 20 <= len(among)
    assert worst_share("code", label_of) >= 0.9


def rules(language: str, text: str) -> list[str]:
    return [finding.rule for finding in code(f"Look:\n\n```{language}\n{text}\n```\n").findings]


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "x = 1"),
        ("py", "    async def f():\n        return await g()"),
        ("python", "class A:\n    def f(self): ..."),
        ("python", r"pattern = '\d'"),
        ("pycon", ">>> 1 +\\\n... 2\n3"),
        ("json", '{"a": [1, 2.5e300, null]}'),
        ("json", "1" * 5_000),
        ("jsonl", '{"a": 1}\n\n{"a": 2}'),
        ("toml", "[a.b]\nc = [1, 2]"),
        ("js", "const at = /[({]/.test(x); // :("),
        ("js", "const half = (a / b) / c;"),
        ("ts", "const s = `a ${f(x)} (`;"),
        ("c", "char c = '('; /* ( */"),
        ("rust", "fn f<'a>(x: &'a str) -> char { '{' }"),
        ("sql", "SELECT ')' -- ("),
        ("go", "func f() {\n\tx := `(`\n}"),
        ("bash", "case x in a) ;; esac"),
        ("text", "(((\t  "),
        ("", "def f(:"),
        ("no-such-language", "((("),
    ],
)
def test_good_code_and_what_cannot_be_judged_are_left_alone(language: str, text: str) -> None:
    assert rules(language, text) == []


@pytest.mark.parametrize(
    ("language", "text", "rule"),
    [
        ("python", "def f(:", "parses"),
        ("python", "if x:\npass", "parses"),
        ("python", "a\0b", "parses"),
        ("pycon", ">>> 1 +", "parses"),
        ("json", "{'a': 1}", "parses"),
        ("json", '{"a": NaN}', "parses"),
        ("jsonl", '{"a": 1}\n{', "parses"),
        ("toml", "a = ", "parses"),
        ("js", "f(a;", "brackets"),
        ("java", "}", "brackets"),
        ("sql", "SELECT (a]", "brackets"),
        ("python", "x = 1 ", "format"),
        ("python", f"x = {'1' * 130}", "format"),
        ("c", "int main() {\n\tif (x) {\n    y();\n\t}\n}", "format"),
        ("python", "def f():\n" + "    pass\n" * 60, "length"),
    ],
)
def test_each_fault_is_found_under_its_rule(language: str, text: str, rule: str) -> None:
    assert rules(language, text) == [rule]


def test_a_function_of_sixty_lines_is_not_overlong_and_a_nested_one_counts_for_itself() -> None:
    assert rules("python", "def f():\n" + "    pass\n" * 59) == []
    assert rules("python", "class A:\n    async def f(self):\n" + "        pass\n" * 60) == ["length"]


def test_a_finding_names_its_block_and_line() -> None:
    found = code("```python\nx = 1\n```\n\n~~~js\nf(\n\ng]\n~~~\n")
    assert found.blocks == 2
    assert [(each.block, each.language, each.detail) for each in found.findings] == [
        (2, "js", "line 3: ] closes the ( of line 1")
    ]


def test_a_block_that_never_ends_is_a_finding() -> None:
    assert [each.rule for each in code("```\nx").findings] == ["closed"]


def test_an_answer_without_code_has_nothing_to_find() -> None:
    assert (code("No code, only `x(`.").blocks, code("").flagged) == (0, False)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "(" * 50_000),
        ("python", "-" * 100_000 + "1"),
        ("python", "1+" * 50_000 + "1"),
        ("python", "x." * 50_000 + "x"),
        ("python", "".join(" " * n + "if x:\n" for n in range(200))),
        ("json", "[" * 50_000),
        ("json", '{"a":' * 30_000),
        ("toml", "a = " + "[" * 50_000),
        ("toml", "a" + ".a" * 50_000 + " = 1"),
        ("toml", "a" + "  .  a" * 30_000 + " = 1"),
        ("toml", '"a b"' + '."a b"' * 30_000 + " = 1"),
        ("js", "(" * 50_000),
        ("python", "x = 1\n" * MAX_BLOCK),
    ],
)
def test_huge_and_deep_code_is_a_finding_and_no_crash(language: str, text: str) -> None:
    assert code(f"```{language}\n{text}\n```").flagged


@pytest.mark.parametrize("text", ["/*" * 60_000, '"\\' * 60_000, "=/[" * 40_000, "`\\" * 60_000, "'\\" * 60_000])
def test_marks_that_are_never_closed_are_read_once(text: str) -> None:
    assert code(f"```js\n{text}\n```").blocks == 1


@pytest.mark.parametrize(
    ("answer", "told"),
    [("```python\nx = 1\n```\n" * 201, "more than 200 blocks"), ("x\n" * 1_000_001, "more than 2,000,000 characters")],
)
def test_what_was_not_looked_into_is_told(answer: str, told: str) -> None:
    (finding,) = code(answer).findings
    assert finding.detail == f"{told}: the rest was not looked into"


def test_code_is_never_run_and_warns_nobody() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not code("```python\nassert (0, 'x')\nraise SystemExit('\\d' is 1)\n```").flagged


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["python", "json", "toml", "js", "rust", "sql", "go", "php"]), st.text(max_size=200))
def test_any_text_in_any_language_gives_a_report(language: str, text: str) -> None:
    assert code(f"```{language}\n{text}\n```").blocks >= 1
