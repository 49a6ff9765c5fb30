import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hansard.app.serving.tokens import Tokens
from hansard.errors import StoreError, UsageError


def test_the_first_token_is_made_once_and_stays(tmp_path: Path) -> None:
    file = Tokens(tmp_path / "serve").ensure()
    assert file is not None
    first = file.read_text()
    assert Tokens(tmp_path / "serve").ensure() == file
    assert file.read_text() == first
    token = Tokens(tmp_path / "serve").known(first.strip())
    assert token is not None
    assert (token.name, token.roles) == ("default", ("reader", "operator", "approver"))
    assert token.actor == "human:default"


def test_whoever_may_do_something_may_look(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    token = tokens.known(tokens.add("op", ("operator",)))
    assert token is not None
    assert [token.may(role) for role in ("reader", "operator", "approver")] == [True, True, False]


def test_a_running_process_notices_changes(tmp_path: Path) -> None:
    running, other = Tokens(tmp_path), Tokens(tmp_path)
    running.ensure()
    secret = other.add("new", ("reader",))
    assert running.known(secret) is not None
    other.revoke("new")
    assert running.known(secret) is None


def test_a_token_is_over_when_its_time_is(tmp_path: Path) -> None:
    now = [1_000.0]
    tokens = Tokens(tmp_path, clock=lambda: now[0])
    token = tokens.known(tokens.add("brief", ("reader",), seconds=60))
    assert token is not None
    assert not tokens.is_over(token)
    now[0] = 1_060.0
    assert tokens.is_over(token)


def test_rotation_of_the_default_token_renews_its_file(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    file = tokens.ensure()
    assert file is not None
    old = file.read_text().strip()
    new = tokens.rotate()
    assert tokens.ensure() == file
    assert file.read_text().strip() == new
    assert tokens.known(old) is None


def test_the_file_of_the_default_token_holds_no_other(tmp_path: Path) -> None:
    now = [1_000.0]
    tokens = Tokens(tmp_path, clock=lambda: now[0])
    file = tokens.ensure()
    assert file is not None
    first = file.read_text()
    tokens.add("op", ("operator",), seconds=60)
    tokens.rotate("op")
    assert (tokens.ensure(), file.read_text()) == (file, first)
    made = {"created": "1970-01-01T00:16:40.000Z"}
    assert tokens.listed() == [
        {"name": "default", "roles": ["reader", "operator", "approver"], **made, "until": None},
        {"name": "op", "roles": ["operator"], **made, "until": "1970-01-01T00:17:40.000Z"},
    ]


def test_a_token_that_has_ended_is_neither_renewed_nor_announced(tmp_path: Path) -> None:
    now = [1_000.0]
    tokens = Tokens(tmp_path, clock=lambda: now[0])
    tokens.ensure()
    tokens.add("other", ("reader",))
    tokens.add("brief", ("reader",), seconds=60)
    tokens.rotate("default", keep_s=0)
    (tmp_path / "token").write_text(tokens.rotate("brief"))
    now[0] = 1_060.0
    assert tokens.ensure() is None
    with pytest.raises(UsageError, match="there is no token 'brief'"):
        tokens.rotate("brief")


def test_many_who_add_at_once_lose_none(tmp_path: Path) -> None:
    names = sorted(f"t{number}" for number in range(24))
    with ThreadPoolExecutor(12) as pool:
        secrets = list(pool.map(lambda name: Tokens(tmp_path).add(name, ("reader",)), names))
    assert sorted(each["name"] for each in Tokens(tmp_path).listed()) == names
    assert all(Tokens(tmp_path).known(secret) for secret in secrets)


def test_a_daemon_looks_at_the_file_as_often_as_it_is_told(tmp_path: Path) -> None:
    running = Tokens(tmp_path, look_s=3_600)
    assert running.known("x") is None
    assert running.known(Tokens(tmp_path).add("new", ("reader",))) is None


def test_a_folder_in_which_no_token_can_be_kept_is_told(tmp_path: Path) -> None:
    (tmp_path / "serve").mkdir(mode=0o700)
    (tmp_path / "serve" / "lock").mkdir()
    with pytest.raises(StoreError, match=r"cannot keep tokens in .*: Is a directory"):
        Tokens.of(tmp_path).ensure()


@pytest.mark.parametrize("hindered", ["tokens.json", "token"])
def test_a_rotation_that_breaks_off_leaves_a_good_token_in_the_file(tmp_path: Path, hindered: str) -> None:
    tokens = Tokens(tmp_path)
    file = tokens.ensure()
    assert file is not None
    (tmp_path / f"{hindered}.new").mkdir()
    with pytest.raises(StoreError):
        tokens.rotate()
    assert Tokens(tmp_path).ensure() == file
    (tmp_path / f"{hindered}.new").rmdir()
    assert tokens.rotate() == file.read_text().strip()
    assert [each["name"] for each in tokens.listed()] == ["default"]


def test_a_token_that_could_not_be_revoked_stays_in_its_file(tmp_path: Path) -> None:
    file = Tokens(tmp_path).ensure()
    (tmp_path / "tokens.json.new").mkdir()
    with pytest.raises(StoreError):
        Tokens(tmp_path).revoke("default")
    assert Tokens(tmp_path).ensure() == file


def test_a_token_that_ends_is_not_good_for_longer_because_it_was_rotated(tmp_path: Path) -> None:
    now = [1_000.0]
    tokens = Tokens(tmp_path, clock=lambda: now[0])
    old = tokens.add("brief", ("reader",), seconds=60)
    new = tokens.rotate("brief", keep_s=3_600)
    now[0] = 1_059.0
    assert [tokens.is_over(each) for each in map(tokens.known, (old, new)) if each] == [False, False]
    now[0] = 1_060.0
    assert [tokens.is_over(each) for each in map(tokens.known, (old, new)) if each] == [True, True]


def test_an_old_secret_is_kept_no_longer_by_another_rotation(tmp_path: Path) -> None:
    now = [1_000.0]
    tokens = Tokens(tmp_path, clock=lambda: now[0])
    first = tokens.add("ci", ("reader",))
    tokens.rotate("ci", keep_s=60)
    newest = tokens.rotate("ci", keep_s=3_600)
    now[0] = 1_060.0
    assert [tokens.is_over(each) for each in map(tokens.known, (first, newest)) if each] == [True, False]


@pytest.mark.parametrize(
    ("name", "roles"),
    [
        ("Big", ("reader",)),
        ("", ("reader",)),
        ("x", ()),
        ("x", ("king",)),
        ("x", ("reader", "king")),
        ("a b", ("reader",)),
    ],
)
def test_odd_names_and_roles_are_refused(tmp_path: Path, name: str, roles: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        Tokens(tmp_path).add(name, roles)


def test_a_name_is_given_once(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    tokens.add("one", ("reader",))
    with pytest.raises(UsageError, match="already"):
        tokens.add("one", ("reader",))
    for change in (tokens.rotate, tokens.revoke):
        with pytest.raises(UsageError, match="there are one"):
            change("other")


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    tokens.ensure()
    (tmp_path / "tokens.json").chmod(0o644)
    with pytest.raises(StoreError, match="chmod 600"):
        Tokens(tmp_path).known("x")


@pytest.mark.parametrize("odd", ["{", "[" * 100_000], ids=["cut", "nested"])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, odd: str) -> None:
    Tokens(tmp_path).ensure()
    (tmp_path / "tokens.json").write_text(odd)
    with pytest.raises(StoreError, match="cannot be read"):
        Tokens(tmp_path).listed()


ROW = {"name": "a", "roles": ["reader"], "digest": "0" * 64, "created_s": 1}


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({}, "is no list of tokens"),
        ([], "must be a table"),
        (None, "must be a table"),
        ({"tokens": {}}, "tokens must be a list of tables"),
        ({"tokens": "x"}, "tokens must be a list of tables"),
        ({"tokens": [7]}, "tokens 1: must be a table"),
        ({"tokens": [ROW, {}]}, "tokens 2: name must be 1 to 40 of a-z"),
        ({"tokens": [ROW | {"name": "a\n"}]}, "tokens 1: name must be 1 to 40 of a-z"),
        ({"tokens": [ROW, {"name": "b"}]}, "tokens 2: roles must be a list of reader, operator, approver"),
        ({"tokens": [ROW | {"roles": []}]}, "tokens 1: roles must be a list of reader"),
        ({"tokens": [ROW | {"roles": "reader"}]}, "tokens 1: roles must be a list of texts"),
        ({"tokens": [ROW | {"roles": ["reader", "root"]}]}, "tokens 1: roles must be a list of reader"),
        ({"tokens": [ROW | {"digest": ["0"]}]}, "tokens 1: digest must be a text"),
        ({"tokens": [ROW | {"digest": "hs_secret"}]}, "tokens 1: digest must be 64 hexadecimal digits; move"),
        ({"tokens": [ROW | {"created_s": "then"}]}, "tokens 1: created_s must be a whole number"),
        ({"tokens": [ROW | {"until_s": "then"}]}, "tokens 1: until_s must be a whole number"),
        ({"tokens": [ROW | {"more": 1}]}, "tokens 1: unknown key more"),
    ],
)
def test_a_file_that_holds_no_tokens_is_told_and_lets_nobody_in(tmp_path: Path, held: object, said: str) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps(held))
    file.chmod(0o600)
    with pytest.raises(StoreError, match=said) as told:
        Tokens(tmp_path).ensure()
    assert str(told.value).startswith(f"{file} cannot be read: what stands in it")
    assert str(told.value).endswith("; move it away, and a new one is made")
    assert json.loads(file.read_text()) == held


def test_a_file_that_the_system_does_not_let_one_read_is_told(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    tokens.ensure()
    (tmp_path / "tokens.json").unlink()
    (tmp_path / "tokens.json").mkdir(mode=0o700)
    with pytest.raises(StoreError, match=r"tokens\.json cannot be read: Is a directory"):
        tokens.known("x")


def test_a_default_token_that_was_revoked_is_announced_no_more(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    file = tokens.ensure()
    assert file is not None
    tokens.add("other", ("reader",))
    tokens.revoke("default")
    assert not file.exists()
    assert Tokens(tmp_path).ensure() is None
    tokens.revoke("other")
    again = Tokens(tmp_path).ensure()
    assert again is not None
    assert Tokens(tmp_path).known(again.read_text().strip()) is not None


def test_the_default_token_is_made_anew_when_no_other_is_good_any_more(tmp_path: Path) -> None:
    now = [1_000.0]
    tokens = Tokens(tmp_path, clock=lambda: now[0])
    tokens.add("brief", ("reader",), seconds=60)
    assert tokens.ensure() is None
    now[0] = 1_060.0
    file = tokens.ensure()
    assert file is not None
    assert tokens.known(file.read_text().strip()) is not None


def test_a_file_with_another_token_is_not_announced(tmp_path: Path) -> None:
    file = Tokens(tmp_path).ensure()
    assert file is not None
    file.write_text("hs_stale\n")
    assert Tokens(tmp_path).ensure() is None
