import pytest

from hansard.deliberation.afterwards.conformance import positive_cases
from hansard.deliberation.documents import AgentConfig, Config, Persona, content_hash
from hansard.deliberation.personas import COORDINATOR, DEFAULT_PANEL, DEFAULTS, LOGICIAN, Personas
from hansard.errors import UsageError

GOOD = {case.name: case.data for case in positive_cases()}


def test_the_six_defaults_sit_in_the_order_of_the_protocol() -> None:
    scopes = {persona.id: persona.reasoning_scope for persona in DEFAULT_PANEL}
    assert list(scopes.items()) == [
        ("logician", "formal-structural"),
        ("visionary", "lateral-creative"),
        ("researcher", "evidence-based"),
        ("critic", "adversarial-scrutiny"),
        ("engineer", "implementation-feasibility"),
    ]
    assert (COORDINATOR.id, COORDINATOR.reasoning_scope) == ("coordinator", "meta-deliberation")


@pytest.mark.parametrize("persona", DEFAULTS, ids=lambda persona: persona.id)
def test_each_default_is_a_valid_persona_with_constraints_and_failure_modes(persona: Persona) -> None:
    assert Persona.parse(persona.as_data()) == persona
    assert persona.persona_class == "horizontal"
    assert len(persona.behavioral_constraints) >= 3
    assert len(persona.failure_modes) >= 2
    assert persona.output_requirements


@pytest.mark.requirement("R-7.6-1")
def test_a_persona_is_known_by_the_hash_of_its_content() -> None:
    personas = Personas()
    assert personas.hashes["logician"] == content_hash(LOGICIAN.as_data())
    changed = Persona.parse({**LOGICIAN.as_data(), "reasoning_style": "another"})
    assert Personas((changed,)).hashes["logician"] != personas.hashes["logician"]


def test_two_personas_under_one_id_are_refused_and_the_same_one_twice_is_not() -> None:
    other = Persona.parse({**LOGICIAN.as_data(), "reasoning_style": "another"})
    assert len(Personas().with_((LOGICIAN,))) == 6
    with pytest.raises(UsageError, match="two different personas named 'logician'"):
        Personas().with_((other,))


def test_a_persona_that_delegates_to_nobody_is_refused() -> None:
    broken = Persona.parse({**GOOD["a domain persona"], "must_delegate": {}})
    with pytest.raises(UsageError, match="only one of them names tax"):
        Personas((broken,))


@pytest.mark.requirement("R-9.4.1-2")
def test_a_reference_is_resolved_and_an_inline_persona_stays_as_it_is() -> None:
    config = Config.parse(GOOD["a configuration"])
    personas = Personas().with_((Persona.parse(GOOD["a horizontal persona with everything that it may have"]),))
    inline, named = config.agents
    assert personas.resolve(inline) == Persona.parse(GOOD["a horizontal persona"])
    assert personas.resolve(named) == personas.get("baker")
    assert personas.resolve(config.coordinator) is None


def test_an_agents_own_output_requirements_take_the_place_of_its_personas() -> None:
    agent = AgentConfig(id="a", persona_ref="critic", provider="p", model="m", output_requirements=("Be brief.",))
    resolved = Personas().resolve(agent)
    assert resolved is not None
    assert resolved.output_requirements == ("Be brief.",)


@pytest.mark.requirement("R-7.6-1")
def test_pins_are_the_hashes_of_what_each_agent_was_told() -> None:
    config = Config.parse(GOOD["a configuration"])
    assert Personas().pins(config) == {"gardener": content_hash(GOOD["a horizontal persona"])}
