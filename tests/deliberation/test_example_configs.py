"""The configurations under examples/ are valid, and the offline ones have a script for each of their calls."""

from pathlib import Path

import pytest

from components import need
from deliberating import Room
from hansard.deliberation.documents import Config, FakeProviderScript
from hansard.deliberation.documents.config_rules import config_breaches, config_warnings
from hansard.deliberation.documents.reading import load
from hansard.deliberation.documents.scripting import neutral_script
from hansard.deliberation.documents.semantics import semantic_breaches
from hansard.deliberation.personas import Personas
from hansard.deliberation.selector import choose, read_selection
from hansard.domain.strict_json import read_json
from hansard.errors import MissingExtra
from hansard.providers.scripted import Scripted

FOLDER = Path(__file__).parents[2] / "examples" / "configs"
OFFLINE = {
    "walking-skeleton": ("logician", "visionary", "researcher", "critic", "engineer"),
    "rules-selector": ("critic", "engineer", "records_officer"),
    "llm-selector": ("logician", "critic"),
}


def read(name: str) -> Config:
    try:
        return Config.parse(load(FOLDER / name))
    except MissingExtra:
        need(False, "PyYAML (pip install 'hansard[yaml]')")
        raise


def script(name: str) -> FakeProviderScript:
    return FakeProviderScript.parse(load(FOLDER / f"{name}.json"))


@pytest.mark.parametrize("name", ["anthropic.yaml", "openai.yaml", *(f"{name}.json" for name in OFFLINE)])
def test_each_configuration_keeps_every_rule(name: str) -> None:
    config = read(name)
    assert config_breaches(config, personas=[persona.id for persona in Personas()]) == []
    assert config_warnings(config) == []


@pytest.mark.parametrize("name", OFFLINE)
def test_each_offline_configuration_chooses_the_panel_that_its_script_answers_for(name: str) -> None:
    config = read(f"{name}.json")
    if config.selector.strategy == "llm":
        reply = neutral_script(script(f"{name}.selector-script"), for_selector=True).entries[0].reply
        output = read_selection(config, read_json(reply.text))
    else:
        output = choose(config, Personas())
    assert output.selected_agents == OFFLINE[name]
    asked = [entry.match["agent_id"] for entry in neutral_script(script(f"{name}.script")).entries]
    first = asked[: asked.index("coordinator")]
    assert tuple(dict.fromkeys(first)) == OFFLINE[name]
    assert asked[-2:] == ["coordinator", "coordinator"]


@pytest.mark.parametrize("name", OFFLINE)
async def test_each_offline_configuration_runs_to_a_synthesis_with_every_answer_used(name: str) -> None:
    fake = Scripted(neutral_script(script(f"{name}.script")), id="fake", one_at_a_time=True)
    setting = {}
    if (FOLDER / f"{name}.selector-script.json").exists():
        chooser = neutral_script(script(f"{name}.selector-script"), for_selector=True)
        setting["selector"] = Scripted(chooser, id="fake")
    sitting = await Room().hold(read(f"{name}.json"), fake, setting=setting)
    assert sitting.reason == "synthesis"
    assert semantic_breaches(sitting.artifact) == []
    assert fake.report().ok, str(fake.report())
