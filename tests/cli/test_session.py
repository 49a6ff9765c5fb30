"""`hansard session …` on a directory that `hansard deliberate` has made, and on what is left of it after tampering."""

import hashlib
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import command_line
import reference_runtime
import symposium
from command_line import started
from deliberating import config, result, synthesis, turn, verdict
from hansard.deliberation.archive import Archive, Beginning
from hansard.deliberation.documents import jcs
from hansard.deliberation.inventory import listing
from hansard.surfaces.cli.main import main
from shell import Shell, hansard
from store.disks import tmpfs

requirement = pytest.mark.requirement
CONFIGS = Path(__file__).parents[2] / "examples" / "configs"
HEARD = [
    *(turn("ben", "cyd"), turn(), turn(), turn(), verdict(), turn(), turn(), turn(), turn()),
    *(verdict("finalize"), synthesis()),
]


@pytest.fixture
def held(shell: Shell) -> Shell:
    """A session that was held with a script."""
    shell.write("config.json", config().as_data())
    entries = [{"result": result(each)} for each in HEARD]
    shell.write("script.json", {"schema_version": "1.0.0", "entries": entries})
    assert shell.type("deliberate", "--config", "config.json", "--script", "script.json")[0] == 0
    shutil.copytree(shell.folder / "runs", shell.folder / "kept")
    return shell


@requirement("R-7.5-1", "R-7.5-2")
@pytest.mark.parametrize("name", ["runs/s-1", "s-1", "runs/s-1/artifact.json", "last"])
def test_replay_prints_the_exact_bytes_and_nothing_else(name: str, held: Shell) -> None:
    artifact = json.loads((held.folder / "runs/s-1/artifact.json").read_bytes())
    code, out = held.type("session", "replay", name)
    assert (code, out.encode()) == (0, jcs(artifact["canonical_transcript"]))
    assert hashlib.sha256(out.encode()).hexdigest() == artifact["transcript_digest"]
    assert "match" in held.err


@requirement("R-2.7-2", "R-7.7-2")
@pytest.mark.parametrize("file", ["artifact.json", "manifest.json"])
def test_replay_ends_with_four_when_a_digest_is_not_the_transcripts(file: str, held: Shell) -> None:
    path = held.folder / "runs/s-1" / file
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"transcript_digest": "0" * 64}))
    assert held.type("session", "replay", "s-1")[0] == 4


def test_replay_does_not_wait_for_a_pipe(held: Shell) -> None:
    manifest = held.folder / "runs/s-1/manifest.json"
    manifest.unlink()
    os.mkfifo(manifest)
    done = command_line.hansard(held.folder, "session", "replay", "s-1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("manifest.json") == 1
    assert "no file, but a folder, a link or a pipe" in done.stderr


@pytest.mark.parametrize("verb", ["replay", "metrics", "export", "resume", "validate", "execution-replay"])
def test_a_directory_that_is_not_there_is_said_to_be_missing(verb: str, held: Shell) -> None:
    assert held.type("session", verb, "nothere")[0] == (1 if verb == "execution-replay" else 2)
    assert "nothere" in held.err


def test_last_is_the_newest_deliberation_on_the_record(held: Shell) -> None:
    assert held.asks("session", "validate", "last")["valid"]
    assert held.type("session", "resume", "last")[0] == 2
    assert "there is nothing to resume" in held.err
    (held.folder / "runs/s-1/artifact.json").unlink()
    assert held.type("session", "resume", "last")[0] == 0
    assert held.asks("session", "replay", "last")["matches"]
    assert held.type("init", "--ledger", "empty.db")[0] == 0
    for verb in ("replay", "validate", "resume", "metrics", "export", "postmortem"):
        assert held.type("session", verb, "last", "--ledger", "nothere.db")[0] == 2
        assert "there is none at" in held.err
        assert held.type("session", verb, "last", "--ledger", "empty.db")[0] == 2
        assert re.search("has no (deliberation|session that has ended) yet", held.err)


def test_execution_replay_tells_a_match_a_violation_and_a_mismatch_apart(held: Shell) -> None:
    again = ("session", "execution-replay", "s-1", "--output", "again")
    assert held.type(*again, "--script", "script.json")[0] == 0
    assert (held.folder / "again/s-1-replay/artifact.json").exists()
    entries = [{"result": result(each)} for each in [turn("cyd"), *HEARD[1:]]]
    held.write("other.json", {"schema_version": "1.0.0", "entries": entries})
    view = held.asks(*again, "--script", "other.json")
    assert (view["matches"], view["first_diverging_message_id"]) == (False, "msg-001")
    assert held.type(*again, "--script", "other.json")[0] == 4
    assert held.type(*again, "--provider", "rehearsal")[0] == 3
    assert "pinning_violation (provider)" in held.err
    assert held.type(*again, "--producer", "somebody", "1.0.0", "--script", "script.json")[0] == 3
    assert "pinning_violation (runtime)" in held.err
    assert held.type(*again)[0] == 1


def test_a_replay_that_was_refused_is_not_the_last_session(held: Shell) -> None:
    again = ("session", "execution-replay", "last", "--output", "again")
    assert held.type(*again, "--provider", "rehearsal")[0] == 3
    assert held.type(*again, "--script", "script.json")[0] == 0, held.err


def test_a_session_whose_panel_a_model_chose_can_be_held_again(shell: Shell) -> None:
    names = (CONFIGS / "llm-selector.script.json", CONFIGS / "llm-selector.selector-script.json")
    scripts = ("--script", names[0], "--selector-script", names[1])
    assert shell.type("deliberate", "--config", CONFIGS / "llm-selector.json", *scripts)[0] == 0
    assert shell.type("session", "execution-replay", "llm-selector", *scripts)[0] == 0
    assert shell.type("session", "validate", "llm-selector")[0] == 0


def test_a_program_that_is_not_installed_is_said_to_be_missing(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(shell.folder))
    assert shell.type("deliberate", "What?", "--provider", "claude-cli")[0] == 2
    assert "claude" in shell.err
    assert not (shell.folder / "state").exists()


def test_what_is_probably_not_meant_is_said_before_the_session(shell: Shell) -> None:
    data = config(budget={"per_agent_token_budget": {"nobody": 5}}).as_data()
    data["agents"][0]["tools"] = [{"name": "t", "description": "d", "input_schema": {}}]
    shell.write("config.json", data)
    shell.type("deliberate", "--config", "config.json", "--provider", "rehearsal")
    assert "'nobody', which is no agent" in shell.err
    assert "nobody here runs the tool t, so it is offered to no model" in shell.err


def test_a_program_of_the_project_runs_what_an_agent_asks_for(shell: Shell) -> None:
    (shell.folder / "almanac.py").write_text(
        "import json, sys\nasked = json.load(sys.stdin)\n"
        "print(json.dumps({'asked': asked}) if asked['arguments']['year'] > 0 else '{\"error\": \"before our time\"}')\n"
    )
    (shell.folder / "hansard.toml").write_text(
        "[tools.almanac]\ncommand = " + json.dumps([sys.executable, "almanac.py"]) + "\n"
        '[providers.fake]\nkind = "scripted"\nmode = "sequential"\nentries = [\n'
        + "".join(
            f"  {{{', '.join(each)}}},\n"
            for each in (
                ["calls = [{name = 'almanac', arguments = {year = 1969}}, {name = 'almanac', arguments = {year = 0}}]"],
                *[["structured = {text = 'Well.'}"]] * 3,
                ["text = " + json.dumps(json.dumps(dict(verdict("finalize").content)))],
                ["text = " + json.dumps(json.dumps(dict(synthesis().content)))],
            )
        )
        + "]\n"
    )
    data = config().as_data()
    schema = {"type": "object", "properties": {"year": {"type": "integer"}}, "required": ["year"]}
    data["agents"][0]["tools"] = [{"name": "almanac", "description": "What happened.", "input_schema": schema}]
    shell.write("config.json", data)
    assert shell.type("deliberate", "--config", "config.json", "--output", "runs")[0] == 0, shell.err
    [line] = (shell.folder / "runs" / "s-1" / "tool_events.jsonl").read_text().splitlines()
    known, unknown = json.loads(line)["tool_events"]
    assert json.loads(known["result"])["asked"] == {"seam": "tool", "tool": "almanac", "arguments": {"year": 1969}}
    assert (unknown["result"], unknown["error"]) == (None, "before our time")
    assert shell.type("session", "validate", "s-1")[0] == 0
    code, told = shell.type("runs", "follow", "last")
    assert (code, [line.split()[2] for line in told.splitlines()][:5]) == (
        0,
        ["requested", "convened", "seated", "uses", "spoke"],
    )
    assert shell.type("verify", ".hansard/ledger.db", "--deep")[0] == 0


@requirement("R-7.9-1")
def test_metrics_are_made_anew_from_the_artifact(held: Shell) -> None:
    assert held.asks("session", "metrics", "s-1") == json.loads((held.folder / "runs/s-1/metrics.json").read_bytes())
    assert held.type("session", "metrics", "s-1", "-o", "m.json")[0] == 0
    assert held.type("session", "metrics", "s-1", "-o", "m.json")[0] == 2


@pytest.mark.parametrize("verb", [("metrics",), ("export",), ("export", "--html")])
def test_nothing_is_written_into_the_directory_of_a_session(verb: tuple[str, ...], held: Shell) -> None:
    assert held.type("session", *verb, "s-1", "-o", "runs/s-1/mine")[0] == 2
    assert "is the directory of a session, and what is added there breaks its seal" in held.err
    assert held.type("session", "validate", "s-1")[0] == 0


def test_an_export_quotes_what_agents_say(held: Shell) -> None:
    code, out = held.type("session", "export", "s-1")
    assert code == 0
    assert "## Round 2" in out
    assert "> I think so." in out
    assert "\nI think so." not in out


def test_an_export_on_a_terminal_drives_it_not_and_a_pipe_gets_every_byte(held: Shell) -> None:
    path = held.folder / "runs/s-1/artifact.json"
    artifact = json.loads(path.read_bytes())
    artifact["canonical_transcript"][1]["content"]["text"] = "\x1b[2J\x1b]0;mine\x07 \u202eso"
    path.write_text(json.dumps(artifact))
    assert "> \x1b[2J\x1b]0;mine\x07 \u202eso\n" in held.type("session", "export", "s-1")[1]
    reading, writing = pty.openpty()
    quiet = subprocess.DEVNULL
    process = started(held.folder, "session", "export", "s-1", stdout=writing, stdin=quiet, stderr=quiet)
    os.close(writing)
    shown = b""
    with suppress(OSError):
        while piece := os.read(reading, 4096):
            shown += piece
    os.close(reading)
    assert process.wait(60) == 0
    assert b"> \\x1b[2J\\x1b]0;mine\\x07 \\u202eso\r\n" in shown
    assert b"\x1b" not in shown


@pytest.mark.parametrize("verb", [("metrics", "--v1"), ("export", "--html"), ("compare", "s-1")], ids=" ".join)
@pytest.mark.parametrize(
    "event",
    [
        {"event": "turn.asked", "agent": "ada", "attempt": "2"},
        {"event": "turn.asked", "agent": ["ada"], "attempt": 2},
        {"event": "turn.failed", "agent": "ada", "attempt": 1},
        {"event": ["turn.asked"]},
    ],
)
def test_events_that_cannot_be_counted_are_no_events(held: Shell, event: Any, verb: tuple[str, str]) -> None:
    with (held.folder / "runs/s-1/observability.jsonl").open("a") as file:
        file.write(json.dumps(event) + "\n")
    assert held.type("session", verb[0], "s-1", verb[1]) == (2, "")
    assert "observability.jsonl holds something else than events" in held.err


def fresh(held: Shell) -> Path:
    """The session's directory as it was, where the record says that it lies."""
    runs = held.folder / "runs"
    shutil.rmtree(runs)
    return Path(shutil.copytree(held.folder / "kept", runs)) / "s-1"


def rewritten(name: str, change: Callable[[Any], object]) -> Callable[[Path], object]:
    def tamper(folder: Path) -> None:
        data = json.loads((folder / name).read_bytes())
        change(data)
        (folder / name).write_text(json.dumps(data))

    return tamper


def forged(folder: Path) -> None:
    """A text changed, with the digests, the sums and the seal made anew: the work of somebody who knows the format."""
    journal = (folder / "transcript.jsonl").read_bytes().replace(b"I think so.", b"I never said so.")
    (folder / "transcript.jsonl").write_bytes(journal)
    artifact = json.loads((folder / "artifact.json").read_bytes().replace(b"I think so.", b"I never said so."))
    old = artifact["transcript_digest"]
    new = hashlib.sha256(jcs(artifact["canonical_transcript"])).hexdigest()
    artifact["transcript_digest"] = new
    (folder / "artifact.json").write_text(json.dumps(artifact))
    for name in ("manifest.json", "metrics.json"):
        (folder / name).write_text((folder / name).read_text().replace(old, new))
    seal = json.loads((folder / "seal.json").read_bytes())
    (folder / "seal.json").write_text(json.dumps({**seal, "files": listing(folder)}))


TAMPERING: dict[str, Callable[[Path], object]] = {
    "a forgery that is consistent in itself": forged,
    "message text": rewritten("artifact.json", lambda a: a["canonical_transcript"][1]["content"].update(text="No.")),
    "message usage": rewritten("artifact.json", lambda a: a["canonical_transcript"][1]["usage"].update(cost_usd=1)),
    "cost": rewritten("artifact.json", lambda a: a["cumulative_usage"].update(cost_usd=9)),
    "unresolved": rewritten("artifact.json", lambda a: a.update(cumulative_unresolved=None)),
    "problem": rewritten("artifact.json", lambda a: a["config"].update(problem_statement="Another")),
    "model": rewritten("artifact.json", lambda a: a["config"]["coordinator"].update(model="other")),
    "budget": rewritten("artifact.json", lambda a: a["config"]["budget"].update(max_rounds=99)),
    "session": rewritten("artifact.json", lambda a: a.update(session_id="other")),
    "synthesis elsewhere": rewritten("artifact.json", lambda a: a["outcome"].update(synthesis_message_id="msg-001")),
    "swapped": rewritten(
        "artifact.json", lambda a: a["canonical_transcript"].insert(1, a["canonical_transcript"].pop(2))
    ),
    "started": rewritten("artifact.json", lambda a: a.update(started_at="yesterday")),
    "version": rewritten("artifact.json", lambda a: a.update(schema_version="9.9.9")),
    "manifest digest": rewritten("manifest.json", lambda m: m.update(transcript_digest="0" * 64)),
    "manifest status": rewritten("manifest.json", lambda m: m.update(status="crashed")),
    "config problem": rewritten("config.json", lambda c: c.update(problem_statement="Another")),
    "config model": rewritten("config.json", lambda c: c["coordinator"].update(model="other")),
    "journal": lambda folder: (folder / "transcript.jsonl").write_bytes(b"garbage\n"),
    "metrics": rewritten("metrics.json", lambda m: m.update(branch_depth_max=0)),
    "pins": rewritten("pins.json", lambda p: p.update(message_shape="reference")),
    "events": lambda folder: (folder / "observability.jsonl").write_bytes(b""),
    "a file more": lambda folder: (folder / "more.json").write_bytes(b"{}"),
    "no artifact": lambda folder: (folder / "artifact.json").unlink(),
    "no journal": lambda folder: (folder / "transcript.jsonl").unlink(),
    "seal entry": rewritten("seal.json", lambda s: s.update(entry=0)),
    "seal entry that is no number": rewritten("seal.json", lambda s: s.update(entry=[])),
    "no seal entry": rewritten("seal.json", lambda s: s.pop("entry")),
    "more in the seal": rewritten("seal.json", lambda s: s.update(signed_by="the board")),
    "a seal in other words": rewritten("seal.json", lambda s: None),
    "white space behind the seal": lambda folder: (folder / "seal.json").write_bytes(
        (folder / "seal.json").read_bytes() + b" "
    ),
    "no seal": lambda folder: (folder / "seal.json").unlink(),
}


@requirement("R-5.1-3", "R-5.10-1", "R-7.1-2")
def test_validate_catches_every_change_of_a_directory_that_is_on_the_record(held: Shell) -> None:
    assert held.asks("session", "validate", "runs/s-1") == {
        "valid": True,
        "document": "directory",
        "breaches": [],
        "notes": [],
    }
    missed = []
    for row, tamper in TAMPERING.items():
        tamper(fresh(held))
        if held.type("session", "validate", "runs/s-1")[0] != 1:
            missed.append((row, held.err))
    assert missed == []


def test_without_a_ledger_validate_says_what_it_cannot_see(held: Shell) -> None:
    shutil.rmtree(held.folder / "state")
    forged(fresh(held))
    view = held.asks("session", "validate", "s-1")
    assert view["valid"]
    assert "sealed anew" in view["notes"][0]
    assert held.type("session", "validate", "s-1", "--ledger", "nothere.db")[0] == 2


@requirement("R-7.1-2")
def test_a_replay_that_failed_hides_no_forgery(held: Shell) -> None:
    forged(held.folder / "runs/s-1")
    assert held.type("session", "execution-replay", "s-1", "--provider", "rehearsal", "--output", "x")[0] == 3
    code, out = held.type("session", "validate", "s-1")
    assert code == 1
    assert "artifact.json: was changed" in out
    assert [view["state"] for view in held.asks("runs")] == ["failed", "answered"]


def test_a_directory_is_held_against_the_record_wherever_it_lies(held: Shell) -> None:
    shutil.copytree(held.folder / "runs/s-1", held.folder / "moved")
    (held.folder / "link").symlink_to("moved")
    (held.folder / "other").mkdir()
    ways = ("moved", "link", "other/../moved", held.folder / "moved", "moved/artifact.json")
    for way in ways:
        view = held.asks("session", "validate", way)
        assert (view["valid"], view["notes"]) == (True, [])
    forged(held.folder / "moved")
    for way in ways:
        for flags in ((), ("--ledger", "state/ledger.db")):
            assert held.type("session", "validate", way, *flags)[0] == 1


def test_a_session_is_found_by_its_run_in_capitals(held: Shell) -> None:
    run = held.asks("runs")[0]["run"]
    for words in (("metrics",), ("questions",), ("export", "--json")):
        small, capitals = (held.type("session", *words, name) for name in (run, run.upper()))
        assert small == capitals
        assert small[0] == 0


def test_a_ledger_that_was_named_must_know_the_session(held: Shell) -> None:
    held.write("other.json", config().as_data() | {"session_id": "other"})
    elsewhere = ("--ledger", "other.db", "--output", "others")
    assert held.type("deliberate", "--config", "other.json", "--script", "script.json", *elsewhere)[0] == 0
    view = held.asks("session", "validate", "runs/s-1", "--ledger", "other.db")
    assert [(each["rule"], "'s-1'" in each["message"]) for each in view["breaches"]] == [("record", True)]
    view = held.asks("session", "validate", "others/other")
    assert view["valid"]
    assert "lists no files of a session 'other'" in view["notes"][0]


def test_what_was_redacted_of_one_run_hides_no_other_one(held: Shell) -> None:
    held.write("other.json", config().as_data() | {"session_id": "other"})
    assert held.type("deliberate", "--config", "other.json", "--script", "script.json")[0] == 0
    newest = held.asks("runs")[0]["run"]
    configured = held.asks("ledger", "show", "--run", newest, "--kind", "run.configured")
    assert held.type("ledger", "redact", configured["seq"], "config", "--reason", "legal")[0] == 0
    assert held.asks("session", "validate", "s-1")["notes"] == []
    assert held.asks("session", "validate", "other")["notes"] == []
    forged(held.folder / "runs/s-1")
    assert held.type("session", "validate", "s-1")[0] == 1
    assert held.type("session", "resume", "s-1")[0] == 2
    assert "nothing to resume" in held.err


def test_replays_under_one_id_are_told_apart_by_what_they_say(held: Shell) -> None:
    entries = [{"result": result(each)} for each in [turn("cyd"), *HEARD[1:]]]
    held.write("other.json", {"schema_version": "1.0.0", "entries": entries})
    again = ("session", "execution-replay", "s-1")
    assert held.type(*again, "--script", "script.json", "--output", "again")[0] == 0
    assert held.type(*again, "--script", "other.json", "--output", "again2")[0] == 4
    for folder in ("again/s-1-replay", "again2/s-1-replay"):
        assert held.asks("session", "validate", folder) == {
            "valid": True,
            "document": "directory",
            "breaches": [],
            "notes": [],
        }
        forged(held.folder / folder)
        assert held.type("session", "validate", folder)[0] == 1


@pytest.mark.parametrize("lost", ["artifact.json", "manifest.json", "seal.json"])
def test_a_file_that_a_finished_session_has_lost_comes_back_from_the_record(lost: str, held: Shell) -> None:
    (held.folder / "runs/s-1" / lost).unlink()
    assert held.type("session", "resume", "runs/s-1")[0] == 0
    assert held.asks("session", "validate", "s-1")["notes"] == []
    assert held.type("session", "metrics", "s-1")[0] == 0
    assert [view["state"] for view in held.asks("runs")] == ["answered"]
    assert held.type("session", "resume", "s-1")[0] == 2
    assert "nothing to resume" in held.err
    assert held.type("verify", "state/ledger.db", "--deep")[0] == 0


def test_a_finished_directory_that_cannot_be_completed_is_an_error_and_reopens_nothing(held: Shell) -> None:
    folder = held.folder / "runs/s-1"
    (folder / "artifact.json").unlink()
    (folder / "metrics.json").write_text("{}")
    assert held.type("session", "resume", "s-1")[0] != 0
    assert "metrics.json was changed" in held.err
    assert [view["state"] for view in held.asks("runs")] == ["answered"]
    # Nobody can make it look as if the session were still to be held.
    rewritten("manifest.json", lambda m: m.update(status="in_progress"))(folder)
    assert held.type("session", "validate", "s-1")[0] == 1


def test_an_artifact_that_lies_alone_is_held_against_the_record(held: Shell) -> None:
    stored = (held.folder / "runs/s-1/artifact.json").read_bytes()
    alone = held.folder / "sent" / "artifact.json"
    alone.parent.mkdir()
    alone.write_bytes(stored)
    assert held.asks("session", "validate", alone, "--ledger", "state/ledger.db")["valid"]
    shutil.copytree(held.folder / "runs/s-1", held.folder / "moved")
    forged(held.folder / "moved")
    alone.write_bytes((held.folder / "moved/artifact.json").read_bytes())
    view = held.asks("session", "validate", alone)
    assert [each["rule"] for each in view["breaches"]] == ["record"], view
    assert "is not what the record has of session 's-1' at entry" in view["breaches"][0]["message"]
    assert held.type("init", "--ledger", "other.db")[0] == 0
    view = held.asks("session", "validate", alone, "--ledger", "other.db")
    assert "has no artifact of a session 's-1'" in view["breaches"][0]["message"]


def test_a_copy_of_a_finished_directory_is_not_taken_for_one_that_crashed(held: Shell) -> None:
    copy = held.folder / "elsewhere" / "s-1"
    shutil.copytree(held.folder / "runs/s-1", copy)
    (copy / "artifact.json").unlink()
    manifest = json.loads((copy / "manifest.json").read_bytes())
    for name in ("transcript_digest", "outcome_kind", "completed_at"):
        manifest.pop(name, None)
    (copy / "manifest.json").write_text(
        json.dumps({**manifest, "status": "in_progress", "updated_at": manifest["created_at"]})
    )
    view = held.asks("session", "validate", copy)
    assert {each["document"] for each in view["breaches"]} == {"artifact.json", "manifest.json"}, view


@pytest.mark.parametrize("pins", ["garbage", "[]", '{"adapters": 5}'])
def test_pins_that_say_nothing_end_no_command_in_a_bug(pins: str, held: Shell) -> None:
    (held.folder / "runs/s-1/pins.json").write_text(pins)
    assert held.type("session", "execution-replay", "s-1", "--script", "script.json", "--output", "x")[0] == 1
    assert "pins.json" in held.err
    assert {view["state"] for view in held.asks("runs")} == {"answered"}


def test_validate_tells_each_document_by_its_members(held: Shell) -> None:
    for name, document in (("config.json", "config"), ("script.json", "fake_provider_script")):
        assert held.asks("session", "validate", name)["document"] == document
    broken = config().as_data() | {"mood": "good"}
    held.write("broken.json", broken)
    code, out = held.type("session", "validate", "broken.json")
    assert code == 1
    assert "mood" in out
    held.write("odd.json", {"hello": 1})
    assert held.type("session", "validate", "odd.json")[0] == 2


def test_conformance_prints_both_counts(shell: Shell) -> None:
    code, out = shell.type("session", "conformance")
    assert code == 0
    assert out.startswith("positive: ")
    assert "\nnegative: " in out


@requirement("R-2.11-1", "R-9.3-1")
def test_the_published_golden_case_has_its_digest_and_a_changed_one_has_not(shell: Shell) -> None:
    case = symposium.example("golden_test_case_example.json")
    shell.write("case.json", case)
    code, out = shell.type("session", "golden", "case.json")
    assert code == 0
    assert "66db8894ca3eee7335b4ffe87006957b972efc1de1b948171d15c8942ebbb654" in out
    case["fake_script"]["entries"][0]["result"]["structured_output"]["text"] = "Something else."
    shell.write("case.json", case)
    assert shell.type("session", "golden", "case.json")[0] == 4
    assert shell.type("session", "golden", "case.json", "--record")[0] == 0
    assert shell.type("session", "golden", "case.json")[0] == 0


def test_what_cannot_even_be_looked_for_is_anything_else_to_an_execution_replay(held: Shell) -> None:
    for words in (("n" * 300,), ("s-1", "--runs", "n" * 300)):
        assert held.type("session", "execution-replay", *words, "--script", "script.json")[0] == 1, words


def test_a_mark_of_byte_order_before_a_configuration_and_a_script_is_no_part_of_them(shell: Shell) -> None:
    for name, part in (("config.json", ""), ("script.json", ".script")):
        text = (CONFIGS / f"walking-skeleton{part}.json").read_text("utf-8")
        (shell.folder / name).write_text(text, "utf-8-sig")
    assert shell.type("deliberate", "--config", "config.json", "--script", "script.json")[0] == 0
    assert shell.type("session", "validate", "config.json")[0] == 0


def test_a_golden_case_with_half_of_a_surrogate_pair_is_recorded_and_not_emptied(shell: Shell) -> None:
    case = symposium.example("golden_test_case_example.json")
    case["fake_script"]["entries"][0]["comment"] = "\ud800"
    kept = shell.folder / "kept.json"
    kept.write_text(json.dumps(case))
    kept.chmod(0o640)
    (shell.folder / "case.json").symlink_to("kept.json")
    assert shell.type("session", "golden", "case.json", "--record")[0] == 0
    assert (json.loads(kept.read_text()), kept.stat().st_mode & 0o777) == (case, 0o640)
    assert shell.type("session", "golden", "case.json")[0] == 0


@pytest.mark.needs_root
def test_a_golden_case_on_a_full_disk_stays_as_it_was(tmp_path: Path) -> None:
    case = json.dumps(symposium.example("golden_test_case_example.json"))
    with tmpfs(tmp_path / "disk", 64) as disk:
        (disk / "case.json").write_text(case)
        with suppress(OSError), (disk / "rest").open("wb", buffering=0) as file:
            while file.write(bytes(1024)):
                pass
        ran = hansard(tmp_path, "session", "golden", "disk/case.json", "--record")
        assert (ran.returncode, "No space left on device" in ran.stderr) == (11, True)
        assert (disk / "case.json").read_text() == case
        assert sorted(os.listdir(disk)) == ["case.json", "rest"]


@requirement("R-7.5-2", "R-9.3-1")
def test_the_tools_of_the_reference_accept_what_the_command_line_writes(held: Shell) -> None:
    flags = ("--message-shape", "reference", "--producer", "symposium-py", "1.0.0", "--output", "theirs")
    code, _ = held.type("deliberate", "--config", "config.json", "--script", "script.json", *flags)
    assert code == 0
    folder = held.folder / "theirs" / "s-1"
    for words in (
        ("validate", folder / "artifact.json"),
        ("replay", folder),
        ("metrics", folder),
        ("execution-replay", folder, "--script", "script.json", "--output", "again", "--assume-cache-cleared"),
    ):
        told = reference_runtime.command(*words)
        assert told.returncode == 0, (words, told.stdout, told.stderr)


def test_a_session_that_is_named_after_its_run_and_was_moved_is_told_where_it_belongs(shell: Shell) -> None:
    run = shell.asks("deliberate", "Keep it?", "--provider", "rehearsal")["run"]
    (shell.folder / "runs").rename(shell.folder / "moved")
    assert shell.type("session", "resume", f"moved/{run}")[0] == 2
    assert f"move it to {shell.folder / 'runs' / run}" in shell.err


def test_a_session_that_is_being_held_is_waited_for_and_one_that_crashed_is_resumed(shell: Shell) -> None:
    producer = {"name": "hansard", "version": "0.1.0"}
    now = "2026-01-01T00:00:00Z"
    begun = Beginning(session="s-1", config=config().as_data(), pins={}, producer=producer, now=now)
    archive = Archive.create(shell.folder / "runs", begun)
    for command in ("replay", "metrics"):
        assert shell.type("session", command, "s-1")[0] == 2
        assert "is in_progress and has no artifact; another process holds it: wait until it ends" in shell.err
    archive.close()
    assert shell.type("session", "replay", "s-1")[0] == 2
    assert "is crashed and has no artifact; `hansard session resume runs/s-1` goes on with it" in shell.err


@pytest.mark.parametrize(
    ("verbs", "which"),
    [
        (("metrics", "export", "postmortem", "compare"), "`last`, the newest session that has ended"),
        (("replay", "execution-replay", "validate", "resume"), "`last`, the newest deliberation"),
        (("questions",), "`last`, the newest session, also one that goes on"),
    ],
)
def test_the_help_of_each_verb_says_which_session_is_the_last(
    verbs: tuple[str, ...], which: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in verbs:
        with pytest.raises(SystemExit):
            main(["session", verb, "--help"])
        assert which in " ".join(capsys.readouterr().out.split())
