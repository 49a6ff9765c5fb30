"""Options of a verb that stand before it, as in `runs --limit 5`: what to type instead. Imports nothing but argparse.

argparse takes what such an option was given for the verb, and says that there is no verb `5`.
"""

import argparse
from collections.abc import Sequence

Verbs = dict[str, argparse.ArgumentParser]


def misplaced(top: argparse.ArgumentParser, words: Sequence[str]) -> str | None:
    """What is wrong with these words, where an option of a verb stands before it; None where nothing is, or something else."""
    command = _verbs(top).get(words[0])
    verbs = _verbs(command) if command else {}
    if command is None or not verbs:
        return None
    flag = _first_unknown(command, words[1:])
    takers = [name for name, verb in verbs.items() if flag in verb._option_string_actions]
    if flag is None or not takers:
        return None
    # A word that is called like a verb may be the value of an option: then it is no worse an example than another one.
    named = next((word for word in words[1:] if word in takers), None)
    meant = named or ("list" if "list" in takers else takers[0] if len(takers) == 1 else "VERB")
    return f"{flag} stands behind the verb that it is for; write: hansard {words[0]} {meant} … {flag}"


def _verbs(command: argparse.ArgumentParser) -> Verbs:
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _first_unknown(command: argparse.ArgumentParser, words: Sequence[str]) -> str | None:
    """The first option before the verb that the command itself does not have."""
    rest = iter(words)
    for word in rest:
        flag, given, _ = word.partition("=")
        if not flag.startswith("-"):
            return None
        action = command._option_string_actions.get(flag)
        if action is None:
            # Options may be shortened.
            shortened = any(name.startswith(flag) for name in command._option_string_actions)
            return None if shortened else flag
        if action.nargs != 0 and not given:
            next(rest, None)
    return None
