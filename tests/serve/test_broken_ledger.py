from pathlib import Path

from daemons import place, serving, wait_for
from forging import database
from hansard.surfaces.http.logs import _line


def test_a_ledger_that_was_edited_is_shown_and_takes_nothing_new(tmp_path: Path) -> None:
    place(tmp_path)
    with serving(tmp_path, "--provider", "quick") as daemon:
        daemon.submit(wait=60)
    with database(tmp_path / "l.db") as found:
        change = "UPDATE entries SET line = replace(line, '\"ok\":true', '\"ok\":false') WHERE kind = 'task.judged'"
        assert found.execute(change).rowcount == 1
    with serving(tmp_path, "--provider", "quick") as daemon:
        assert "do not give the tree" in daemon.get("/v1/status").json()["broken"]
        assert daemon.get("/v1/ledger/entries").status_code == 200
        for path, body in (("/v1/route", {"text": "x"}), ("/v1/runs", {"request": "x"})):
            said = daemon.post(path, body)
            assert (said.status_code, "may not be extended" in said.json()["detail"]) == (503, True)
    told = [line["event"] for line in daemon.logged()]
    assert "this ledger takes nothing new" in told
    assert "bug" not in told


def test_what_webhooks_cannot_read_ends_nothing(tmp_path: Path) -> None:
    place(tmp_path)
    flags = ("--provider", "quick", "--webhook", "http://127.0.0.1:9/")
    with serving(tmp_path, *flags) as daemon:
        daemon.submit(wait=60)
        wait_for(lambda: "webhook" in daemon.log.read_text())
    with database(tmp_path / "l.db") as found:
        change = "UPDATE entries SET line = replace(line, '\"v\":1}', '\"v\":2}') WHERE kind = 'run.ended'"
        assert found.execute(change).rowcount == 1
    with serving(tmp_path, *flags) as daemon:
        wait_for(lambda: "webhooks wait" in daemon.log.read_text())
        assert daemon.get("/v1/status").status_code == 200


def test_a_log_line_is_ascii_whatever_it_is_given() -> None:
    assert _line({"path": "/ä\u202e", "odd": Path("x"), "half": "\ud800"}).isascii()
