"""The frame keeps its promises: pinned without hosts, free of one machine's paths, set up by two commands."""

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from components import need
from sampled import spread

ROOT = Path(__file__).parent.parent
REGISTRY = re.compile(
    r"https?://\S*(?:pypi|pythonhosted|npmjs|debian\.org/debian|crates\.io)"
    r"|\b(?:pypi|pythonhosted|npmjs)\.(?:org|com|io)\b"
    r"|--(?:extra-)?index-url[ =]|--find-links[ =]",
    re.IGNORECASE,
)
ONE_MACHINE = re.compile(r"/(?:work|farm)/|/tmp/(?:bash_jobs|brief)|/opt/(?:pypi|wheels)|/root/\.|/home/(?!runner)\w+/")


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    need(shutil.which("git") is not None, "git (apt install git)")
    need((ROOT / ".git").exists(), "a git checkout (git clone, instead of an unpacked archive)")
    # CI may check out as one user and test as another, which git takes for an attack.
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def project_files() -> list[Path]:
    """What is tracked, or would be with the next `git add`."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    assert listed.returncode == 0, listed.stderr
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def lines_with(pattern: re.Pattern[str], files: list[Path]) -> list[str]:
    return [
        f"{path.name}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]


def pins(name: str) -> Iterator[tuple[Requirement, int]]:
    """Each requirement of a pinned file with the number of its hashes."""
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        requirement, *hashes = line.split(" --hash=sha256:")
        yield Requirement(requirement), len([each for each in hashes if re.fullmatch("[0-9a-f]{64} *", each)])


def project() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def asked_for(extra: str) -> Iterator[Requirement]:
    """What an extra brings, with extras inside it opened."""
    for text in project()["optional-dependencies"][extra]:
        requirement = Requirement(text)
        if requirement.name == "hansard":
            for inner in requirement.extras:
                yield from asked_for(inner)
        else:
            yield requirement


def test_no_file_names_a_registry() -> None:
    assert lines_with(REGISTRY, project_files()) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    assert lines_with(ONE_MACHINE, project_files()) == []


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (REGISTRY, "see https://" + "py" + "pi.org/project/hansard"),
        (REGISTRY, "--extra-" + "index-url file:///srv"),
        (REGISTRY, "registry." + "npm" + "js.org"),
        (ONE_MACHINE, "open('/" + "work/main/x')"),
        (ONE_MACHINE, "/home/" + "someone/x"),
    ],
)
def test_a_named_registry_or_path_is_found(pattern: re.Pattern[str], line: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(f"fine\n{line}\n", encoding="utf-8")
    assert len(lines_with(pattern, [tmp_path / "file"])) == 1


def test_uv_lock_is_ignored_and_not_tracked() -> None:
    assert git("check-ignore", "--no-index", "uv.lock").returncode == 0
    assert git("ls-files", "uv.lock").stdout == ""


@pytest.mark.parametrize("name", ["run.txt", "dev.txt"])
def test_every_requirement_is_one_version_with_its_hashes(name: str) -> None:
    loose = [str(pin) for pin, hashes in pins(name) if not hashes or not re.fullmatch(r"==[\w.]+", str(pin.specifier))]
    assert loose == []


def test_the_local_model_comes_with_what_asks_it() -> None:
    # The child speaks Chat Completions, and the provider `openai` asks it.
    assert {each.name for each in asked_for("local")} == {"openai", "xllamacpp"}


def test_the_running_set_is_part_of_the_development_set() -> None:
    run, dev = ({f"{pin.name}{pin.specifier}" for pin, _ in pins(name)} for name in ("run.txt", "dev.txt"))
    assert run < dev


@pytest.mark.parametrize(("name", "extra"), [("run.txt", "all"), ("dev.txt", "dev")])
def test_the_pins_meet_what_pyproject_asks_for(name: str, extra: str) -> None:
    pinned = {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin, _ in pins(name)}
    asked = [*map(Requirement, project()["dependencies"]), *asked_for(extra)]
    unmet = [str(each) for each in asked if not each.specifier.contains(pinned.get(canonicalize_name(each.name), "0"))]
    assert unmet == [], "pyproject.toml has moved on: run `make lock`"


def test_the_core_depends_on_cryptography_alone() -> None:
    assert [Requirement(text).name for text in project()["dependencies"]] == ["cryptography"]


def test_the_source_distribution_has_every_folder() -> None:
    built = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    inside = [path.relative_to(ROOT).parts for path in project_files()]
    assert {f"/{parts[0]}" for parts in inside if len(parts) > 1} - set(built["sdist"]["include"]) == set()


def test_ci_runs_the_command_that_people_run() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "\nmake test\n" in script.read_text(encoding="utf-8")
    assert "bash .ci/run" in (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")


def test_a_missing_component_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"needs a sundial \(buy one\)"):
        need(False, "a sundial (buy one)")


def test_a_missing_component_skips_with_its_name_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "")
    with pytest.raises(pytest.skip.Exception, match=r"needs a sundial \(buy one\)"):
        need(False, "a sundial (buy one)")


def test_a_component_that_is_there_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    need(True, "a sundial (buy one)")


def test_tests_never_see_the_users_home_or_settings(tmp_path_factory: pytest.TempPathFactory) -> None:
    base = tmp_path_factory.getbasetemp()
    assert Path.home().is_relative_to(base)
    assert Path(os.environ["XDG_STATE_HOME"]).is_relative_to(base)
    assert not [name for name in os.environ if name.startswith("HANSARD_")]


@pytest.mark.parametrize(
    ("wanted", "cases", "taken"),
    [(1, 5, {0}), (2, 5, {0, 4}), (3, 5, {0, 2, 4}), (6, 30, {0, 5, 11, 17, 23, 29}), (4, 3, {0, 1, 2})],
)
def test_the_cases_that_are_run_are_spread_over_all(wanted: int, cases: int, taken: set[int]) -> None:
    assert spread(wanted, cases) == taken
