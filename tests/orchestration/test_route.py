import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansard.domain.roster import Lane, Roster, parse_roster
from hansard.errors import UsageError
from hansard.orchestration.route import Labelled, Route, Router, evaluate, parse_rows
from hansard.orchestration.route.spelling import Spelling

TESTS = Path(__file__).resolve().parents[1]
HELD_OUT = TESTS / "data" / "requests-held-out.jsonl"
DEVELOPMENT = TESTS / "data" / "requests-development.jsonl"
UNSEEN = TESTS / "data" / "requests-unseen.jsonl"
SAMPLE = TESTS.parents[1] / "shared" / "routing" / "sample.jsonl"


@pytest.fixture(scope="module")
def router() -> Router:
    return Router(Roster.default())


CLEAR = {
    "backend": "add a rest endpoint with jwt authentication that stores orders in postgres",
    "frontend": "style the react navbar component with css so it is responsive",
    "sdk-platform": "design a typescript sdk and client library for our public api",
    "compiler-systems": "write a parser and type checker for my language that emits llvm ir",
    "python-apps": "write a python script that renames files in a folder",
    "native-cpp": "my c++ program has a segfault, std::vector and a dangling pointer",
    "data-ml": "train a neural network classifier on this dataset and report accuracy",
    "sre-ops": "production outage, on-call got paged, write the postmortem",
    "cloud-infra": "provision a vpc and an eks cluster on aws with terraform",
    "mobile": "the android app crashes on launch, ios works in swiftui",
    "ci-cd": "github actions pipeline that runs tests and deploys on merge",
    "render-pipeline": "deferred renderer in vulkan with cascaded shadow maps and a gbuffer",
    "shader-effects": "fragment shader for a bloom and dissolve post-processing effect",
    "gpu-compute": "optimize this cuda kernel, shared memory bank conflicts in the reduction",
    "materials-pbr": "pbr material for worn leather, roughness and normal map",
    "scene-environment": "light a foggy forest scene at sunset with an hdri skybox",
    "technical-writing": "write the documentation and a getting started guide for this tool",
    "code-review": "review my pull request and suggest a refactoring",
    "data-pipeline": "airflow etl that loads salesforce into snowflake incrementally",
    "deep-research": "literature review with citations on the evidence for four day weeks",
    "web-intel": "search the web for the latest news about this company and who owns the domain",
    "knowledge-mgmt": "organize my obsidian notes with tags and backlinks",
    "teaching": "explain recursion to me like i'm five, with an analogy",
    "synthesis": "summarize these reports into an executive summary with key takeaways",
}


@pytest.mark.parametrize("lane", CLEAR)
def test_a_clear_request_reaches_its_lane(router: Router, lane: str) -> None:
    route = router.route(CLEAR[lane])
    assert route.lane == lane
    assert route.runner_up != lane
    assert route.evidence
    assert route.scores[0][0] == lane


def test_there_is_a_clear_request_for_every_lane() -> None:
    assert set(CLEAR) == set(Roster.default().names)


@pytest.mark.parametrize(
    "text",
    [
        *("summon a unicorn", "train my dog with a new model collar dataset", "قط"),
        *("", " \n\t", "ok", "😂😂", "...", "42", "\x00\x1b[31m", "a", "\ud800"),
    ],
)
def test_what_fits_no_lane_is_left_undecided(router: Router, text: str) -> None:
    assert router.route(text).lane is None


def test_typing_errors_are_seen_through(router: Router) -> None:
    route = router.route("kuberentes clsuter provisoning with terrafrom")
    assert route.lane == "cloud-infra"
    taken = {each.term: each.known for each in route.evidence}
    assert taken["kuberentes"] == "kubernet"
    assert router.route("kubernetes").evidence[0].term == "kubernetes"


@pytest.mark.parametrize(
    ("text", "lane"),
    [
        ("нужно обучить нейросеть на нашем датасете", "data-ml"),
        ("请帮我做代码审查,这段代码需要重构吗", "code-review"),
        ("この会議の議事録を要約してください", "synthesis"),
        ("안드로이드 앱에 푸시 알림이 안 와요", "mobile"),
        ("اشرح لي الفرق بين التيار والجهد", "teaching"),
        ("मेरे नोट्स को टैग के साथ व्यवस्थित करो", "knowledge-mgmt"),
        ("Fasse die drei Berichte auf einer Seite zusammen", "synthesis"),
        ("explicame que es la recursividad, no entiendo", "teaching"),
    ],
)
def test_requests_in_other_languages_and_scripts_are_routed(router: Router, text: str, lane: str) -> None:
    assert router.route(text).lane == lane


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("pyhton", "python"),
        ("javascrpt", "javascript"),
        ("shadder", "shader"),
        ("notifications", "notification"),
        ("variants", "variant"),
    ],
)
def test_a_slip_of_the_finger_and_another_ending_are_forgiven(typed: str, meant: str) -> None:
    found, worth = Spelling(["python", "javascript", "shader", "notification", "variant", "hello"]).nearest(typed)
    assert (found, 0.5 < worth < 1) == (meant, True)


@settings(max_examples=80)
@given(word=st.text("abcde", min_size=6, max_size=12), data=st.data())
def test_every_single_slip_behind_the_first_letter_is_found(word: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(1, len(word) - 2))
    slips = (
        word[:place] + word[place + 1 :],
        word[:place] + "x" + word[place:],
        word[:place] + "x" + word[place + 1 :],
        word[:place] + word[place + 1] + word[place] + word[place + 2 :],
    )
    for typed in slips:
        assert Spelling([word]).nearest(typed)[0] == word


@pytest.mark.parametrize("word", ["", "tail", "python3", "xylophone", "shards", "javanese"])
def test_a_word_that_is_merely_near_is_not_taken_for_another(word: str) -> None:
    assert Spelling(["python", "javascript", "shader", "tall"]).nearest(word) == ("", 0.0)


def test_case_accents_and_compatibility_forms_do_not_matter(router: Router) -> None:
    plain = router.route("terraform module for a vpc")
    assert router.route("TERRAFORM Module for a VPC").scores == plain.scores
    assert router.route("ｔｅｒｒａｆｏｒｍ módulé for a vpc").lane == plain.lane


@settings(max_examples=60)
@given(text=st.text(max_size=300))
def test_any_text_gets_the_same_route_twice(router: Router, text: str) -> None:
    route = router.route(text)
    assert route == router.route(text)
    assert 0 <= route.confidence_ppm <= 1_000_000
    assert route.lane != route.runner_up or route.lane is None
    assert sum(share for _, share in route.scores) <= 1_000_005
    json.dumps(route.evidence[0].weight_ppm if route.evidence else 0)


def test_two_routers_over_one_roster_agree(router: Router) -> None:
    other = Router(parse_roster(Roster.default().as_data(), "x"))
    for text in CLEAR.values():
        assert other.route(text) == router.route(text)


def test_what_lies_behind_the_cap_is_not_looked_at(router: Router) -> None:
    start = "terraform vpc " + "x " * 3_000
    assert router.route(start + "cuda kernel " * 1_000).scores == router.route(start).scores


CUSTOM = Roster(
    name="hotel",
    lanes=(
        Lane(name="kitchen", category="house", domain="Cooking and recipes", examples=("bake bread for breakfast",)),
        Lane(
            name="front-desk",
            category="house",
            domain="Bookings, guests and arrivals",
            vocabulary=("check in", "reservation", "late arrival"),
        ),
        Lane(name="repairs", category="house", domain="Plumbing, power and doors"),
    ),
)


def test_a_custom_roster_routes_by_its_own_documents() -> None:
    router = Router(CUSTOM)
    assert router.route("guest asks for a late check in, change the reservation").lane == "front-desk"
    assert router.route("recipe for bread, and cooking times").lane == "kitchen"
    assert router.route("refactor this typescript generic").lane is None


def test_an_everyday_topic_does_not_compete_with_a_lane_that_serves_it(router: Router) -> None:
    assert router.route("recipe for bread, and cooking times").lane is None


def test_a_roster_of_one_bare_lane_works() -> None:
    router = Router(Roster(name="one", lanes=(Lane(name="invoices", category="c", domain="Invoices and dunning"),)))
    assert router.route("hello there").lane is None
    assert router.route("").lane is None


@pytest.mark.parametrize("path", [UNSEEN, HELD_OUT, DEVELOPMENT, SAMPLE], ids=lambda path: path.stem)
def test_labelled_requests_are_routed_well_enough(router: Router, path: Path) -> None:
    if not path.exists():
        pytest.skip("the shared folder is not here")
    found = evaluate(router, parse_rows(path.read_text("utf-8").split("\n"), path.name, Roster.default().names))
    assert found.rows >= 100
    assert (found.accuracy_ppm or 0) >= 650_000
    assert (found.precision_ppm or 0) >= 850_000
    assert (found.off_topic_undecided_ppm or 0) >= 800_000


def test_the_labelled_requests_are_not_examples_of_the_lanes() -> None:
    examples = {example for lane in Roster.default().lanes for example in lane.examples}
    rows = [
        json.loads(line) for path in (UNSEEN, HELD_OUT, DEVELOPMENT) for line in path.read_text("utf-8").splitlines()
    ]
    assert len(rows) >= 800
    assert not examples & {row["text"] for row in rows}
    assert {row["lane"] for row in rows} == {"none", *Roster.default().names}


class Fixed:
    """A router that has been told what to say."""

    def __init__(self, said: dict[str, tuple[str | None, int]]) -> None:
        self._said = said

    def route(self, text: str) -> Route:
        lane, confidence = self._said[text]
        return Route(lane=lane, confidence_ppm=confidence, runner_up=None, evidence=(), tier=0, scores=())


def test_an_evaluation_counts_as_promised() -> None:
    said = {
        "right": ("a", 950_000),
        "also": ("b", 900_000),
        "wrong": ("b", 650_000),
        "silent": (None, 100_000),
        "off": ("a", 680_000),
        "off silent": (None, 0),
    }
    rows = [
        Labelled(id="1", text="right", lane="a"),
        Labelled(id="2", text="also", lane="a", also=("b",)),
        Labelled(id="3", text="wrong", lane="a"),
        Labelled(id="4", text="silent", lane="a"),
        Labelled(id="5", text="off", lane=None),
        Labelled(id="6", text="off silent", lane=None),
    ]
    found = evaluate(Fixed(said), rows)
    assert (found.rows, found.lane_rows, found.off_topic_rows, found.decided) == (6, 4, 2, 4)
    assert (found.accuracy_ppm, found.precision_ppm) == (500_000, 500_000)
    assert (found.abstained_ppm, found.off_topic_undecided_ppm) == (333_333, 500_000)
    assert [(each.expected, each.decided, each.ids) for each in found.confusions] == [
        (None, "a", ("5",)),
        ("a", "b", ("3",)),
    ]
    low, high = found.calibration
    assert (low.from_ppm, low.rows, low.confidence_ppm, low.right_ppm) == (600_000, 2, 665_000, 0)
    assert (high.to_ppm, high.rows, high.confidence_ppm, high.right_ppm) == (1_000_000, 2, 925_000, 1_000_000)


def test_shares_of_nothing_are_none() -> None:
    found = evaluate(Fixed({"x": (None, 0)}), [Labelled(id="1", text="x", lane=None)])
    assert (found.accuracy_ppm, found.precision_ppm) == (None, None)
    assert (found.calibration, found.confusions) == ((), ())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "an object"),
        ('{"text": 3, "lane": "a"}', "must be texts"),
        ('{"text": "x"}', '"none"'),
        ('{"text": "x", "lane": "a", "also": "b"}', "also must be a list"),
        ('{"text": "x", "lane": "zz"}', "no lane 'zz'"),
        ('{"text": "x", "lane": "a", "also": ["zz"]}', "no lane 'zz'"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(line: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_rows(['{"text": "x", "lane": "a"}', "", line], "rows.jsonl", ["a"])
    assert words in str(refused.value)
    assert str(refused.value).startswith("rows.jsonl: line 3: ")


def test_a_file_without_rows_is_refused() -> None:
    with pytest.raises(UsageError, match="no rows"):
        parse_rows(["", " "], "rows.jsonl")
