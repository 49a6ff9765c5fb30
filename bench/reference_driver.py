"""The reference runtime's side of deliberations, in its own environment. Knows its public names and nothing else of it."""

from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.council import configuration, messages, script
from bench.measure import Answer, Asked, serve, timed


def session(asked: Asked) -> Answer:
    """One session of so many rounds with its directory written; what it needs is loaded before."""
    models = import_module("symposium.models")
    provider_of = import_module("symposium.providers.fake").FakeProvider
    run_session = import_module("symposium.scheduler.loop").run_session

    def seated(rounds: int) -> Any:
        """A provider that has its answers ready."""
        return provider_of(models.FakeProviderScript.model_validate(script(rounds)))

    def held(runs: Path, rounds: int, provider: Any) -> int:
        config = models.Config.model_validate(configuration(rounds))
        return len(run_session(config, {"default": provider}, runs_root=runs).canonical_transcript)

    folder, rounds = Path(asked["folder"]), asked["rounds"]
    held(folder / "warm", 1, seated(1))
    provider = seated(rounds)
    answer: Answer = {"count": messages(rounds)}
    with timed(answer):
        said = held(folder / "runs", rounds, provider)
    if said != messages(rounds):
        raise SystemExit(f"a session of {rounds} rounds has {said} messages")
    return answer


def versions(_: Asked) -> Answer:
    return {"symposium-protocol": version("symposium-protocol")}


if __name__ == "__main__":
    serve({"session": session, "versions": versions})
