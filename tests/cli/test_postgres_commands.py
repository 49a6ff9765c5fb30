"""Commands on a ledger in PostgreSQL: it is named by its place, never by a password or by a file that is gone."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from threading import Event

import pytest

from hansard.app.ledgers.verifying import verify_apart
from hansard.errors import StoreError
from postgres import Server
from shell import hansard

SECRET = "pw-k3yp-ss"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One whose user "guarded" needs a password."""
    with Server() as made:
        made.execute(f"CREATE ROLE guarded LOGIN SUPERUSER PASSWORD '{SECRET}'")
        yield made


@pytest.fixture
def url(tmp_path: Path, server: Server) -> str:
    url = server.url(server.database(), user="guarded", password=SECRET)
    assert hansard(tmp_path, "init", "--ledger", url).returncode == 0
    return url


def test_a_ledger_that_is_there_already_is_named_without_its_password(tmp_path: Path, url: str) -> None:
    assert hansard(tmp_path, "ledger", "export", "out", "--ledger", url).returncode == 0
    for words in (
        ("import", "out", "--ledger", url),
        ("adopt", "out", "--ledger", url),
    ):
        done = hansard(tmp_path, "ledger", *words)
        assert done.returncode == 2
        assert "postgresql://guarded@/" in done.stderr
        assert SECRET not in done.stdout + done.stderr


def test_what_cannot_be_signed_behind_a_run_that_has_ended_is_no_reason_to_resume_it(
    tmp_path: Path, server: Server
) -> None:
    database = server.database()
    url = server.url(database)
    assert hansard(tmp_path, "init", "--ledger", url).returncode == 0
    server.execute("ALTER TABLE hansard.checkpoints ADD CONSTRAINT full_disk CHECK (size < 10)", database)
    done = hansard(tmp_path, "submit", "please", "--provider", "rehearsal", "--ledger", url)
    assert (done.returncode, bool(done.stdout)) == (11, True)
    assert "nothing was written" in done.stderr
    assert "runs resume" not in done.stderr
    assert "hansard runs show" in done.stderr.splitlines()[-1]


def test_a_report_names_the_ledger_and_not_the_export_that_was_made_of_it(tmp_path: Path, url: str) -> None:
    place = url.replace(f":{SECRET}", "")
    done = hansard(tmp_path, "verify", url)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, f"OK: {place}")
    assert json.loads(hansard(tmp_path, "verify", url, "--json").stdout)["path"] == place


def test_an_entry_that_no_export_has_and_queries_find_is_told(tmp_path: Path, url: str, server: Server) -> None:
    assert hansard(tmp_path, "submit", "x", "--provider", "rehearsal", "--ledger", url).returncode == 0
    database = url.partition("?")[0].rpartition("/")[2]
    server.execute(
        "INSERT INTO hansard.entries(seq, line) SELECT seq + 9999, line FROM hansard.entries WHERE kind = 'run.ended'",
        database,
    )
    done = hansard(tmp_path, "verify", url)
    assert (done.returncode, done.stdout.splitlines()[0].partition(":")[0]) == (20, "BROKEN")
    assert "the table entries has a row at 10" in done.stdout
    told = verify_apart(url)
    assert (told["ok"], told["exit_code"], told["verdict"], told["first_bad"]["code"]) == (False, 20, "BROKEN", "entry")
    assert told["first_bad"] == told["findings"][0]


DAMAGE = {
    "DELETE FROM entries WHERE seq = 0": 0,
    "DELETE FROM entries WHERE seq = 7": 7,
    "DELETE FROM entries WHERE seq = (SELECT max(seq) FROM entries)": 24,
    "UPDATE entries SET line = set_byte(line, length(line) - 2, 65) WHERE kind = 'body.redacted'": 24,
    "UPDATE head SET size = size + 1": 25,
    "UPDATE head SET frontier = ''": 24,
    "DELETE FROM head": 0,
}


def test_a_ledger_of_which_no_export_can_be_made_is_broken_and_not_left_unjudged(
    tmp_path: Path, url: str, server: Server
) -> None:
    assert hansard(tmp_path, "submit", "x", "--provider", "rehearsal", "--ledger", url).returncode == 0
    assert hansard(tmp_path, "ledger", "redact", "1", "request", "--reason", "secret", "--ledger", url).returncode == 0
    database = url.partition("?")[0].rpartition("/")[2]
    found = {}
    for number, statement in enumerate(DAMAGE):
        copy = f"{database}_{number}"
        server.execute(f"CREATE DATABASE {copy} TEMPLATE {database}")
        server.execute(f"SET search_path = hansard; {statement} RETURNING 1", copy)
        told = verify_apart(url.replace(f"/{database}?", f"/{copy}?"))
        found[statement] = (told["exit_code"], told["first_bad"]["seq"])
    assert found == {statement: (20, seq) for statement, seq in DAMAGE.items()}
    lost = hansard(tmp_path, "verify", url.replace(f"/{database}?", f"/{database}_1?"))
    for words in ("import", "adopt"):
        refused = hansard(
            tmp_path, "ledger", words, url.replace(f"/{database}?", f"/{database}_1?"), "--ledger", "n.db"
        )
        assert refused.returncode == 2
        assert f"hansard: postgresql://guarded@/{database}_1?" in refused.stderr
        assert "does not verify, so nothing was taken from it: entry 7: [E4] the entry is missing" in refused.stderr
    assert (lost.returncode, lost.stdout.splitlines()[1]) == (
        20,
        "  first bad    entry 7: [S3] it is not there, and the head row says that there are 25 entries",
    )


def test_a_checkpoint_of_more_than_there_is_shows_that_the_end_was_cut_off(
    tmp_path: Path, url: str, server: Server
) -> None:
    longer = r"convert_to(replace(convert_from(note, 'UTF8'), E'\n1\n', E'\n9\n'), 'UTF8')"
    server.execute(
        f"UPDATE hansard.checkpoints SET size = 9, note = {longer}", url.partition("?")[0].rpartition("/")[2]
    )
    done = hansard(tmp_path, "verify", url)
    assert done.returncode == 20
    assert "[C9] the tail was cut off: a checkpoint of size 9 is kept, and the log ends at 1" in done.stdout


def test_an_export_that_is_to_be_verified_is_given_up_where_its_service_closes(url: str) -> None:
    closed = Event()
    closed.set()
    with pytest.raises(StoreError, match="given up after 1 of 1 entries"):
        verify_apart(url, closed=closed)


def test_a_log_is_carried_from_one_kind_of_ledger_to_the_next_and_goes_on_in_the_last(tmp_path: Path, url: str) -> None:
    assert hansard(tmp_path, "submit", "x", "--provider", "rehearsal", "--ledger", url).returncode == 0
    places = (url, "carried.db", "carried.jsonl", f"{url}&schema=again")
    for old, new in pairwise(places):
        done = hansard(tmp_path, "ledger", "import", old, "--ledger", new)
        assert done.returncode == 0, done.stderr
        assert SECRET not in done.stdout + done.stderr
    told = [json.loads(hansard(tmp_path, "verify", each, "--deep", "--json").stdout) for each in places]
    assert len({each["root"] for each in told}) == 1
    assert all(each["ok"] for each in told)
    assert hansard(tmp_path, "submit", "on", "--provider", "rehearsal", "--ledger", places[-1]).returncode == 0
    left = hansard(tmp_path, "submit", "on", "--provider", "rehearsal", "--ledger", "carried.db")
    assert (left.returncode, "ROLLED BACK" in left.stderr) == (11, True)
    missing = hansard(tmp_path, "ledger", "import", f"{url}&schema=none", "--ledger", "other.db")
    assert (missing.returncode, SECRET in missing.stderr, (tmp_path / "other.db").exists()) == (2, False, False)


def test_a_body_that_should_have_been_erased_is_told_as_pending(tmp_path: Path, server: Server) -> None:
    database = server.database()
    url = server.url(database)
    assert hansard(tmp_path, "submit", "x", "--provider", "rehearsal", "--ledger", url).returncode == 0
    server.execute("CREATE TABLE kept AS SELECT * FROM hansard.bodies", database)
    assert hansard(tmp_path, "ledger", "redact", "1", "request", "--reason", "secret", "--ledger", url).returncode == 0
    assert hansard(tmp_path, "ledger", "checkpoint", "--ledger", url).returncode == 0
    assert hansard(tmp_path, "verify", url, "--strict").returncode == 0
    back = "INSERT INTO hansard.bodies SELECT * FROM kept WHERE id NOT IN (SELECT id FROM hansard.bodies) RETURNING id"
    assert len(server.execute(back, database)) == 1
    done = hansard(tmp_path, "verify", url, "--strict", "--json")
    assert (done.returncode, json.loads(done.stdout)["bodies"]["pending"]) == (23, 1)


def test_what_erases_the_rest_of_a_text_names_the_ledger_without_its_password(tmp_path: Path, url: str) -> None:
    assert hansard(tmp_path, "submit", "x", "--provider", "rehearsal", "--ledger", url).returncode == 0
    done = hansard(tmp_path, "ledger", "redact", "1", "request", "--reason", "secret", "--ledger", url)
    assert done.returncode == 0, done.stderr
    assert f"--ledger '{url.replace(f':{SECRET}', '')}'" in done.stdout
    assert SECRET not in done.stdout + done.stderr


def test_what_to_type_next_names_the_ledger_without_its_password(tmp_path: Path, url: str) -> None:
    place = url.replace(f":{SECRET}", "")
    for words, code, then in (
        (("submit", "x", "--provider", "rehearsal", "--detach"), 2, "worker"),
        (("submit", "x", "--provider", "rehearsal", "--gate", "plan"), 14, "gates list"),
        (("session", "validate", ".", "--ledger", f"{url}&schema=none"), 2, ""),
    ):
        done = hansard(tmp_path, *words, *(() if "--ledger" in words else ("--ledger", url)))
        assert done.returncode == code, done.stderr
        assert f"hansard {then} --ledger '{place}'" in done.stderr if then else f"{place}&schema=none" in done.stderr
        assert SECRET not in done.stdout + done.stderr
