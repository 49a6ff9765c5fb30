"""Words that argparse would misread: options of a command or verb that stand before it, and names that nothing has.

Of `runs --limit 5` argparse says that there is no verb `5`, and of a misspelt command which two dozen there are.
"""

import argparse
from collections.abc import Sequence

Verbs = dict[str, argparse.ArgumentParser]


def misplaced(top: argparse.ArgumentParser, words: Sequence[str]) -> str | None:
    """What is wrong with these words, where an option of a verb stands before it; None where nothing is, or something else."""
    command, said, rest = top, "hansard", list(words)
    while rest and (verb := _verbs(command).get(rest[0])):
        command, said, verbs = verb, f"{said} {rest[0]}", _verbs(verb)
        flag, rest = _before_verb(command, rest[1:])
        takers = {name: meant for name, each in verbs.items() if flag and (meant := _meant(each, flag))}
        if takers:
            # A word that is called like a verb may be the value of an option: then it is no worse an example than another one.
            named = next((word for word in rest if word in takers), None)
            shown = named or ("list" if "list" in takers else next(iter(takers)) if len(takers) == 1 else "VERB")
            # Shortened, and so perhaps another one behind another verb.
            full = takers.get(shown, [flag or ""])
            option = full[0] if len(full) == 1 else flag
            return f"{option} stands behind the verb that it is for; write: {said} {shown} … {option}"
    return None


def before_all(top: argparse.ArgumentParser, words: Sequence[str]) -> str | None:
    """The same of an option that stands before the command; None where none does that the program has not itself."""
    flag, rest = _before_verb(top, words)
    if flag is None:
        return None
    named = next((word for word in rest if word in _verbs(top)), "COMMAND")
    return f"{flag} stands behind the command that it is for; write: hansard {named} … {flag}"


def misspelt(top: argparse.ArgumentParser, words: Sequence[str]) -> str | None:
    """What is wrong with a command, or a verb behind it, that is not there; None where nothing is."""
    said, names = "hansard", _verbs(top)
    for word in words:
        if not names or word.startswith("-"):
            return None
        if word not in names:
            return f"there is no `{said} {word:.60}`; {_near(word, names)}`{said} --help` tells what there is"
        said, names = f"{said} {word}", _verbs(names[word])
    return None


def _near(word: str, names: Verbs) -> str:
    from difflib import get_close_matches

    if near := get_close_matches(word.lower(), names, 1):
        return f"did you mean {near[0]}? "
    return "a request is handed in with `hansard submit`, and " if " " in word and "submit" in names else ""


def _verbs(command: argparse.ArgumentParser) -> Verbs:
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _before_verb(command: argparse.ArgumentParser, words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The first option before the verb that the command itself does not have, and the words behind those that it has."""
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "--":
        flag, given, _ = rest.pop(0).partition("=")
        meant = _meant(command, flag)
        if not meant:
            return flag, rest
        if command._option_string_actions[meant[0]].nargs != 0 and not given:
            del rest[:1]
    return None, rest


def _meant(command: argparse.ArgumentParser, flag: str) -> list[str]:
    """The options of a command that this may be: options may be shortened."""
    known = command._option_string_actions
    return [flag] if flag in known else [name for name in known if flag.startswith("--") and name.startswith(flag)]
