from copy import deepcopy
from typing import Any

import pytest

from hansard.deliberation.afterwards.conformance import positive_cases
from hansard.deliberation.documents import Config, Persona
from hansard.deliberation.documents.config_rules import config_breaches, config_warnings, persona_breaches

GOOD = {case.name: case.data for case in positive_cases()}
TOOL = {"name": "almanac", "description": "Looks up frost.", "input_schema": {"type": "object"}}


def changed(**members: Any) -> Config:
    return Config.parse({**deepcopy(GOOD["a configuration"]), **members})


def rules(config: Config, **known: Any) -> list[str]:
    return [breach.rule for breach in config_breaches(config, **known)]


def with_tools(*tools: dict[str, Any]) -> Config:
    agents = deepcopy(GOOD["a configuration"]["agents"])
    agents[0]["tools"] = list(tools)
    return changed(agents=agents)


def test_a_good_configuration_breaks_no_rule() -> None:
    assert rules(changed(), providers={"scripted"}, personas={"baker", "chair"}) == []
    assert config_warnings(changed()) == []


@pytest.mark.requirement("R-4.1-4")
@pytest.mark.parametrize(
    "selector",
    [
        {"default_deliberation_panel": ["gardener", "gardener"]},
        {"default_deliberation_panel": ["nobody"]},
        {"default_deliberation_panel": ["gardener", "chair"]},
        {"coordinator_agent": "baker"},
    ],
    ids=repr,
)
def test_a_panel_that_cannot_sit_is_told(selector: dict[str, Any]) -> None:
    assert "R-4.1-4" in rules(changed(selector={**GOOD["a configuration"]["selector"], **selector}))


@pytest.mark.requirement("R-4.1-4")
def test_an_agent_that_stands_twice_is_told() -> None:
    agents = GOOD["a configuration"]["agents"]
    assert rules(changed(agents=[*agents, agents[0]])) == ["R-4.1-4"]


@pytest.mark.requirement("R-4.1-4")
def test_a_coordinator_that_is_an_agent_or_sits_on_the_panel_is_told() -> None:
    config = GOOD["a configuration"]
    assert rules(changed(agents=[*config["agents"], {**config["agents"][0], "id": "chair"}])) == ["R-4.1-4"]
    seated = {**config["selector"], "default_deliberation_panel": ["gardener", "chair"]}
    found = [str(breach) for breach in config_breaches(changed(selector=seated))]
    assert any("must not sit on the panel" in each for each in found)


@pytest.mark.requirement("R-6.11-1")
def test_a_provider_that_is_not_configured_is_told_for_each_agent() -> None:
    assert rules(changed(), providers={"openai"}) == ["R-6.11-1"] * 3


@pytest.mark.requirement("R-9.4.1-2")
def test_a_persona_that_nobody_knows_is_told() -> None:
    assert rules(changed(), personas={"chair"}) == ["R-9.4.1-2"]


@pytest.mark.requirement("R-8.1-2")
def test_two_selector_budgets_must_agree() -> None:
    both = deepcopy(GOOD["a configuration with everything that it may have"])
    assert "R-8.1-2" not in rules(Config.parse(both))
    both["budget"]["selector_budget"]["max_tokens"] = 7
    assert "R-8.1-2" in rules(Config.parse(both))


def test_one_selector_budget_is_enough_wherever_it_stands() -> None:
    config = GOOD["a configuration"]
    for where in ("budget", "selector"):
        assert rules(changed(**{where: {**config[where], "selector_budget": {"max_tokens": 7}}})) == []


def test_a_persona_of_the_configuration_itself_is_held_to_its_rule() -> None:
    agents = deepcopy(GOOD["a configuration"]["agents"])
    agents[0]["persona_ref"] = {**GOOD["a domain persona"], "forbidden_domains": []}
    assert rules(changed(agents=agents)) == ["§5.3"]


def test_tools_are_whole_and_named_once() -> None:
    assert rules(with_tools(TOOL)) == []
    assert rules(with_tools(TOOL, TOOL)) == ["§6.4"]
    assert rules(with_tools({"name": "almanac"})) == ["§6.4"]


def test_a_budget_for_nobody_is_warned_about_and_not_refused() -> None:
    config = changed(budget={**GOOD["a configuration"]["budget"], "per_agent_token_budget": {"ghost": 1, "chair": 2}})
    assert rules(config) == []
    assert config_warnings(config) == ["per_agent_token_budget names 'ghost', which is no agent"]


def test_every_forbidden_domain_is_delegated_and_nothing_else() -> None:
    domain = GOOD["a domain persona"]
    assert list(persona_breaches(Persona.parse(domain))) == []
    assert len(list(persona_breaches(Persona.parse({**domain, "forbidden_domains": ["tax", "law"]})))) == 1
    assert len(list(persona_breaches(Persona.parse({**domain, "forbidden_domains": []})))) == 1
