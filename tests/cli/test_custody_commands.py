import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hansard.surfaces.cli.main import main
from small_run import record_run


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HANSARD_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def ledger(tmp_path: Path, state: Path) -> Path:
    path = tmp_path / "ledger.db"
    asyncio.run(record_run(path, state))
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], state: Path) -> Any:
    def call(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(word) for word in words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_a_checkpoint_a_pin_and_strict_verification(run: Any, ledger: Path) -> None:
    code, note, _ = run("ledger", "checkpoint", "--ledger", ledger)
    assert code == 0
    assert note.splitlines()[1] == "13"
    assert note.count("\n— ") == 2
    _, pin, _ = run("ledger", "pin", "--ledger", ledger)
    assert run("verify", ledger, "--strict", "--pin", pin.strip())[0] == 0
    wrong = pin.strip()[:-1] + ("0" if pin.strip()[-1] != "0" else "1")
    assert run("verify", ledger, "--pin", wrong)[0] == 21


def test_sealing_rotates_and_destroys_the_key(run: Any, ledger: Path, state: Path) -> None:
    before = {path.name for path in state.glob("logs/*/epoch-*.key")}
    code, out, _ = run("ledger", "seal", "--ledger", ledger, "--json")
    assert (code, json.loads(out)["epoch"]) == (0, 1)
    assert before == {"epoch-0.key"}
    assert {path.name for path in state.glob("logs/*/epoch-*.key")} == {"epoch-1.key"}
    pin = run("ledger", "pin", "--ledger", ledger)[1].strip()
    assert run("verify", ledger, "--strict", "--pin", pin)[0] == 0


def test_a_receipt_is_checked_without_the_ledger(run: Any, ledger: Path, tmp_path: Path) -> None:
    proof = tmp_path / "six.tlog-proof"
    pin = run("ledger", "pin", "--ledger", ledger)[1].strip()
    code, out, _ = run("ledger", "receipt", 6, "--disclose", "output", "-o", proof, "--ledger", ledger)
    assert (code, proof.stat().st_mode & 0o777) == (0, 0o600)
    assert "hansard verify" in out
    code, out, _ = run("verify", proof, "--pin", pin, "--json")
    assert (code, json.loads(out)["receipt"]["opened"]) == (0, ["output"])
    tampered = tmp_path / "tampered.tlog-proof"
    tampered.write_text(proof.read_text().replace("index 6", "index 7"))
    assert run("verify", tampered, "--pin", pin)[0] == 20
    assert run("ledger", "receipt", 6, "-o", proof, "--ledger", ledger)[0] == 2
    assert run("ledger", "receipt", 99, "--ledger", ledger)[0] == 2
    assert run("verify", ledger, "--against", proof)[0] == 0


def test_an_export_carries_its_verifier(run: Any, ledger: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    code, out, _ = run("ledger", "export", folder, "--ledger", ledger)
    assert (code, "verify.pyz" in out) == (0, True)
    command = [sys.executable, "-I", "-S", str(folder / "verify.pyz"), str(folder), "--deep"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    with (folder / "bodies.jsonl").open("r+b") as file:
        text = file.read()
        file.seek(0)
        file.write(text.replace(b"unique on email_hash", b"unique on nothing at"))
    assert subprocess.run(command, capture_output=True, check=False).returncode == 20
    assert run("ledger", "export", folder, "--ledger", ledger)[0] == 2


def test_an_export_comes_back_as_the_same_log(run: Any, ledger: Path, tmp_path: Path) -> None:
    run("ledger", "export", tmp_path / "out", "--ledger", ledger)
    back = tmp_path / "back.db"
    code, out, _ = run("ledger", "import", tmp_path / "out", "--ledger", back, "--json")
    assert (code, json.loads(out)["entries"]) == (0, 13)
    roots = [json.loads(run("verify", each, "--deep", "--json")[1])["root"] for each in (ledger, back)]
    assert roots[0] == roots[1]
    assert run("ledger", "import", tmp_path / "out", "--ledger", back)[0] == 2
    assert run("ledger", "import", tmp_path / "nothing", "--ledger", tmp_path / "new.db")[0] == 2
    assert not (tmp_path / "new.db").exists()


def test_a_restored_backup_is_refused_loudly_and_can_be_adopted(run: Any, ledger: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"
    shutil.copyfile(ledger, backup)
    assert run("ledger", "redact", 5, "prompt", "--reason", "legal", "--ledger", ledger)[0] == 0
    shutil.copyfile(backup, ledger)
    code, _, err = run("ledger", "redact", 6, "output", "--reason", "legal", "--ledger", ledger)
    assert (code, "ROLLED BACK" in err) == (11, True)
    assert "adopt" in err
    assert run("ledger", "show", "--ledger", ledger)[0] == 0
    new = tmp_path / "new.db"
    code, out, _ = run("ledger", "adopt", ledger, "--ledger", new, "--json")
    assert code == 0
    view = json.loads(out)
    assert view["adopts_size"] == 13
    assert run("verify", new, "--strict", "--pin", view["pin"])[0] == 0
    genesis = json.loads(run("ledger", "get", 0, "--ledger", new, "--json")[1])
    assert genesis["data"]["adopts_root"] == view["adopts_root"]


def test_keys_that_are_elsewhere_leave_the_log_readable_and_growing_unsealed(
    run: Any, ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANSARD_STATE", str(tmp_path / "elsewhere"))
    assert run("ledger", "redact", 5, "prompt", "--reason", "legal", "--ledger", ledger)[0] == 0
    code, _, err = run("ledger", "checkpoint", "--ledger", ledger)
    assert (code, "not on this machine" in err) == (2, True)
    report = json.loads(run("verify", ledger, "--json")[1])
    assert (report["ok"], report["unsealed_tail"]) == (True, 1)


def test_without_cryptography_a_ledger_is_unsigned_and_says_so(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "cryptography.py").write_text("raise ImportError('not here')")
    root = Path(__file__).parents[2]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(blocked), "HOME": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-s", str(root / "examples" / "demo.py"), "--folder", str(tmp_path / "demo")],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "UNSIGNED" in ran.stdout
    assert ran.stdout.count(": caught") == 5
    assert "NOT CAUGHT" not in ran.stdout
