import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
from base64 import b64decode, b64encode
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from command_line import hansard, started
from daemons import wait_for
from forging import chain, read, write
from hansard.app.settings import Settings
from hansard.app.wiring import open_ledger
from hansard.domain.custody import Repaired
from hansard.record.recorder import Step, record_now
from hansard.seal import genesis
from ledgers import request
from small_run import record_run
from store.disks import tmpfs


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HANSARD_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def ledger(tmp_path: Path, state: Path) -> Path:
    path = tmp_path / "ledger.db"
    asyncio.run(record_run(path, state))
    return path


def test_a_checkpoint_a_pin_and_strict_verification(run: Any, ledger: Path) -> None:
    code, note, _ = run("ledger", "checkpoint", "--ledger", ledger)
    assert code == 0
    assert note.splitlines()[1] == "13"
    assert note.count("\n— ") == 2
    _, pin, _ = run("ledger", "pin", "--ledger", ledger)
    assert run("verify", ledger, "--strict", "--pin", pin.strip())[0] == 0
    wrong = pin.strip()[:-1] + ("0" if pin.strip()[-1] != "0" else "1")
    assert run("verify", ledger, "--pin", wrong)[0] == 21


def test_what_is_checked_elsewhere_is_printed_byte_for_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    assert hansard(tmp_path, "init", "--ledger", "x.db", "--origin", "نمونه\u200cها.example/log").returncode == 0
    for words in (("pin",), ("checkpoint",), ("receipt", "0"), ("consistency", "1")):
        (tmp_path / words[0]).write_text(hansard(tmp_path, "ledger", *words, "--ledger", "x.db").stdout)
    done = hansard(tmp_path, "verify", "x.db", "--pin", "pin", "--against", "checkpoint", "receipt", "consistency")
    assert (done.returncode, done.stderr) == (0, "")
    assert hansard(tmp_path, "verify", "receipt", "--pin", "pin").returncode == 0


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
    twice = json.loads(run("ledger", "receipt", 6, *["--disclose", "output"] * 2, "--json", "--ledger", ledger)[1])
    assert (twice["disclosed"], twice["receipt"]) == (["output"], proof.read_text())
    tampered = tmp_path / "tampered.tlog-proof"
    tampered.write_text(proof.read_text().replace("index 6", "index 7"))
    assert run("verify", tampered, "--pin", pin)[0] == 20
    assert run("ledger", "receipt", 6, "-o", proof, "--ledger", ledger)[0] == 2
    assert run("ledger", "receipt", 99, "--ledger", ledger)[0] == 2
    assert run("verify", ledger, "--against", proof)[0] == 0


def test_a_receipt_that_is_a_page_is_verified_too(run: Any, ledger: Path, tmp_path: Path) -> None:
    page, broken = tmp_path / "six.html", tmp_path / "broken.html"
    told = run("ledger", "receipt", 6, "--html", "-o", page, "--ledger", ledger)[1]
    assert told == f"wrote {page}; open it in a browser, or check it with: hansard verify {page}\n"
    pin = run("ledger", "pin", "--ledger", ledger)[1].strip()
    code, out, _ = run("verify", page, "--pin", pin)
    assert (code, "entry        6: " in out) == (0, True)
    assert "that the page shows what its receipt says: the receipt in it was read, and nothing else of it" in out
    assert run("verify", ledger, "--against", page)[0] == 0
    carried = re.search(r'id="receipt">(.*)</script>', page.read_text())
    assert carried
    cut = b64encode(b64decode(carried[1]).replace(b"index 6", b"index 7")).decode()
    for instead, why in (
        (cut, "the entry is not in the log that was signed"),
        ("", "the page carries no receipt"),
        ("AB==", "is not canonical base64"),
        ("é", "the page carries no receipt"),
        (f'{carried[1]}</script><script type="text/plain" id="receipt">{cut}', "the page carries several receipts"),
    ):
        broken.write_text(page.read_text().replace(carried[1], instead))
        code, out, _ = run("verify", broken)
        assert (code, why in out) == (20, True), out
        if instead != cut:
            assert run("verify", ledger, "--against", broken)[0] == 2


@pytest.mark.needs_root
def test_a_receipt_that_finds_no_space_leaves_no_half_of_itself(run: Any, ledger: Path, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", 8) as disk:
        page = disk / "six.html"
        code, _, err = run("ledger", "receipt", 6, "--html", "-o", page, "--ledger", ledger)
        assert (code, "No space left on device; nothing was left there" in err) == (11, True), err
        assert not page.exists()


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


def test_a_broken_log_is_not_signed_and_carried_away_only_with_a_word(run: Any, ledger: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(ledger, isolation_level=None)) as database:
        database.execute("UPDATE entries SET line = replace(line, '\"tasks\":2', '\"tasks\":9') WHERE seq = 4")
    for words in (("checkpoint",), ("seal",), ("seal", "--lost-key")):
        code, _, err = run("ledger", *words, "--ledger", ledger)
        assert (code, f"{ledger} may not be extended: " in err) == (11, True), err
    code, _, err = run("ledger", "export", tmp_path / "copy", "--ledger", ledger)
    assert (code, f"nothing was signed anew: {ledger} may not be extended: " in err) == (0, True)
    assert run("verify", tmp_path / "copy")[0] == 20


def test_what_another_process_writes_is_carried_away_meanwhile(run: Any, state: Path, tmp_path: Path) -> None:
    lines, receipt = tmp_path / "ledger.jsonl", tmp_path / "six.tlog-proof"
    asyncio.run(record_run(lines, state))
    with open_ledger(Settings(ledger=str(lines), state=state), writing=True):
        assert run("ledger", "seal", "--ledger", lines)[0] == 11
        assert run("ledger", "checkpoint", "--ledger", lines)[0] == 0
        assert run("ledger", "receipt", 6, "-o", receipt, "--ledger", lines)[0] == 0
        assert run("ledger", "export", tmp_path / "out", "--ledger", lines)[0] == 0
    assert run("verify", receipt)[0] == run("verify", tmp_path / "out", "--deep")[0] == 0


def test_beside_a_process_that_seals_the_newest_signed_state_is_kept(
    run: Any, ledger: Path, state: Path, tmp_path: Path
) -> None:
    settings = Settings(ledger=str(ledger), state=state)
    with open_ledger(settings, writing=True) as daemon:
        assert daemon.sealer
        record_now(daemon.store, [Step(request("more"), "human:ann")])
        code, note, err = run("ledger", "checkpoint", "--ledger", ledger)
        assert (code, note.splitlines()[1]) == (0, "13")
        assert "1 newer entry is not in it" in err
        code, _, err = run("ledger", "seal", "--ledger", ledger)
        assert (code, "another process seals" in err) == (11, True)
    kept = tmp_path / "kept"
    kept.write_text(note)
    assert run("verify", ledger, "--against", kept)[0] == 0


def test_a_writer_of_json_lines_may_begin_while_they_are_exported(state: Path, tmp_path: Path) -> None:
    settings = Settings(ledger=str(tmp_path / "ledger.jsonl"), state=state)
    asyncio.run(record_run(Path(settings.ledger), state))
    with open_ledger(settings, writing=True) as opened:
        steps = [Step(request("x" * 30_000), "human:test") for _ in range(500)]
        record_now(opened.store, steps, sealing=opened.extending())
    process = started(tmp_path, "ledger", "export", "out", "--ledger", settings.ledger)
    try:
        partial = wait_for(lambda: next(tmp_path.glob(".out.*.partial"), None))
        # Halted in the middle: it has signed, and copies.
        process.send_signal(signal.SIGSTOP)
        assert partial.exists()
        with open_ledger(settings, writing=True) as opened:
            record_now(opened.store, [Step(request(), "human:test")], sealing=opened.extending())
    finally:
        process.send_signal(signal.SIGCONT)
        process.communicate()
    assert process.returncode == 0
    assert hansard(tmp_path, "verify", "out", "--deep").returncode == 0


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


def test_a_file_that_nothing_can_be_brought_in_from_makes_no_ledger(run: Any, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE recipes (name)")
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "entries.jsonl").write_text("gone\n")
    for name in ("other.db", "gone"):
        assert run("ledger", "import", tmp_path / name, "--ledger", tmp_path / "new.db")[0] == 2
    assert not list(tmp_path.glob("new.db*"))


@pytest.mark.parametrize("name", ["link.db", "link.jsonl"])
def test_a_link_to_a_ledger_that_is_not_there_now_gets_no_new_one_in_its_place(
    run: Any, tmp_path: Path, name: str
) -> None:
    link = tmp_path / name
    link.symlink_to(tmp_path / "unmounted" / name)
    for words in (("init",), ("submit", "hello", "--provider", "rehearsal", "--quiet"), ("ledger", "adopt", tmp_path)):
        code, _, err = run(*words, "--ledger", link)
        assert (code, name in err) == (2, True), err
    assert link.is_symlink()
    assert not (tmp_path / "unmounted").exists()


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


def test_an_adoption_that_failed_behind_its_first_entry_goes_on_when_it_is_said_again(
    run: Any, ledger: Path, tmp_path: Path, state: Path
) -> None:
    [keys] = state.glob("logs/*")
    (keys / "adopted-by" / "in the way").mkdir(parents=True)
    adopting = ("ledger", "adopt", ledger, "--ledger", tmp_path / "new.db")
    assert run(*adopting)[0] == 11
    shutil.rmtree(keys / "adopted-by")
    code, out, err = run(*adopting, "--json")
    assert code == 0, err
    assert (keys / "adopted-by").is_file()
    assert run("verify", tmp_path / "new.db", "--strict", "--pin", json.loads(out)["pin"])[0] == 0
    # What goes on from another log, or has gone on, is left alone.
    for old in (tmp_path / "new.db", ledger):
        code, _, err = run("ledger", "adopt", old, "--ledger", tmp_path / "new.db")
        assert (code, "is there already" in err) == (2, True), err
        assert run(*WRITING[0], "--ledger", tmp_path / "new.db")[0] == 0


@pytest.mark.parametrize("signed", [True, False], ids=["signed", "unsigned"])
def test_a_log_that_was_adopted_is_only_read(
    run: Any, tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch, *, signed: bool
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(genesis, "available", lambda: signed)
        ledger = tmp_path / "ledger.db"
        asyncio.run(record_run(ledger, state))
    # What goes on is named in whatever bytes its folder has.
    folder, new = tmp_path / os.fsdecode(b"new \xff"), "new.db"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert run("ledger", "adopt", ledger, "--ledger", new)[0] == 0
    for words in (*WRITING, *([("ledger", "seal"), ("ledger", "checkpoint")] if signed else [])):
        code, _, err = run(*words, "--ledger", ledger)
        assert (code, f"was adopted: {tmp_path / 'new '}" in err) == (11, True), words
    assert finding(run, ledger)[0] is False
    assert run("verify", ledger, *(["--strict"] if signed else []))[0] == 0
    assert run("ledger", "export", tmp_path / "out", "--ledger", ledger)[0] == 0
    assert run("ledger", "seal", "--ledger", new)[0] == 0
    [end] = state.glob("logs/*/adopted-by")
    end.unlink()
    assert run(*WRITING[1], "--ledger", ledger)[0] == 0


WRITING: tuple[tuple[object, ...], ...] = (
    ("submit", "x", "--provider", "rehearsal", "--lane", "backend"),
    ("ledger", "redact", 5, "prompt", "--reason", "legal"),
    ("ledger", "repair"),
)


def test_whoever_only_reads_follows_a_run_with_a_gate_without_any_keys(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = ("--ledger", str(tmp_path / "g.db"))
    asked = ("submit", "x", "--provider", "rehearsal", "--lane", "backend", "--gate", "plan", *where)
    assert run(*asked)[0] == 14
    [gate] = json.loads(run("gates", "--json", *where)[1])
    assert run("gates", "reject", gate["gate"], "--resume", *where)[0] in (11, 12, 13)
    monkeypatch.setenv("HANSARD_STATE", str(tmp_path / "elsewhere"))
    code, out, err = run("runs", "follow", "last", *where)
    assert (code in (11, 12, 13), "not kept from here" in err, "gate" in out) == (True, True, True), (code, err)


def test_a_signed_log_is_not_extended_where_its_keys_are_not(
    run: Any, ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANSARD_STATE", str(tmp_path / "elsewhere"))
    for words in WRITING:
        code, _, err = run(*words, "--ledger", ledger)
        assert (code, "its keys are not on this machine" in err) == (11, True), words
        assert str(tmp_path / "elsewhere" / "logs") in err
        assert "HANSARD_STATE" in err
    code, _, err = run("ledger", "checkpoint", "--ledger", ledger)
    assert (code, "not on this machine" in err) == (2, True)
    for words in (("checkpoint",), ("seal",), ("seal", "--lost-key")):
        _, _, err = run("ledger", *words, "--ledger", ledger)
        assert ("HANSARD_STATE" in err, advised(err)[:2]) == (True, ["ledger", "adopt"]), words
    report = json.loads(run("verify", ledger, "--json")[1])
    assert (report["ok"], report["size"], report["unsealed_tail"]) == (True, 13, 0)
    reading: tuple[tuple[object, ...], ...] = (
        ("runs", "list"),
        ("ledger", "receipt", 6),
        ("ledger", "export", tmp_path / "out"),
    )
    for words in reading:
        assert run(*words, "--ledger", ledger)[0] == 0


def test_without_keys_a_log_is_extended_while_another_process_seals_it(
    run: Any, ledger: Path, tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_ledger(Settings(ledger=str(ledger), state=state), writing=True) as sealing:
        assert sealing.sealer is not None
        monkeypatch.setenv("HANSARD_STATE", str(tmp_path / "elsewhere"))
        assert run("ledger", "redact", 5, "prompt", "--reason", "legal", "--ledger", ledger)[0] == 0
    report = json.loads(run("verify", ledger, "--json")[1])
    assert (report["ok"], report["size"], report["unsealed_tail"]) == (True, 14, 0)


def test_a_copy_that_was_rolled_back_is_not_written_to_past_its_keys(
    run: Any, ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = tmp_path / "backup.db"
    shutil.copyfile(ledger, backup)
    assert run("ledger", "redact", 5, "prompt", "--reason", "legal", "--ledger", ledger)[0] == 0
    monkeypatch.setenv("HANSARD_STATE", str(tmp_path / "elsewhere"))
    assert run(*WRITING[0], "--ledger", backup)[0] == 11
    assert json.loads(run("verify", backup, "--json")[1])["size"] == 13


def test_without_cryptography_a_signed_log_is_read_and_not_extended(ledger: Path, tmp_path: Path, state: Path) -> None:
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked" / "cryptography.py").write_text("raise ImportError('not here')")
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "blocked"), "HANSARD_STATE": str(state)}
    for words, code in ((WRITING[0], 11), (("runs", "list"), 0)):
        argv = [sys.executable, "-m", "hansard", *map(str, words), "--ledger", str(ledger)]
        ran = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
        assert ran.returncode == code, ran.stderr
        assert ("it is signed, and `cryptography` is not installed" in ran.stderr) == (code == 11)


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
    # It has nothing that would grow under a signature, and nobody is sent to sign it.
    argv = [
        sys.executable,
        "-m",
        "hansard",
        "ledger",
        "consistency",
        "1",
        "--ledger",
        str(tmp_path / "demo" / "ledger.db"),
    ]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
    assert (ran.returncode, "is unsigned" in ran.stderr, "sign one" in ran.stderr) == (2, True, False)


def finding(run: Any, ledger: Path) -> tuple[bool, str]:
    """Whether doctor calls a ledger well, and what it says of it."""
    [found] = [each for each in json.loads(run("doctor", "--ledger", ledger, "--json")[1]) if each["name"] == "ledger"]
    return found["ok"], found["detail"]


def rolled_back(run: Any, ledger: Path, _: Path) -> None:
    backup = ledger.with_name("backup.db")
    shutil.copyfile(ledger, backup)
    assert run("ledger", "redact", 5, "prompt", "--reason", "legal", "--ledger", ledger)[0] == 0
    shutil.copyfile(backup, ledger)


def epoch_key_gone(_: Any, __: Path, keys: Path) -> None:
    (keys / "epoch-0.key").unlink()


def identity_key_gone(_: Any, __: Path, keys: Path) -> None:
    (keys / "identity.key").unlink()


def key_open_to_all(_: Any, __: Path, keys: Path) -> None:
    (keys / "identity.key").chmod(0o644)


def no_room_for_the_anchor(_: Any, ledger: Path, keys: Path) -> None:
    with open_ledger(Settings(ledger=str(ledger), state=keys.parent.parent), writing=True) as opened:
        record_now(opened.store, [Step(Repaired(what="derived", count=1), "repair")])
    (keys / "last-checkpoint.new").mkdir()


def keys_gone(_: Any, __: Path, keys: Path) -> None:
    shutil.rmtree(keys)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (rolled_back, "ROLLED BACK"),
        (epoch_key_gone, "epoch key 0"),
        (identity_key_gone, "identity key"),
        (key_open_to_all, "0644"),
        (keys_gone, "not on this machine"),
    ],
)
def test_doctor_does_not_call_a_ledger_well_that_would_refuse_to_be_written(
    run: Any, ledger: Path, state: Path, spoil: Any, said: str
) -> None:
    assert finding(run, ledger)[0]
    [keys] = (state / "logs").iterdir()
    spoil(run, ledger, keys)
    ok, detail = finding(run, ledger)
    assert (ok, said in detail) == (False, True), detail
    code, _, err = run("ledger", "redact", 6, "output", "--reason", "legal", "--ledger", ledger)
    assert (code, said in err) == (11, True)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (rolled_back, "ROLLED BACK"),
        (epoch_key_gone, "epoch key 0"),
        (identity_key_gone, "identity key"),
        (no_room_for_the_anchor, "cannot use"),
    ],
)
def test_whoever_cannot_sign_anew_hands_out_what_was_signed_before(
    run: Any, ledger: Path, state: Path, tmp_path: Path, spoil: Any, said: str
) -> None:
    [keys] = (state / "logs").iterdir()
    spoil(run, ledger, keys)
    for words in (("export", tmp_path / "out"), ("receipt", 6, "-o", tmp_path / "six.tlog-proof")):
        code, _, err = run("ledger", *words, "--ledger", ledger)
        assert (code, "nothing was signed anew" in err, said in err) == (0, True, True), err
        assert run("verify", words[-1])[0] == 0


@pytest.mark.parametrize("nonce", ["../../private", "..", "", "x" * 400])
def test_a_log_of_a_stranger_leads_to_no_folder_outside_of_its_own(
    run: Any, ledger: Path, state: Path, tmp_path: Path, nonce: str
) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    entries = read(ledger)
    entries[0]["data"]["nonce"] = nonce
    write(ledger, chain(entries))
    before = sorted(state.rglob("*"))
    for words in (("doctor",), ("ledger", "show"), ("ledger", "export", tmp_path / "out")):
        code, _, err = run(*words, "--ledger", ledger)
        assert code == 0, err
    assert run("ledger", "redact", 5, "prompt", "--reason", "legal", "--ledger", ledger)[0] == 11
    assert (list(private.iterdir()), sorted(state.rglob("*"))) == ([], before)


def advised(text: str) -> list[str]:
    """The command that a message ends with."""
    return shlex.split(text.strip().rpartition("hansard ")[2])


def test_the_commands_that_messages_give_can_be_typed(
    run: Any, ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a place").mkdir()
    monkeypatch.chdir(tmp_path / "a place")
    assert run(*advised(run("ledger", "consistency", 5, "-o", "c d.txt", "--ledger", ledger)[1]))[0] == 0
    assert run(*advised(run("ledger", "receipt", 6, "-o", "r d.txt", "--ledger", ledger)[1]))[0] == 0
    rolled_back(run, ledger, tmp_path)
    refused = run("ledger", "redact", 6, "output", "--reason", "legal", "--ledger", ledger)[2]
    code, out, err = run(*advised(refused))
    assert code == 0, err
    assert "goes on from" in out


@pytest.mark.parametrize("flags", [(), ("--without-bodies",)])
def test_an_export_says_how_to_check_it(run: Any, ledger: Path, tmp_path: Path, flags: tuple[str, ...]) -> None:
    out = run("ledger", "export", tmp_path / "an export", *flags, "--ledger", ledger)[1]
    command = shlex.split(out.strip().rpartition("check it with: ")[2])
    ran = subprocess.run([sys.executable, *command[1:]], capture_output=True, text=True, check=False)
    assert (command[0], ran.returncode) == ("python3", 0), ran.stdout


def test_a_rotation_without_the_lost_key_does_not_claim_a_seal(run: Any, ledger: Path, state: Path) -> None:
    code, _, err = run("ledger", "seal", "--lost-key", "--ledger", ledger)
    assert (code, "is not lost" in err) == (2, True)
    # What it names retires a key for good: it must be the key of this ledger.
    assert advised(err) == ["ledger", "seal", "--ledger", str(ledger)]
    next(state.glob("logs/*/epoch-0.key")).unlink()
    refused = run("ledger", "seal", "--ledger", ledger)[2]
    code, out, _ = run(*advised(refused))
    assert (code, "sealed to" in out) == (0, False)
    assert "nothing from there on counts as sealed" in out
    report = json.loads(run("verify", ledger, "--json")[1])
    assert (report["signed"]["sealed_to"], report["unsealed_tail"]) == (13, 1)
    assert json.loads(run("ledger", "consistency", 5, "--ledger", ledger, "--json")[1])["size"] == 13
    code, said, _ = run("ledger", "seal", "--ledger", ledger)
    assert (code, said.split(";")[0], "Size 15 is signed and not sealed" in said) == (0, "sealed to size 13", True), (
        said
    )
    assert json.loads(run("verify", ledger, "--json")[1])["signed"]["sealed_to"] == 13
    code, out, _ = run(*(str(ledger.with_name(word)) if word == "NEW.db" else word for word in advised(out)))
    assert code == 0
    assert run("verify", ledger.with_name("NEW.db"), "--strict", "--pin", out.splitlines()[-1])[0] == 0


@pytest.mark.parametrize("place", ["nowhere/out", "file/out", "n" * 300])
def test_a_place_that_the_system_cannot_take_is_wrong_usage_for_every_command(
    run: Any, ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    for words in (
        ("ledger", "receipt", 3, "-o", place),
        ("ledger", "consistency", 3, "-o", place),
        ("ledger", "export", place),
        ("plan", "do it", "--provider", "rehearsal", "-o", place),
    ):
        code, _, err = run(*words, "--ledger", ledger)
        assert (code, place[:20] in err) == (2, True), (words, err)
    for named in (f"{place}.db", f"{place}.jsonl"):
        code, _, err = run("runs", "list", "--ledger", named)
        assert (code, place[:20] in err) == (2, True), err


@pytest.mark.parametrize(
    "words", [("init", "--ledger", "/proc/nowhere.db"), ("init", "--ledger", "/proc/nowhere.jsonl")]
)
def test_a_ledger_where_none_can_be_made_is_wrong_usage(run: Any, words: tuple[str, ...]) -> None:
    code, _, err = run(*words)
    assert code == 2
    assert "choose a folder that exists and is writable" in err


def test_keys_where_no_folder_can_be_made_are_wrong_usage_and_leave_no_ledger(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANSARD_STATE", "/proc/nowhere")
    code, _, err = run("submit", "please", "--provider", "rehearsal", "--ledger", tmp_path / "new" / "log.db")
    assert code == 2
    assert "HANSARD_STATE names another place for them" in err
    assert not (tmp_path / "new").exists()


def test_a_demonstration_where_no_folder_can_be_made_is_wrong_usage(run: Any) -> None:
    code, _, err = run("demo", "--folder", "/proc/nowhere")
    assert code == 2
    assert "cannot use /proc/nowhere" in err


@pytest.mark.needs_root
def test_a_plan_that_does_not_fit_on_the_disk_leaves_nothing_there(run: Any, ledger: Path, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", 8) as disk:
        (disk / "full").write_bytes(bytes(8 << 10))
        place = disk / "plan.json"
        code, _, err = run("plan", "do it", "--provider", "rehearsal", "-o", place, "--ledger", ledger)
        assert code == 11
        assert f"cannot write {place}: No space left on device; nothing was left there" in err
        assert not place.exists()
