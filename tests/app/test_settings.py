import os
import socket
import sys
from pathlib import Path

import pytest

from hansard.app.driving.runs import read_plan
from hansard.app.service import Hansard
from hansard.app.settings import ledger_settings, read_settings
from hansard.app.starting.doctor import examine
from hansard.errors import UsageError


def config(folder: Path, text: str) -> None:
    (folder / "hansard.toml").write_text(text, "utf-8")


def test_the_ledger_is_found_by_argument_then_environment_then_file_then_default(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    environ = {"HOME": "/h", "HANSARD_LEDGER": "env.db"}
    assert read_settings("arg.db", environ=environ, folder=inner).ledger == "arg.db"
    assert read_settings(environ=environ, folder=inner).ledger == "env.db"
    default = read_settings(environ={"HOME": "/h"}, folder=inner)
    assert default.ledger == "/h/.local/state/hansard/ledger.db"
    config(tmp_path, "")
    assert read_settings(environ={"HOME": "/h"}, folder=inner).ledger == str(tmp_path / ".hansard" / "ledger.db")
    config(tmp_path, 'ledger = "logs/x.db"\norigin = "example.org/log"')
    found = read_settings(environ={"HOME": "/h"}, folder=inner)
    assert (found.ledger, found.origin) == (str(tmp_path / "logs" / "x.db"), "example.org/log")
    config(tmp_path, 'ledger = "team:a.db"')
    assert read_settings(environ={"HOME": "/h"}, folder=inner).ledger == str(tmp_path / "team:a.db")
    config(tmp_path, 'ledger = "memory:"')
    assert read_settings(environ={"HOME": "/h"}, folder=inner).ledger == "memory:"
    config(tmp_path, 'ledger = "postgresql://db/x"')
    assert read_settings(environ={"HOME": "/h"}, folder=inner).ledger == "postgresql://db/x"


def test_an_empty_path_is_no_ledger_for_a_program_either(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the path of the ledger is empty"):
        read_settings("", environ={"HANSARD_STATE": str(tmp_path)}, folder=tmp_path)
    with pytest.raises(UsageError, match="the path of the ledger is empty"):
        Hansard.open("")


def test_a_path_may_begin_at_home_where_no_shell_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    config(tmp_path, 'ledger = "~/x.db"\n[roster]\nfile = "~/lanes.toml"')
    found = read_settings(environ={"HANSARD_STATE": "~/kept"}, folder=tmp_path)
    home = tmp_path / "home"
    assert (found.ledger, found.state, found.roster_file) == (str(home / "x.db"), home / "kept", home / "lanes.toml")
    assert read_settings(environ={"HANSARD_LEDGER": "~/y.db"}, folder=tmp_path).ledger == str(home / "y.db")
    assert ledger_settings(environ={"HANSARD_LEDGER": "~/y.db"}).ledger == str(home / "y.db")


def test_a_mark_of_byte_order_before_a_file_is_no_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "hansard.toml").write_text('ledger = "x.db"\n[roster]\nfile = "lanes.toml"', "utf-8-sig")
    (tmp_path / "lanes.toml").write_text(
        'name = "few"\n[[lane]]\nname = "a"\ncategory = "c"\ndomain = "d"', "utf-8-sig"
    )
    settings = read_settings(environ={"HOME": "/h"}, folder=tmp_path)
    assert settings.ledger == str(tmp_path / "x.db")
    assert settings.roster is not None
    for name, text in (("plan.json", '{"tasks": []}'), ("plan.toml", "tasks = []")):
        (tmp_path / name).write_text(text, "utf-8-sig")
        assert read_plan(tmp_path / name) == {"tasks": []}


def test_a_tier_of_ones_own_is_one_that_the_ladder_names(tmp_path: Path) -> None:
    tiers = '[providers.a]\nkind = "command"\ncommand = ["cat"]\n[tiers]\nsmall = "a"\n'
    (tmp_path / "hansard.toml").write_text(f'{tiers}[run]\nladder = ["small", "a"]\n', "utf-8")
    assert read_settings(folder=tmp_path, environ={}).tiers == {"small": "a"}
    (tmp_path / "hansard.toml").write_text(tiers, "utf-8")
    with pytest.raises(UsageError, match="unknown key small"):
        read_settings(folder=tmp_path, environ={})


def test_the_state_folder_follows_the_environment(tmp_path: Path) -> None:
    assert read_settings(environ={"XDG_STATE_HOME": "/s", "HOME": "/h"}, folder=tmp_path).state == Path("/s/hansard")
    assert read_settings(environ={"XDG_STATE_HOME": "rel", "HOME": "/h"}, folder=tmp_path).state == Path(
        "/h/.local/state/hansard"
    )
    chosen = read_settings(environ={"HANSARD_STATE": "/chosen", "HOME": "/h"}, folder=tmp_path)
    assert chosen.log_folder("ab") == Path("/chosen/logs/ab")


def test_a_user_without_a_home_is_told_to_name_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", nobody)
    with pytest.raises(UsageError, match=r"no home; .*HANSARD_STATE"):
        read_settings(environ={}, folder=tmp_path)
    with pytest.raises(UsageError, match=r"~/x\.db begins at a home"):
        read_settings(environ={"HANSARD_STATE": "/s", "HANSARD_LEDGER": "~/x.db"}, folder=tmp_path)
    assert read_settings(environ={"HANSARD_STATE": "/s"}, folder=tmp_path).state == Path("/s")


def test_the_home_of_a_user_who_does_not_exist_is_no_folder_here(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"begins at the home of 'nosuchuser', and there is no such user"):
        read_settings(environ={"HANSARD_STATE": "/s", "HANSARD_LEDGER": "~nosuchuser/x.db"}, folder=tmp_path)


def test_a_home_that_depends_on_where_we_work_keeps_no_keys(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"HOME is 'h', .*HANSARD_STATE"):
        read_settings(environ={"HOME": "h"}, folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("ledger = ", "hansard.toml"),
        ("ledger = 3", "ledger"),
        ('ledger = ""', "ledger"),
        ("origin = 3", "origin"),
        ("providers = 3", "providers"),
        ("[providers]\nx = 5", r"write \[providers.x\]"),
        ('[providers."a:b"]\nkind = "command"', "NAME:MODEL"),
        ('[tiers]\ncheap = "nobody"', "nobody"),
        ('[providers.a]\nkind = "command"\n[roles]\nvalidtor = "a"', "unknown key validtor; did you mean validator?"),
        ('[providers.a]\nkind = "command"\n[tiers]\ncapabel = "a"', "unknown key capabel; did you mean capable?"),
        ("[budget]\ndollars = 1", "unknown key dollars; known are max_calls, max_seconds, max_tokens, max_usd"),
        ("zzz = 1", "unknown key zzz; known are budget, context, gate, ledger, origin, panels"),
        ("[polcy]\nmax_parallel = 3", "unknown key polcy; did you mean policy?"),
        ("[budgets]\nmax_calls = 3", "did you mean budget?"),
        *((f"{name} = 5", rf"write \[{name}\]") for name in ("run", "budget", "policy", "roster", "tiers", "roles")),
        *((f"{name} = 5", rf"write \[{name}.NAME\]") for name in ("providers", "prices", "panels", "tools")),
        ("[providers.a]\nkind = 'command'\n[roles]\nvalidator = 3", "validator"),
        ("[providers.a]\nenv = [2026-01-01]", r"providers\.a\.env\.1 is a date .* write it as text: \"2026-01-01\""),
        ("[providers.a]\nset_env = {AT = 07:32:00}", r"providers\.a\.set_env\.AT is a date or a time"),
    ],
)
def test_a_wrong_setting_names_the_file_and_the_key(tmp_path: Path, text: str, word: str) -> None:
    config(tmp_path, text)
    with pytest.raises(UsageError, match=word) as refused:
        read_settings(environ={"HOME": "/h"}, folder=tmp_path)
    assert "hansard.toml" in str(refused.value)


def test_a_file_that_is_not_text_gets_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "hansard.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"hansard.toml is not UTF-8 text"):
        read_settings(environ={"HOME": "/h"}, folder=tmp_path)


@pytest.mark.parametrize("odd", ["[" * 5_000, "9" * 5_000], ids=["nested", "digits"])
@pytest.mark.parametrize("name", ["hansard.toml", "personas/x.toml", "roster.toml"])
def test_what_python_cannot_take_in_is_told_of_the_file(tmp_path: Path, name: str, odd: str) -> None:
    (tmp_path / "personas").mkdir()
    config(tmp_path, '[roster]\nfile = "roster.toml"')
    (tmp_path / name).write_text(f"x = {odd}")

    def read() -> object:
        settings = read_settings(environ={"HOME": "/h"}, folder=tmp_path)
        return settings.written("personas"), settings.roster

    with pytest.raises(UsageError, match=name):
        read()


def test_secrets_of_the_environment_are_not_shown(tmp_path: Path) -> None:
    settings = read_settings(environ={"HOME": "/h", "OPENAI_API_KEY": "sk-very-secret"}, folder=tmp_path)
    assert "sk-very-secret" not in repr(settings)


def test_doctor_tells_of_each_provider_by_itself(tmp_path: Path) -> None:
    config(
        tmp_path,
        'ledger = "x.db"\n[providers.cat]\nkind = "command"\nargv = ["cat"]\n'
        '[providers.odd]\nkind = "banana"\n[providers.cloud]\nkind = "openai"\nmodel = "gpt-4.1-mini"\n',
    )
    environ = {"HOME": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin", "OPENAI_API_KEY": "sk-1234567890"}
    found = {each["name"]: each for each in examine(read_settings(environ=environ, folder=tmp_path))}
    assert found["provider cat"]["ok"]
    assert not found["provider odd"]["ok"]
    assert "banana" in found["provider odd"]["detail"]
    assert found["provider cloud"]["ok"], found["provider cloud"]
    assert not found["codex"]["ok"]
    assert found["OPENAI_API_KEY"]["ok"]
    assert "sk-1234567890" not in str(found)
    (tmp_path / "codex").write_text("#!/bin/sh\n")
    (tmp_path / "codex").chmod(0o755)
    again = {each["name"]: each for each in examine(read_settings(environ=environ, folder=tmp_path))}
    assert again["codex"]["ok"]


def test_doctor_says_that_a_provider_has_no_model_and_a_variable_of_blanks_no_key(tmp_path: Path) -> None:
    at = 'kind = "openai"\nbase_url = "https://example.org/v1"\n'
    config(tmp_path, f'[providers.any]\n{at}[providers.one]\n{at}model = "m"\n')
    environ = {"HOME": str(tmp_path), "PATH": "", "OPENAI_API_KEY": " \n"}
    found = {each["name"]: each for each in examine(read_settings(environ=environ, folder=tmp_path))}
    assert found["provider any"]["detail"].endswith("; it has no model, and is asked as any:MODEL alone")
    assert "no model" not in found["provider one"]["detail"]
    assert not found["OPENAI_API_KEY"]["ok"]


def test_doctor_says_which_variables_a_provider_names_and_nobody_has_set(tmp_path: Path) -> None:
    config(
        tmp_path,
        '[providers.cat]\nkind = "command"\nargv = ["cat"]\nsecrets = ["MINE", "MIEN"]\nenv = ["LANG", "TOKN"]\n',
    )
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "MINE": "0123456789", "LANG": "C"}
    found = {each["name"]: each for each in examine(read_settings(environ=environ, folder=tmp_path))}["provider cat"]
    assert found["detail"].endswith("; MIEN, which secrets names, is not set; TOKN, which env names, is not set")
    assert (found["ok"], "MINE" in found["detail"]) == (True, False)


@pytest.mark.parametrize(
    ("module", "extra"), [("openai", "openai"), ("anthropic", "anthropic"), ("fastapi", "serve"), ("mcp", "mcp")]
)
def test_doctor_says_which_extra_is_not_here(
    tmp_path: Path, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = read_settings(environ={"HOME": str(tmp_path), "OPENAI_API_KEY": "sk-1234567890"}, folder=tmp_path)
    assert {each["name"]: each["ok"] for each in examine(settings)}[module]
    monkeypatch.setitem(sys.modules, module, None)
    missing = {each["name"]: each for each in examine(settings)}[module]
    assert (missing["ok"], f"pip install 'hansard[{extra}]'" in missing["detail"]) == (False, True)


def test_doctor_says_whether_a_server_of_this_machine_listens(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        lines = f'kind = "openai"\nbase_url = "http://127.0.0.1:{port}/v1"\nmodel = "m"\n'
        config(tmp_path, f'ledger = "x.db"\n[providers.near]\n{lines}')
        settings = read_settings(environ={"HOME": str(tmp_path)}, folder=tmp_path)
        assert {each["name"]: each for each in examine(settings)}["provider near"]["ok"]
    near = {each["name"]: each for each in examine(settings)}["provider near"]
    assert (near["ok"], f"nobody listens at 127.0.0.1:{port}" in near["detail"]) == (False, True)


def test_what_never_ends_is_read_to_the_limit_and_refused(tmp_path: Path) -> None:
    (tmp_path / "plan.json").symlink_to("/dev/zero")
    with pytest.raises(UsageError, match=r"plan\.json is larger than 64,000,000 bytes"):
        read_plan(tmp_path / "plan.json")


@pytest.mark.parametrize("odd", ["folder", "link", "pipe"])
@pytest.mark.parametrize("name", ["hansard.toml", "personas/x.toml"])
def test_a_setting_that_is_no_file_is_refused(tmp_path: Path, name: str, odd: str) -> None:
    path = tmp_path / name
    if path.parent != tmp_path:
        path.parent.mkdir()
        config(tmp_path, "")
    match odd:
        case "folder":
            path.mkdir()
        case "link":
            path.symlink_to("nowhere")
        case _:
            os.mkfifo(path)
    with pytest.raises(UsageError, match=rf"{name} is not a file"):
        read_settings(environ={"HOME": "/h"}, folder=tmp_path).written("personas")


def test_a_ledger_that_is_named_is_found_without_hansard_toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config(tmp_path, "[[[")
    assert ledger_settings("x.db", environ={"HOME": "/h"}).ledger == "x.db"
    assert ledger_settings(environ={"HOME": "/h", "HANSARD_LEDGER": "y.db"}).ledger == "y.db"
    with pytest.raises(UsageError, match=r"hansard\.toml"):
        ledger_settings(environ={"HOME": "/h"})


def test_doctor_says_when_what_hansard_toml_names_is_not_there(tmp_path: Path) -> None:
    config(tmp_path, '[roster]\nfile = "nothing.toml"')
    [found] = [
        each for each in examine(read_settings(environ={"HOME": "/h"}, folder=tmp_path)) if each["name"] == "config"
    ]
    assert (found["ok"], "nothing.toml" in found["detail"]) == (False, True)


@pytest.mark.parametrize(
    "text",
    [
        '[run]\njudge = "zork"',
        "[run]\ntimeout_s = 0",
        "[budget]\nmax_usd = -1",
        "[budget]\nmax_calls = 9007199254740992",
        "[budget]\nmax_seconds = 1e307",
        '[policy]\nallow_lanes = ["zork"]',
        '[[gate]]\nbefore = "plan"\nneeded = 0',
        '[[gate]]\nbefore = "plan"\nneeded = 9007199254740992',
        '[[gate]]\nbefore = "plan"\nlanes = ["backend"]',
        '[[gate]]\nbefore = "plan"\non_expiry = "approve"',
        '[[gate]]\nbefore = "plan"\napprovers = ["Ann Doe"]',
        '[[gate]]\ntasks = ["t"]\nasked = true',
        "[[context]]",
        '[[context]]\nurl = "zork"',
        '[[context]]\nrun = "last"',
        "[verifier]",
        '[verifier]\nrun = "last"',
        "[reviser]",
        '[verifier]\ncommand = "cat"',
        '[verifier]\nentry_point = "zork"',
        '[reviser]\nentry_point = "zork"',
        '[[context]]\nname = "c"\nentry_point = "zork"',
        "[personas.p]\nreasoning_scope = 3",
        '[panels.p]\nagents = ["zork"]',
        '[panels.p]\nagents = ["critic", "engineer"]\nprovider = "zork"',
        '[tools.t]\ncomand = ["cat"]',
        '[tools.t]\ncommand = ["no-such-program"]',
        '[[context]]\nname = "c"\ncommand = ["./no-such-program"]',
        '[verifier]\ncommand = ["no-such-program"]',
        '[prices.m]\ninput = "much"',
        '[witnesses.w]\nurl = "zork"\nkey = "k"',
        'origin = "a b"',
        '[providers.cat]\nkind = "command"\nargv = ["cat"]\n[run]\nladder = ["zork"]',
        '[providers.cat]\nkind = "command"\nargv = ["cat"]\n[run]\nladder = ["cat", "cat:m", "cat"]',
    ],
)
def test_doctor_says_what_a_run_would_be_refused_for(tmp_path: Path, text: str) -> None:
    config(tmp_path, text)
    settings = read_settings(environ={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}, folder=tmp_path)
    found = {each["name"]: each for each in examine(settings)}["config"]
    assert (found["ok"], found["detail"].count("hansard.toml")) == (False, 1), found["detail"]


@pytest.mark.needs_root
def test_a_strangers_file_where_anybody_may_put_one_is_not_obeyed(tmp_path: Path) -> None:
    stranger, mine = 65_533, tmp_path / "mine"
    mine.mkdir()
    config(tmp_path, 'ledger = "theirs.db"')
    os.chown(tmp_path / "hansard.toml", stranger, -1)
    tmp_path.chmod(0o1777)
    for folder in (mine, tmp_path):
        with pytest.raises(UsageError, match=f"belongs to user {stranger}"):
            read_settings(environ={"HOME": "/h"}, folder=folder)
    tmp_path.chmod(0o775)
    assert read_settings(environ={"HOME": "/h"}, folder=mine).ledger == str(tmp_path / "theirs.db")
    tmp_path.chmod(0o1777)
    os.chown(tmp_path / "hansard.toml", os.geteuid(), -1)
    assert read_settings(environ={"HOME": "/h"}, folder=mine).ledger == str(tmp_path / "theirs.db")
