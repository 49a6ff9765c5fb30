"""Options of a verb that stand before it, as in `runs --limit 5`: what to type instead. Imports nothing but argparse.

argparse takes what such an option was given for the verb, and says that there is no verb `5`.
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
