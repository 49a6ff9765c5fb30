import asyncio
import json
import os
import shlex
import signal
import subprocess
import tempfile
import venv
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from hansard.app.service import Run
from hansard.surfaces.cli.main import main
from shell import hansard
from store.disks import tmpfs


def test_the_demonstration_goes_from_request_to_receipt_and_catches_every_tampering(tmp_path: Path) -> None:
    ran = hansard(tmp_path, "demo", "--folder", "demo", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    view = json.loads(ran.stdout)
    run = view["run"]
    assert (run["state"], run["mode"], run["plan"]["by"]) == ("answered", "request", "coordinator")
    assert {task["task"]: task["state"] for task in run["tasks"]} == dict.fromkeys(
        ("schema", "limits", "endpoint", "guide"), "passed"
    )
    [limits] = [task for task in run["tasks"] if task["task"] == "limits"]
    assert [(each["rung"], each["verdict"]["ok"]) for each in limits["attempts"]] == [
        ("cheap", False),
        ("capable", False),
        ("panel:security", True),
    ]
    assert limits["attempts"][-1]["panel"]["unresolved"][0]["topic"] == "locking accounts out"
    assert (view["report"]["ok"], len(view["tampered"])) == (True, 6)
    assert all(each["caught_by_deep"] for each in view["tampered"])
    assert [each["name"] for each in view["tampered"] if not each["caught_by_chain"]] == [
        "swapped a body",
        "deleted a body silently",
    ]
    kept = [each for each in (tmp_path / "demo").iterdir() if each.is_file()]
    assert [each.name for each in kept if each.stat().st_mode & 0o077] == []


def test_what_the_demonstration_tells_people_to_type_works(tmp_path: Path) -> None:
    ran = hansard(tmp_path, "demo", "--folder", "a demo")
    _, _, commands = ran.stdout.partition("try it yourself:\n")
    lines = [shlex.split(line) for line in commands.splitlines()]
    words = [line[line.index("hansard") + 1 :] for line in lines]
    assert [hansard(tmp_path, *each).returncode for each in words] == [0, 0, 0, 20]


def test_with_nothing_installed_what_it_tells_people_to_type_works_too(tmp_path: Path) -> None:
    venv.create(tmp_path / "a bare one", with_pip=False)
    where: dict[str, Any] = {"cwd": tmp_path, "capture_output": True, "text": True, "check": False}
    where["env"] = {"PATH": os.defpath, "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    program = Path(__file__).parents[2] / "examples" / "demo.py"
    ran = subprocess.run([tmp_path / "a bare one" / "bin" / "python", program, "--folder", "demo"], **where)
    assert "UNSIGNED" in ran.stdout, ran.stderr
    _, _, commands = ran.stdout.partition("try it yourself:\n")
    assert [subprocess.run(line, shell=True, **where).returncode for line in commands.splitlines()] == [0, 0, 20]


def test_both_tasks_of_the_first_wave_are_at_work_at_once(tmp_path: Path) -> None:
    hansard(tmp_path, "demo", "--folder", "demo")
    shown = hansard(tmp_path, "ledger", "show", "--ledger", "demo/ledger.db", "--limit", "0", "--json")
    entries = [json.loads(line) for line in shown.stdout.splitlines()]
    kinds = [(entry["kind"], entry["data"].get("task")) for entry in entries]
    assert kinds.index(("task.attempted", "limits")) < kinds.index(("task.returned", "schema"))


def test_a_demonstration_that_is_interrupted_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def interrupted(run: Run) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)

    monkeypatch.setattr(Run, "ended", interrupted)
    assert main(["demo", "--quiet", "--folder", str(tmp_path / "demo")]) == 130
    said = capsys.readouterr()
    assert (said.out, said.err.split(";")[0]) == ("", "hansard: interrupted")


@pytest.mark.skipif(find_spec("xllamacpp") is not None, reason="the local model is installed here")
def test_a_missing_model_is_told_with_its_install_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for words in (("--folder", "demo/here"), ()):
        ran = hansard(tmp_path, "demo", *words, "--local")
        assert (ran.returncode, "pip install 'hansard[local]'" in ran.stderr) == (2, True)
        assert "hansard.toml" not in ran.stderr
        assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "mine").touch()
    ran = hansard(tmp_path, "demo", "--folder", "demo")
    assert (ran.returncode, "not empty" in ran.stderr) == (2, True)


@pytest.mark.needs_root
def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", 64) as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        ran = hansard(tmp_path, "demo", "--folder", "disk/demo")
        assert (ran.returncode, ran.stderr) == (2, "hansard: cannot use disk/demo: Read-only file system\n")
