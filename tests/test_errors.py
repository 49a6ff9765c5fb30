"""Errors as they come out of another process: a pool of them sends each one back as bytes."""

import pickle

import pytest

from hansard import PinningViolation
from hansard.errors import Fenced, HansardError, ProviderError, RunTaken, Uncleaned


@pytest.mark.parametrize(
    "error",
    [
        Fenced("another process drives r1"),
        ProviderError("busy", retryable=True),
        RunTaken("r1"),
        Uncleaned("traces may be left", [("derived", 1)]),
        PinningViolation("model", "another model"),
    ],
)
def test_an_error_is_the_same_behind_a_pipe(error: HansardError) -> None:
    received = pickle.loads(pickle.dumps(error))
    assert type(received) is type(error)
    assert (str(received), vars(received)) == (str(error), vars(error))
