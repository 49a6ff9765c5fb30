import re
import socket
import time
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest

from daemons import BARE, Served, wait_for
from hansard.app.serving.tokens import Tokens
from hansard.surfaces.http.dashboard import session
from visitors import Visitor

PAGES = ("/dashboard/", "/dashboard/gates", "/dashboard/ledger", "/dashboard/ledger/0", "/dashboard/verify")
DATA = ("/dashboard/data/head", "/dashboard/data/lines", "/dashboard/data/checkpoints")


@pytest.mark.parametrize("path", PAGES)
def test_without_a_session_every_page_leads_to_signing_in(daemon: Served, path: str) -> None:
    said = Visitor(daemon, None).see(path)
    assert (said.status_code, said.headers["location"]) == (303, f"/dashboard/sign-in?to={path}")
    assert "token" in Visitor(daemon, None).text(said.headers["location"])


@pytest.mark.parametrize("path", DATA)
def test_without_a_session_there_is_no_data(daemon: Served, path: str) -> None:
    assert Visitor(daemon, None).see(path).status_code == 401


def test_the_front_door_leads_to_the_runs(daemon: Served, visitor: Visitor) -> None:
    assert Visitor(daemon, None).see("/").headers["location"] == "/dashboard/"
    assert "<h1>Runs</h1>" in visitor.text("/dashboard/")


@pytest.mark.parametrize(
    ("path", "headers", "status", "said"),
    [
        ("/dashboard/", {"Host": "elsewhere.example"}, 421, "does not answer as elsewhere.example; see --allow-host"),
        ("/", {"Host": "elsewhere.example"}, 421, "see --allow-host"),
        ("/dashboard/ledger/0", {"Host": "[x"}, 421, "does not answer as [x"),
        ("/dashboard/gates", {"Origin": "http://<b>evil"}, 403, "pages of http://&lt;b&gt;evil may not call"),
        ("/dashboard/sign-in", {"Origin": "", "Sec-Fetch-Site": "cross-site"}, 403, "pages of  may not call"),
    ],
)
def test_what_the_guard_refuses_a_browser_is_a_page(
    daemon: Served, path: str, headers: dict[str, str], status: int, said: str
) -> None:
    shown = Visitor(daemon, None).client.get(path, headers=headers)
    assert (shown.status_code, shown.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert said in shown.text
    assert "script" not in shown.text
    assert "default-src 'none'" in shown.headers["content-security-policy"]
    for data in ("/v1/runs", "/dashboard/data/head"):
        told = daemon.get(data, headers=headers)
        assert (told.status_code, told.headers["content-type"]) == (status, "application/problem+json")


def test_a_reader_who_sends_a_form_is_told_on_a_page_what_he_may(daemon: Served) -> None:
    reader = Visitor(daemon, daemon.issue("add", "only-reads", "--roles", "reader"))
    told = reader.send("/dashboard/runs/last/cancel")
    assert (told.status_code, told.headers["content-type"]) == (403, "text/html; charset=utf-8")
    assert "has the roles reader; this needs operator" in told.text


def test_a_wrong_token_is_told_so_and_sees_nothing(daemon: Served) -> None:
    stranger = Visitor(daemon, None)
    stranger.sign_in("hs_wrong")
    said = stranger.see("/dashboard/")
    assert said.headers["location"] == "/dashboard/sign-in?to=/dashboard/&again=1"
    assert "not known here" in stranger.text(said.headers["location"])
    assert stranger.see("/dashboard/data/lines").status_code == 401


@pytest.mark.parametrize("given", ["", "two words", "a;b", "x\r\nSet-Cookie: y=z", "ü", "x" * 201])
def test_what_cannot_be_a_token_is_not_put_into_a_cookie(daemon: Served, given: str) -> None:
    said = Visitor(daemon, None).sign_in(given)
    assert "set-cookie" not in said.headers
    assert said.headers["location"].endswith("again=1")


def test_the_cookie_is_kept_from_scripts_other_sites_and_the_api(daemon: Served) -> None:
    said = Visitor(daemon, None).sign_in(daemon.token)
    flags = said.headers["set-cookie"].split("; ")[1:]
    assert flags == ["Path=/dashboard", "HttpOnly", "SameSite=Strict"]
    assert "Secure" in str(session.cookie_of(daemon.token, https=True))


def test_the_api_takes_no_cookie_and_the_pages_take_no_bearer_token(daemon: Served, visitor: Visitor) -> None:
    cookie = {"Cookie": "; ".join(f"{name}={value}" for name, value in visitor.client.cookies.items())}
    stranger = daemon.client(None, Origin=daemon.address, **cookie)
    assert stranger.get("/dashboard/").status_code == 200
    for path in ("/v1/runs", "/v1/ledger/entries", "/v1/runs/last/events", "/checkpoint", "/metrics", "/mcp"):
        assert stranger.get(path).status_code == 401, path
    assert stranger.post("/v1/runs", json={"request": "x", **BARE}).status_code == 401
    assert daemon.get("/dashboard/").status_code == 303


def test_a_session_ends_with_its_token(daemon: Served) -> None:
    guest = Visitor(daemon, daemon.issue("add", "guest"))
    assert guest.see("/dashboard/").status_code == 200
    daemon.issue("rotate", "guest")
    assert guest.see("/dashboard/").status_code == 303
    ended = Tokens(daemon.folder / "state" / "serve").add("brief", ("reader",), seconds=0)
    assert Visitor(daemon, ended).see("/dashboard/").status_code == 303


def test_signing_out_takes_the_cookie_away(daemon: Served) -> None:
    guest = Visitor(daemon)
    assert guest.send("/dashboard/sign-out").headers["location"] == "/dashboard/sign-in"
    assert guest.see("/dashboard/").status_code == 303


ELSEWHERE = (
    *("https://evil.example/", "//evil.example", "/dashboard//evil", "/dashboard/\\x"),
    *(
        "/v1/runs",
        "/dashboard/data/head",
        "/dashboard/../v1",
        "/dashboard//evil?run=x",
        "/dashboard/?x=\r\nSet-Cookie: y=z",
    ),
)


@pytest.mark.parametrize("place", ELSEWHERE)
def test_nobody_is_sent_out_of_the_dashboard_after_signing_in(daemon: Served, place: str) -> None:
    assert Visitor(daemon, None).sign_in(daemon.token, place).headers["location"] == "/dashboard/"


def test_whoever_wanted_a_page_gets_it_after_signing_in(daemon: Served) -> None:
    assert (
        Visitor(daemon, None).sign_in(daemon.token, "/dashboard/ledger/3").headers["location"] == "/dashboard/ledger/3"
    )


FILTERED = (
    *("/dashboard/compare?run=a-1&run=b-2", "/dashboard/?state=waiting&after=5"),
    *(
        "/dashboard/ledger?run=&kind=run.ended&actor=human%3Ame%2F%26%C3%BC&after=-1",
        "/dashboard/ledger?actor=human:me@x//y",
    ),
)


@pytest.mark.parametrize("place", FILTERED)
def test_what_was_chosen_on_a_page_is_still_chosen_after_signing_in(daemon: Served, place: str) -> None:
    guest = Visitor(daemon, None)
    leads = guest.see(place).headers["location"]
    kept = re.search(r'name="to" value="([^"]*)"', guest.text(leads))
    assert kept
    assert guest.sign_in(daemon.token, unescape(kept[1])).headers["location"] == place
    wrong = guest.sign_in("no token", unescape(kept[1])).headers["location"]
    assert parse_qs(urlsplit(wrong).query)["to"] == [place]


def test_a_form_that_comes_too_late_is_told_to_be_undone_and_leads_back_to_its_page(daemon: Served) -> None:
    guest, made = Visitor(daemon, daemon.issue("add", "late", "--roles", "approver")), {"form_token": "0" * 64}
    daemon.issue("rotate", "late")
    for path, place in (
        ("/dashboard/gates/g-1/decision", "/dashboard/gates"),
        ("/dashboard/runs/r-1/cancel", "/dashboard/runs/r-1"),
        ("/dashboard/runs/r-1/tasks/one/retry", "/dashboard/runs/r-1"),
        ("/dashboard/deliberations/r-1/continue", "/dashboard/deliberations/r-1"),
    ):
        said = guest.client.post(path, data=made)
        assert (said.status_code, said.headers["location"]) == (303, f"/dashboard/sign-in?to={place}&again=1&undone=1")
        assert "What you sent was not done" in guest.text(said.headers["location"])
    said = guest.client.post("/dashboard/sign-out", data=made)
    assert said.headers["location"] == "/dashboard/sign-in?to=/dashboard/&again=1"
    assert "not done" not in guest.text(said.headers["location"])


def test_a_browser_that_vanishes_while_it_signs_in_is_no_bug(daemon: Served) -> None:
    head = f"POST /dashboard/sign-in HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\nOrigin: {daemon.address}\r\n"
    with socket.create_connection(("127.0.0.1", daemon.port)) as plug:
        media = "Content-Type: application/x-www-form-urlencoded"
        plug.sendall(f"{head}{media}\r\nContent-Length: 100\r\nX-Request-Id: vanished\r\n\r\ntok".encode())
        time.sleep(0.2)
    told = wait_for(lambda: [line for line in daemon.logged() if line.get("request_id") == "vanished"])
    assert [(line["event"], line["status"]) for line in told] == [("request", 400)]


def test_two_sessions_have_different_form_tokens(daemon: Served) -> None:
    assert Visitor(daemon).form_token() != Visitor(daemon).form_token()


def test_the_token_stands_in_no_page(daemon: Served, visitor: Visitor) -> None:
    for path in PAGES:
        assert not re.search(r"hs_[A-Za-z0-9_-]{20}", visitor.text(path)), path


@pytest.mark.parametrize("around", [b"%s", b"a=b; %s", b"bad cookie; \xff=\x00; %s; x", b'q="; %s', b"hansardx=1; %s"])
def test_cookies_of_other_programs_do_not_stand_in_the_way(around: bytes) -> None:
    assert session.secret_of([around % b"hansard=nonce.hs_secret"]) == "hs_secret"
    assert session.secret_of([around % b"other=nonce.hs_secret"]) == ""


def test_without_a_cookie_there_is_a_form_token_that_fits_nobody() -> None:
    assert (
        session.form_token([])
        != session.form_token([b"hansard=.hs_secret"])
        != session.form_token([b"hansard=n.hs_secret"])
    )
