"""The dashboard in a real browser. Whatever the browser complains about, a refused script or style above all, fails the test."""

import json
import re
import signal
from pathlib import Path
from unicodedata import category

import pytest

from daemons import BARE, Served, place, serving, wait_for
from deliberating import config, says, script, synthesis, turn, verdict
from forging import database
from hansard.app.telling.escaping import spelled
from hansard.ledger.note import VerifierKey
from hansard.surfaces.cli.receipt_page import receipt_page
from specimens import Log, honest
from visitors import Browsing, Visitor

pytest.importorskip("playwright", reason="this test needs playwright and chromium (apt install chromium)")
from playwright.sync_api import Page, Route, expect

LINE = {"tasks": [{"id": name, "lane": "backend", "instruction": f"do {name}"} for name in ("one", "two", "three")]}
LINE["tasks"][1]["needs"] = ["one"]  # type: ignore[assignment]
LINE["tasks"][2]["needs"] = ["two"]  # type: ignore[assignment]
WITNESS = VerifierKey.cosigner("witness.example/w1", bytes(range(32)))
JOINED = [
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "\u0915\u094d\u200d\u0937",
    "\U0001f469\u200d\U0001f467",
    "\U0001f3f3\ufe0f\u200d\U0001f308",
]
"""Words and signs that need their joiners: Persian, Hindi, a family, a flag."""
HIDING = [
    "a\u200cb",
    "a\u200db",
    "\u062f\u200c\u0631",
    "\U0001f469\u200d\u200d\U0001f467",
    "\u06cc\u200c\u200c\u062e",
    "\u0915\u200d\u0937",
    "\u200d",
]
PAGES = ("/dashboard/", "/dashboard/gates", "/dashboard/ledger", "/dashboard/ledger/5", "/dashboard/verify")


@pytest.fixture(scope="module")
def pin(daemon: Served) -> str:
    return pinned(daemon)


def verified(page: Page, pin: str | None = None) -> str:
    """What the page says of the ledger."""
    page.goto("/dashboard/verify")
    if pin:
        page.locator("#pin").fill(pin)
    page.get_by_role("button", name="Verify the ledger").click()
    result = page.locator("#ledger-result .result")
    expect(result).to_be_visible()
    return result.inner_text()


def test_a_run_is_seen_to_go_on_to_its_end(daemon: Served, browsing: Browsing) -> None:
    page = browsing.visit(daemon)
    run = daemon.submit("watch me", plan=LINE, provider="slow", gates=["task:three"])["run"]
    page.get_by_role("link", name="watch me").click()
    expect(page.locator("main .state").first).to_have_text("waiting")
    expect(page.locator("#live")).to_have_text("live")
    [gate] = daemon.get(f"/v1/gates?run={run}").json()
    daemon.post(f"/v1/gates/{gate['gate']}/decision", {"decision": "approve"})
    expect(page.locator("main .state").first).to_have_text("answered")
    expect(page.locator(".graph .box.good")).to_have_count(3)
    expect(page.locator("#live")).to_have_text("")


def test_news_that_could_not_be_fetched_are_fetched_again(daemon: Served, browsing: Browsing) -> None:
    page = browsing.visit(daemon)
    refused: list[str] = []

    def refuse_once(route: Route) -> None:
        if refused or route.request.resource_type != "fetch":
            route.continue_()
        else:
            refused.append(route.request.url)
            route.fulfill(status=503)

    page.route("**/dashboard/", refuse_once)
    expect(page.locator("#live")).to_have_text("live")
    daemon.submit("it came late", wait=30)
    expect(page.locator("#live")).to_have_text("the daemon does not answer; trying again")
    expect(page.get_by_role("link", name="it came late")).to_be_visible()
    expect(page.locator("#live")).to_have_text("live")
    browsing.complaints[:] = [each for each in browsing.complaints if "503" not in each]


def test_a_page_that_is_refused_its_news_does_not_call_itself_live(daemon: Served, browsing: Browsing) -> None:
    page = browsing.visit(daemon)
    expect(page.locator("#live")).to_have_text("live")
    busy = {"status": 503, "content_type": "application/problem+json", "body": '{"status": 503}'}
    page.route("**/dashboard/data/head", lambda route: route.fulfill(**busy))
    expect(page.locator("#live")).to_have_text("the daemon does not answer; trying again")
    daemon.submit("it came meanwhile", wait=30)
    page.unroute("**/dashboard/data/head")
    expect(page.get_by_role("link", name="it came meanwhile")).to_be_visible()
    expect(page.locator("#live")).to_have_text("live")
    browsing.complaints[:] = [each for each in browsing.complaints if "503" not in each]


@pytest.mark.parametrize("of", ["one run", "all runs"])
def test_a_page_whose_daemon_hangs_does_not_call_itself_live(tmp_path: Path, browsing: Browsing, of: str) -> None:
    with serving(place(tmp_path), "--provider", "quick") as daemon:
        run = daemon.submit("it takes long", provider="stuck")["run"]
        page = browsing.visit(daemon)
        page.clock.install()
        page.goto(f"/dashboard/runs/{run}" if of == "one run" else "/dashboard/")

        def until(place: str, text: str) -> None:
            def is_said() -> bool:
                page.clock.run_for(5_000)
                return page.locator(place).first.inner_text() == text

            wait_for(is_said)

        until("#live", "live")
        daemon.process.send_signal(signal.SIGSTOP)
        try:
            until("#live", "the daemon does not answer; trying again")
        finally:
            daemon.process.send_signal(signal.SIGCONT)
        daemon.post(f"/v1/runs/{run}/cancel")
        until("main .state", "cancelled")
        browsing.close()


def test_what_is_open_stays_open_while_the_page_is_replaced(daemon: Served, browsing: Browsing) -> None:
    page = browsing.visit(daemon)
    run = daemon.submit("keep it open", plan=LINE, provider="slow")["run"]
    page.goto(f"/dashboard/runs/{run}")
    prompt = page.locator("details[id^=prompt]").first
    prompt.locator("summary").click()
    page.locator("summary").first.focus()
    expect(page.locator("main .state").first).to_have_text("answered")
    expect(prompt).to_have_attribute("open", "")
    expect(page.locator("summary").first).to_be_focused()


def test_whoever_reads_a_long_text_stays_where_he_is_while_the_page_is_replaced(
    daemon: Served, browsing: Browsing
) -> None:
    page = browsing.visit(daemon)
    plan = {"tasks": [{**each, "instruction": "\n".join(map(str, range(200)))} for each in LINE["tasks"]]}
    run = daemon.submit("\n".join(f"line {each}" for each in range(300)), plan=plan, gates=["task:three"])["run"]
    page.goto(f"/dashboard/runs/{run}")
    expect(page.locator("main .state").first).to_have_text("waiting")
    page.locator("#task-two details[id^=prompt] summary").click()
    long = page.locator("main > pre").first, page.locator("#task-two details[id^=prompt] pre")
    for each in long:
        each.evaluate("place => (place.scrollTop = 123)")
    [gate] = daemon.get(f"/v1/gates?run={run}").json()
    daemon.post(f"/v1/gates/{gate['gate']}/decision", {"decision": "approve"})
    expect(page.locator("main .state").first).to_have_text("answered")
    assert [each.evaluate("place => place.scrollTop") for each in long] == [123, 123]


def test_the_keyboard_stays_at_its_gate_and_moves_to_no_other(daemon: Served, browsing: Browsing) -> None:
    runs = [daemon.submit(text, gates=["task:one"])["run"] for text in ("first", "second")]
    for run in runs:
        daemon.until(run, "waiting")
    page = browsing.visit(daemon)
    page.goto("/dashboard/gates")
    [gate] = daemon.get(f"/v1/gates?run={runs[0]}").json()
    reject = page.locator(f"#gate-{gate['gate']}").get_by_role("button", name="Reject")
    reject.focus()
    [other] = daemon.get(f"/v1/gates?run={runs[1]}").json()
    page.evaluate("document.querySelector('h1').textContent = 'old'")
    daemon.submit("news", wait=30)
    expect(page.locator("h1")).not_to_have_text("old")
    expect(reject).to_be_focused()
    daemon.post(f"/v1/gates/{gate['gate']}/decision", {"decision": "approve"})
    expect(reject).to_have_count(0)
    assert page.evaluate("document.activeElement.tagName") == "BODY"
    daemon.post(f"/v1/gates/{other['gate']}/decision", {"decision": "approve"})
    expect(page.get_by_text("Nothing waits for anybody.")).to_be_visible()


def test_a_question_has_one_direction(daemon: Served, browsing: Browsing) -> None:
    """One for each line, which `pre` has in browsers otherwise, takes Chromium minutes where a line has a megabyte."""
    run = daemon.submit("much to read", gates=["plan"])["run"]
    daemon.until(run, "waiting")
    page = browsing.visit(daemon)
    page.goto("/dashboard/gates")
    whole = page.locator("pre.whole").first
    assert whole.evaluate("(each) => getComputedStyle(each).unicodeBidi") == "isolate"
    daemon.post(f"/v1/runs/{run}/cancel")


def test_a_gate_is_decided_and_what_somebody_types_is_left_alone(daemon: Served, browsing: Browsing) -> None:
    run = daemon.submit("ask me first", gates=["task:one"])["run"]
    daemon.until(run, "waiting")
    page = browsing.visit(daemon)
    page.get_by_role("link", name="decide").click()
    page.get_by_label("Reason").fill("it may")
    daemon.submit("news", wait=30)
    expect(page.locator("#live")).to_have_text("there is news; reload when you are done")
    expect(page.get_by_label("Reason")).to_have_value("it may")
    page.get_by_label("Reason").press("Enter")
    assert daemon.show(run)["state"] == "waiting"
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Nothing waits for anybody.")).to_be_visible()
    daemon.until(run, "answered")


def test_what_somebody_begins_to_type_while_news_are_on_their_way_is_left_alone(
    daemon: Served, browsing: Browsing
) -> None:
    run = daemon.submit("ask me slowly", gates=["task:one"])["run"]
    daemon.until(run, "waiting")
    page = browsing.visit(daemon)
    page.goto("/dashboard/gates")
    expect(page.locator("#live")).to_have_text("live")
    held: list[Route] = []
    page.route("**/dashboard/gates", lambda route: held.append(route))
    with page.expect_request("**/dashboard/gates"):
        daemon.submit("news", wait=30)
    page.get_by_label("Reason").fill("it may")
    held[0].continue_()
    expect(page.locator("#live")).to_have_text("there is news; reload when you are done")
    expect(page.get_by_label("Reason")).to_have_value("it may")
    page.unroute("**/dashboard/gates")
    assert daemon.post(f"/v1/runs/{run}/cancel").json()["state"] == "cancelled"


def test_a_gate_that_shows_very_much_is_decided_and_edited(daemon: Served, browsing: Browsing) -> None:
    page = browsing.visit(daemon)
    plan = {"tasks": [{"id": "one", "lane": "backend", "instruction": "語" * 180_000}]}
    for decision in ("Approve", "Let the edited text go on"):
        said = daemon.post(
            "/v1/runs",
            content=json.dumps(
                {"request": "much", **BARE, "plan": plan, "gates": ["plan"]}, ensure_ascii=False
            ).encode(),
            headers={"Content-Type": "application/json"},
        )
        run = said.json()["run"]
        daemon.until(run, "waiting")
        page.goto("/dashboard/gates")
        page.get_by_text("Edit, and let that go on instead").click()
        page.get_by_role("button", name=decision).click()
        expect(page.get_by_text("Nothing waits for anybody.")).to_be_visible()
        daemon.until(run, "answered")


def test_the_page_of_a_run_that_is_over_sees_it_go_on_when_a_task_is_done_again(
    daemon: Served, browsing: Browsing
) -> None:
    run = daemon.submit("do it again", plan=LINE, wait=30)["run"]
    page = browsing.visit(daemon)
    page.goto(f"/dashboard/runs/{run}")
    expect(page.locator("#task-three h4")).to_have_count(1)
    other = page.context.new_page()
    other.goto(f"/dashboard/runs/{run}")
    other.locator("#task-two").get_by_role("button", name="Do two again").click()
    expect(page.locator("#task-three h4")).to_have_count(2)
    expect(page.locator("#task-one h4")).to_have_count(1)
    expect(page.locator("main .state").first).to_have_text("answered")
    expect(page.locator("#live")).to_have_text("")


def test_whoever_goes_back_after_a_refused_edit_finds_what_he_wrote(daemon: Served, browsing: Browsing) -> None:
    run = daemon.submit("edit me", plan=LINE, gates=["plan"])["run"]
    daemon.until(run, "waiting")
    page = browsing.visit(daemon)
    page.goto(f"/dashboard/gates?run={run}")
    page.get_by_text("Edit, and let that go on instead").click()
    page.get_by_label("New text").fill("no plan at all")
    page.get_by_role("button", name="Let the edited text go on").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("New text")).to_be_visible()
    expect(page.get_by_label("New text")).to_have_value("no plan at all")
    expect(page.locator("details:not([open])")).to_have_count(1)
    browsing.complaints[:] = [each for each in browsing.complaints if "409" not in each]
    assert daemon.post(f"/v1/runs/{run}/cancel").json()["state"] == "cancelled"


def test_signing_out_in_one_tab_ends_the_other(daemon: Served, browsing: Browsing) -> None:
    page = browsing.visit(daemon)
    other = page.context.new_page()
    other.goto("/dashboard/")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
    browsing.complaints[:] = [each for each in browsing.complaints if "401" not in each]


def test_the_browser_finds_an_honest_ledger_whole(daemon: Served, browsing: Browsing, pin: str) -> None:
    page = browsing.visit(daemon)
    said = verified(page)
    assert "Whole, and signed by keys that it names itself" in said
    assert "without a pin its keys are its own claim" in said
    assert pin in said
    said = verified(page, pin)
    assert "Whole, and signed by the pinned key" in said
    assert "its own claim" not in said
    assert "Broken" in verified(page, pin[:-4] + ("0000" if pin[-4:] != "0000" else "1111"))


def test_whoever_verifies_with_the_keyboard_keeps_his_place(daemon: Served, browsing: Browsing) -> None:
    page = browsing.visit(daemon)
    page.goto("/dashboard/verify")
    asked: list[str] = []
    held: list[Route] = []

    def hold(route: Route) -> None:
        asked.append(route.request.url)
        held.append(route)

    page.route("**/data/checkpoints", hold)
    button, result = page.get_by_role("button", name="Verify the ledger"), page.locator("#ledger-result .result")
    button.focus()
    for times in (1, 2):
        page.keyboard.press("Enter")
        expect(button).to_be_disabled()
        page.keyboard.press("Enter")
        while not held:
            page.wait_for_timeout(20)
        held.pop().continue_()
        expect(result).to_contain_text("entries of")
        expect(button).to_be_focused()
        expect(button).to_be_enabled()
        assert len(asked) == times, "it is verified once at a time"


def test_a_rotation_that_is_not_sealed_is_not_called_good(daemon: Served, browsing: Browsing) -> None:
    log = honest()
    log.rotate(seal=False)
    log.redact(20, "prompt")
    log.checkpoint()
    page = browsing.visit(daemon)
    answers = {
        "lines?start=0": b"".join(len(line).to_bytes(4, "big") + line for line in log.lines),
        f"lines?start={log.size}": b"",
        "checkpoints": "\n".join(json.dumps({"note": note}) for note in log.checkpoints).encode(),
        "head": json.dumps({"entries": log.size}).encode(),
    }
    page.route("**/dashboard/data/*", lambda route: route.fulfill(body=answers[route.request.url.split("/data/")[1]]))
    said = verified(page, log.pin)
    assert "Whole, but not sealed by every key that it retired" in said
    assert "what its 1 tombstones and recorded anchors say of it is true" in said
    expect(page.locator("#ledger-result .result")).to_have_class("result warn")


def test_a_pin_is_remembered_and_forgotten(daemon: Served, browsing: Browsing, pin: str) -> None:
    page = browsing.visit(daemon)
    page.goto("/dashboard/verify")
    page.locator("#pin").fill("no pin at all")
    page.get_by_role("button", name="Remember").click()
    expect(page.locator("#pin-state")).to_contain_text("It was not kept")
    page.locator("#pin").fill(pin)
    page.get_by_role("button", name="Remember").click()
    page.reload()
    expect(page.locator("#pin")).to_have_value(pin)
    expect(page.locator("#pin-state")).to_contain_text("everything is held against it")
    page.locator("#pin").fill("")
    expect(page.locator("#pin-state")).to_contain_text("No pin, although this browser remembers one")
    page.get_by_role("button", name="Forget it").click()
    page.reload()
    expect(page.locator("#pin")).to_have_value("")


def pinned(daemon: Served) -> str:
    return str(json.loads(daemon.cli("ledger", "pin", "--json").stdout)["pin"])


def test_a_tampered_ledger_is_named_with_its_first_broken_entry(tmp_path: Path, browsing: Browsing) -> None:
    place(tmp_path)
    with serving(tmp_path, "--provider", "quick") as daemon:
        run, pin = daemon.submit(wait=30)["run"], pinned(daemon)
        [judged] = daemon.get(f"/v1/ledger/entries?run={run}&kind=task.judged").json()
        # What is not in the last 256 entries, a store does not look at when it is opened.
        while daemon.get("/v1/status").json()["entries"] < judged["seq"] + 257:
            daemon.post("/v1/route", {"text": "fix the login API"})
    with database(tmp_path / "l.db") as found:
        change = "UPDATE entries SET line = replace(line, '\"ok\":true', '\"ok\":false') WHERE seq = ?"
        assert found.execute(change, (judged["seq"],)).rowcount == 1
    with serving(tmp_path, "--provider", "quick") as daemon:
        page = browsing.visit(daemon)
        said = verified(page, pin)
        assert "Broken" in said
        assert f"The first broken entry is entry {judged['seq']}." in said
        page.get_by_role("link", name=f"entry {judged['seq']}").click()
        page.wait_for_url(f"**/dashboard/ledger/{judged['seq']}")
        expect(page.get_by_role("alert")).to_contain_text("Broken")
        browsing.close()


def test_a_thousand_entries_that_are_gone_from_an_unsigned_log_are_missed(tmp_path: Path, browsing: Browsing) -> None:
    log = Log.begun(signed=False)
    log.grow(2_500, bodies=False)
    log.write_sqlite(place(tmp_path) / "l.db")
    with database(tmp_path / "l.db") as found:
        assert found.execute("DELETE FROM entries WHERE seq >= 1000 AND seq < 2000").rowcount == 1000
    with serving(tmp_path) as daemon:
        said = verified(browsing.visit(daemon))
        assert "entry 1000: [E4] the entry is missing, and those up to 1999 with it" in said
        assert "entry 2000" not in said
        assert "1501 entries of" in said
        browsing.close()


@pytest.fixture(scope="module")
def receipt(daemon: Served) -> bytes:
    run = daemon.submit("prove it", wait=30)["run"]
    [returned] = daemon.get(f"/v1/ledger/entries?run={run}&kind=task.returned").json()
    return Visitor(daemon).see(f"/dashboard/ledger/{returned['seq']}/receipt?disclose=output").content


def given(page: Page, name: str, data: bytes) -> str:
    """What the page says of a receipt that is dropped onto it."""
    page.goto("/dashboard/verify")
    file = "([name, bytes]) => { const held = new DataTransfer(); held.items.add(new File([new Uint8Array(bytes)], name)); return held }"
    held = page.evaluate_handle(file, [name, list(data)])
    page.dispatch_event("#drop", "drop", {"dataTransfer": held})
    expect(page.locator("#receipt-result .result")).to_be_visible()
    return page.locator("#receipt-result .result").inner_text()


def test_a_receipt_holds_and_a_tampered_one_is_rejected(
    daemon: Served, browsing: Browsing, receipt: bytes, pin: str, tmp_path: Path
) -> None:
    page = browsing.visit(daemon)
    said = given(page, "good.tlog-proof", receipt)
    assert "good.tlog-proof: holds, for a log that names its own keys" in said
    assert "the result" in said
    assert "only the ledger shows" not in said
    assert "only the ledger shows" in given(page, "rotated.tlog-proof", honest().receipt(20, rotation=30))
    header, extra, rest = receipt.split(b"\n", 2)
    spoiled = rest.replace(b"index ", b"index 1", 1)
    for data in (
        b"\n".join([header, extra, spoiled]),
        receipt[:-30] + b"A" + receipt[-29:],
        b"",
        b"\xff\xfe",
        receipt[:200],
    ):
        assert "rejected" in given(page, "bad.tlog-proof", data)
    page.goto("/dashboard/verify")
    page.locator("#pin").fill(pin)
    page.locator("#witnesses").fill(WITNESS.text())
    (tmp_path / "chosen.tlog-proof").write_bytes(receipt)
    page.locator("#receipt").set_input_files(tmp_path / "chosen.tlog-proof")
    expect(page.locator("#receipt-result")).to_contain_text("holds, for the pinned log")
    expect(page.locator("#receipt-result")).to_contain_text("The witness witness.example/w1 has not cosigned it.")
    (tmp_path / "chosen.html").write_text(receipt_page(receipt.decode(), "chosen"))
    page.locator("#receipt").set_input_files(tmp_path / "chosen.html")
    expect(page.locator("#receipt-result")).to_contain_text("chosen.html: holds, for the pinned log")
    expect(page.locator("#receipt-result")).to_contain_text("the receipt in it was read, and nothing else of it")


def test_what_was_held_against_one_pin_is_not_told_of_another(
    daemon: Served, browsing: Browsing, receipt: bytes, pin: str, tmp_path: Path
) -> None:
    page, file = browsing.visit(daemon), tmp_path / "chosen.tlog-proof"
    file.write_bytes(receipt)
    page.goto("/dashboard/verify")
    page.locator("#pin").fill(pin)
    page.get_by_role("button", name="Verify the ledger").click()
    ledger, chosen = page.locator("#ledger-result"), page.locator("#receipt-result")
    expect(ledger).to_contain_text("Whole, and signed by the pinned key")
    page.locator("#receipt").set_input_files(file)
    expect(chosen).to_contain_text("holds, for the pinned log")
    page.locator("#witnesses").fill(WITNESS.text())
    expect(chosen).to_have_text("The witnesses are other ones now: check again.")
    expect(ledger).to_contain_text("Whole, and signed by the pinned key")
    page.locator("#pin").fill(honest().pin)
    expect(ledger).to_have_text("The pin is another one now: check again.")
    page.get_by_role("button", name="Verify the ledger").click()
    expect(ledger).to_contain_text("this is another log")
    with page.expect_file_chooser() as choosing:
        page.locator("#receipt").click()
    choosing.value.set_files(file)
    expect(chosen).to_contain_text("rejected")
    page.get_by_role("button", name="Forget it").click()
    for each in (ledger, chosen):
        expect(each).to_have_text("The pin is another one now: check again.")


def test_the_verification_of_a_ledger_that_grows_with_every_look_has_an_end(daemon: Served, browsing: Browsing) -> None:
    page = browsing.visit(daemon)
    page.goto("/dashboard/verify")

    def appended(route: Route) -> None:
        daemon.post("/v1/route", {"text": "one more"})
        route.continue_()

    page.route("**/dashboard/data/lines*", appended)
    page.get_by_role("button", name="Verify the ledger").click()
    expect(page.locator("#ledger-result")).to_contain_text("Whole")


def test_a_pin_that_changes_while_the_ledger_is_verified_gets_no_verdict_of_the_other(
    daemon: Served, browsing: Browsing, pin: str
) -> None:
    page, held = browsing.visit(daemon), list[Route]()
    page.goto("/dashboard/verify")
    page.route("**/dashboard/data/lines?start=0", lambda route: held.append(route))
    page.locator("#pin").fill(pin)
    with page.expect_request("**/dashboard/data/lines?start=0"):
        page.get_by_role("button", name="Verify the ledger").click()
    page.locator("#pin").fill(honest().pin)
    held.pop().continue_()
    expect(page.locator("#verify")).to_be_enabled()
    expect(page.locator("#ledger-result")).to_have_text("The pin is another one now: check again.")


def test_what_hides_is_spelled_alike_by_the_server_and_in_the_browser(daemon: Served, browsing: Browsing) -> None:
    page = browsing.visit(daemon)
    # What was named since one of the two learned Unicode is left out.
    known = [chr(each) for each in range(0x110000) if each == 0x2065 or category(chr(each)) not in ("Cn", "Cs", "Co")]
    script = """async (known) => {
      const { shown } = await import("/dashboard/static/telling.js");
      return known.map(shown);
    }"""
    known += ["z" + "\u0301\u20dd\u0e47" * 100 + "z", "1\ufe0f\u20e3" * 20, *JOINED, *HIDING]
    assert page.evaluate(script, known) == [spelled(each) for each in known]
    assert [spelled(each) for each in JOINED] == JOINED
    assert not any(set(spelled(each)) & {"\u200c", "\u200d"} for each in HIDING)


def test_a_state_that_somebody_chose_stays_chosen_while_he_goes_on_to_the_button(
    daemon: Served, browsing: Browsing
) -> None:
    daemon.submit(wait=60)
    page = browsing.visit(daemon)
    expect(page.locator("#live")).to_have_text("live")
    page.get_by_label("State").select_option("cancelled")
    page.get_by_role("button", name="Show").focus()
    daemon.submit(wait=60)
    expect(page.locator("#live")).to_have_text("there is news; reload when you are done")
    assert page.get_by_label("State").input_value() == "cancelled"
    page.get_by_label("State").select_option("any")
    page.get_by_role("button", name="Show").focus()
    expect(page.locator("#live")).to_have_text("live")


def test_on_paper_a_long_text_stands_whole(daemon: Served, browsing: Browsing) -> None:
    run = daemon.submit("\n".join(f"line {number}" for number in range(400)), wait=60)["run"]
    page = browsing.visit(daemon)
    page.goto(f"/dashboard/runs/{run}")
    page.emulate_media(media="print")
    request = page.locator("pre").first
    assert "line 399" in request.inner_text()
    assert request.evaluate("each => each.scrollHeight <= each.clientHeight")


def test_a_task_with_a_long_name_fits_on_a_phone(daemon: Served, browsing: Browsing) -> None:
    long = "w" * 100
    tasks = [{"id": name, "lane": "backend", "instruction": "do it"} for name in (long, "short")]
    run = daemon.submit(wait=60, plan={"tasks": [tasks[0], tasks[1] | {"needs": [long]}]})["run"]
    page = browsing.visit(daemon, width=360)
    waits = daemon.submit(gates=[f"task:{long}"], plan={"tasks": tasks[:1]})["run"]
    daemon.until(waits, "waiting")
    for path in (f"/dashboard/runs/{run}", f"/dashboard/compare?run={run}&run={waits}", "/dashboard/gates"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
    daemon.post(f"/v1/runs/{waits}/cancel")


def test_a_name_stays_in_its_box_and_what_is_cut_off_is_marked(daemon: Served, browsing: Browsing) -> None:
    page = browsing.visit(daemon)
    tasks = [{"id": name, "lane": "backend", "instruction": "do it"} for name in ("short", "m" * 19, "計" * 18)]
    page.goto(f"/dashboard/runs/{daemon.submit('wide letters', plan={'tasks': tasks}, wait=30)['run']}")
    names = page.locator(".graph .label:first-child")
    expect(names).to_have_count(3)
    cut = "name => [name.scrollWidth > name.clientWidth, getComputedStyle(name).textOverflow, getComputedStyle(name).overflowX]"
    assert [each.evaluate(cut)[0] for each in names.all()] == [False, True, True]
    assert {tuple(each.evaluate(cut)[1:]) for each in names.all()} == {("ellipsis", "hidden")}
    for name, box in zip(names.all(), page.locator(".graph .box").all(), strict=True):
        inner, outer = name.bounding_box(), box.bounding_box()
        assert inner is not None
        assert outer is not None
        assert outer["x"] <= inner["x"] < inner["x"] + inner["width"] <= outer["x"] + outer["width"]


def test_what_entries_say_has_room_on_a_tablet(daemon: Served, browsing: Browsing, finished: str) -> None:
    page = browsing.visit(daemon, width=768)
    page.goto(f"/dashboard/ledger?run={finished}")
    said = page.locator(".entries td.wrap").first.bounding_box()
    assert said is not None
    assert said["width"] > 200
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_phone_needs_no_sideways_scrolling(daemon: Served, browsing: Browsing) -> None:
    run = daemon.submit("a_word_" * 40, plan=LINE, wait=30, provider="quick")["run"]
    debate = daemon.post("/v1/deliberations?wait=60", {"problem": "why?", "provider": "rehearsal"}).json()["run"]
    page = browsing.visit(daemon, width=360)
    compared = f"/dashboard/compare?run={run}&run={run}"
    for path in (*PAGES, f"/dashboard/runs/{run}", f"/dashboard/deliberations/{debate}", compared):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path


def test_a_session_of_long_words_fits_on_a_phone_here_and_as_a_page_of_its_own(
    daemon: Served, browsing: Browsing, tmp_path: Path
) -> None:
    long = "w" * 60
    sides = [{"agent": each, "claim": long * 5} for each in (long, "bob")]
    ends = verdict("finalize", unresolved=[{"topic": long * 20, "positions": sides}])
    body = {"config": config([long, "bob"]).as_data(), "script": script([turn(), turn(), ends, synthesis()]).as_data()}
    held = daemon.post("/v1/deliberations?wait=60", body).json()
    assert held["outcome"] == "synthesis"
    [turns, *_] = daemon.get(f"/v1/ledger/entries?run={held['run']}&kind=turn.taken").json()
    page = browsing.visit(daemon, width=360)
    for path in (f"/dashboard/deliberations/{held['run']}", f"/dashboard/ledger/{turns['seq']}"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
    told = daemon.cli("session", "export", held["run"], "--html", "--output", tmp_path / "session.html")
    assert told.returncode == 0, told.stderr
    page = browsing.opened(tmp_path / "session.html")
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_number_is_in_one_line_on_a_phone(daemon: Served, browsing: Browsing, tmp_path: Path) -> None:
    # As one answer of an agent may cost it: 12,000 tokens.
    told = script([turn(text="word " * 9_000), turn(text="word " * 9_000), verdict("finalize"), synthesis()]).as_data()
    body = {"config": config(["treasurer", "bob"]).as_data(), "script": told}
    held = daemon.post("/v1/deliberations?wait=60", body).json()
    assert daemon.cli("session", "export", held["run"], "--html", "--output", tmp_path / "session.html").returncode == 0
    page = browsing.opened(tmp_path / "session.html")
    page.set_viewport_size({"width": 360, "height": 800})
    lines = """each => each.map(cell => {
      const range = new Range();
      range.selectNodeContents(cell);
      return new Set([...range.getClientRects()].map(box => box.top)).size;
    })"""
    assert set(page.locator("tr:has(td.number) > :is(th, .number)").evaluate_all(lines)) == {1}
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_each_paragraph_of_an_answer_has_its_own_direction(daemon: Served, browsing: Browsing, tmp_path: Path) -> None:
    """One for the whole would be that of its first letter, and put the dots of English, and code, at the wrong ends."""
    mixed = "\u064a\u062c\u0628 \u0623\u0646 \u0646\u062d\u062f\u062f.\nFive will do.\n  return n < 5"
    answer = says({"integrated_answer": mixed, "resolved_disagreements": [], "unresolved_disagreements": []})
    said = script([turn(text=mixed), turn(), verdict("finalize"), answer]).as_data()
    held = daemon.post("/v1/deliberations?wait=60", {"config": config(["ada", "bob"]).as_data(), "script": said}).json()
    page = browsing.visit(daemon)
    page.goto(f"/dashboard/deliberations/{held['run']}")
    told = daemon.cli("session", "export", held["run"], "--html", "--output", tmp_path / "session.html")
    assert told.returncode == 0, told.stderr
    pages = [(page, ".answer"), (page, ".turn p.wrap")]
    pages += [(alone := browsing.opened(tmp_path / "session.html"), ".answer"), (alone, ".turn p")]
    script_ = """each => {
      const text = each.firstChild, at = text.data.indexOf("Five"), range = new Range();
      const place = (from, to) => (range.setStart(text, from), range.setEnd(text, to), range.getBoundingClientRect());
      const arabic = place(0, 1), first = place(at, at + 1), dot = place(at + 12, at + 13), box = each.getBoundingClientRect();
      return [box.right - arabic.right < 40, first.left - box.left < 40, dot.left > first.left];
    }"""
    for where, selector in pages:
        assert where.locator(selector).first.evaluate(script_) == [True, True, True], selector


def test_whoever_goes_through_a_drawing_with_the_keyboard_sees_all_of_the_ring(
    daemon: Served, browsing: Browsing, finished: str
) -> None:
    page = browsing.visit(daemon)
    page.goto(f"/dashboard/runs/{finished}")
    around = """each => {
      const [box, within] = [each.getBoundingClientRect(), each.closest(".scroll").getBoundingClientRect()];
      return Math.min(box.left - within.left, box.top - within.top, within.bottom - box.bottom);
    }"""
    assert page.locator(".graph a rect").first.evaluate(around) >= 5
    assert page.locator(".graph").evaluate("each => getComputedStyle(each).overflow") == "visible"


def test_paper_has_the_run_and_nothing_to_press(daemon: Served, browsing: Browsing, finished: str) -> None:
    page = browsing.visit(daemon)
    page.goto(f"/dashboard/runs/{finished}")
    page.emulate_media(media="print")
    expect(page.locator("main h1")).to_be_visible()
    expect(page.locator(".answer")).to_be_visible()
    assert page.locator("nav a:visible, button:visible, a.button:visible").count() == 0
    assert page.locator(".graph").evaluate("each => getComputedStyle(each).maxWidth") == "100%"


def test_a_token_with_a_long_name_fits_on_a_phone(daemon: Served, browsing: Browsing) -> None:
    page = browsing.visit(daemon, width=360, token=daemon.issue("add", "w" * 40, "--roles", "reader"))
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    expect(page.get_by_role("button", name="Sign out")).to_be_in_viewport(ratio=1)


def test_a_phone_is_told_too_that_its_page_is_not_live(daemon: Served, browsing: Browsing) -> None:
    page = browsing.visit(daemon, width=360)
    page.goto("/dashboard/ledger")
    page.get_by_label("Kind").fill("run.")
    daemon.submit("news", wait=30)
    expect(page.get_by_text("there is news; reload when you are done")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_dark_is_dark(daemon: Served, browsing: Browsing, tmp_path: Path) -> None:
    shades = []
    for scheme in ("light", "dark"):
        page = browsing.visit(daemon, color_scheme=scheme)
        page.screenshot(path=tmp_path / f"{scheme}.png", full_page=True)
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        shades.append(sum(int(each) for each in colour.removeprefix("rgb(").removesuffix(")").split(", ")))
    assert shades[0] > 600 > 150 > shades[1]


def test_every_field_has_a_name_and_the_first_key_leads_to_the_content(daemon: Served, browsing: Browsing) -> None:
    page = browsing.visit(daemon)
    unnamed = (
        "[...document.querySelectorAll('input:not([type=hidden]), select, textarea, button, a, meter, progress')].filter("
        "each => !(each.labels?.length || each.ariaLabel || each.textContent.trim())).map(each => each.outerHTML)"
    )
    for path in PAGES:
        page.goto(path)
        assert page.evaluate(unnamed) == [], path
        assert [page.locator(landmark).count() for landmark in ("main", "header", "h1")] == [1, 1, 1]
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "To the content"


def test_a_fold_leads_nowhere_and_what_it_shows_is_beside_it(daemon: Served, browsing: Browsing) -> None:
    page = browsing.visit(daemon)
    run = daemon.submit("fold me", wait=30)["run"]
    [returned] = daemon.get(f"/v1/ledger/entries?run={run}&kind=task.returned").json()
    page.goto(f"/dashboard/runs/{run}")
    expect(page.locator("summary")).to_have_text(["Prompt", "Output"])
    expect(page.locator("summary :is(a, button, input)")).to_have_count(0)
    expect(page.locator(f'#task-one a[href="/dashboard/ledger/{returned["seq"]}"]')).to_be_visible()


def test_a_call_that_is_awaited_has_taken_no_time_yet(daemon: Served, browsing: Browsing) -> None:
    page = browsing.visit(daemon)
    run = daemon.submit("it takes its time", provider="stuck")["run"]
    page.goto(f"/dashboard/runs/{run}")
    expect(page.locator(".timeline td.number")).to_have_text("no answer yet")
    daemon.post(f"/v1/runs/{run}/cancel")
    expect(page.locator(".timeline td.number")).to_have_text(re.compile(r"^[0-9.]+ m?s failed$"))


@pytest.fixture(scope="module")
def finished(daemon: Served) -> str:
    return str(daemon.submit("read me without scripts", wait=30)["run"])


def test_pages_are_read_without_scripts(daemon: Served, browsing: Browsing, finished: str) -> None:
    page = browsing.visit(daemon, java_script_enabled=False)
    page.get_by_role("link", name="read me without scripts").click()
    expect(page.locator(".answer")).to_have_text("the result")


def test_a_receipt_as_a_page_checks_itself_offline(
    browsing: Browsing, receipt: bytes, pin: str, tmp_path: Path
) -> None:
    text = receipt.decode()
    good, bad = tmp_path / "good.html", tmp_path / "bad.html"
    good.write_text(receipt_page(text, "good.tlog-proof"))
    bad.write_text(receipt_page(text[:-30] + ("A" if text[-30] != "A" else "B") + text[-29:], "bad.tlog-proof"))
    page = browsing.opened(good)
    result = page.locator("#result .result")
    expect(result).to_be_visible()
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3, h4')].map(each => Number(each.tagName[1]))")
    assert levels == [1, 2, 3]
    expect(result).to_contain_text("good.tlog-proof: holds, for a log that names its own keys")
    page.locator("#pin").fill(pin)
    page.get_by_role("button", name="Check against it").click()
    expect(result).to_contain_text("holds, for the pinned log")
    page.locator("#witnesses").fill(WITNESS.text())
    page.get_by_role("button", name="Check against it").click()
    expect(result).to_contain_text("The witness witness.example/w1 has not cosigned it.")
    page.locator("#pin").fill(honest().pin)
    expect(page.locator("#result")).to_have_text("It is to be held against something else now: check again.")
    page.goto(bad.as_uri())
    expect(page.locator("#result .result")).to_contain_text("bad.tlog-proof: rejected")
