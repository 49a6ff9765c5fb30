from daemons import Served, events


def test_a_deliberation_is_held_and_read(daemon: Served) -> None:
    said = daemon.post("/v1/deliberations?wait=120", {"problem": "keep our own mail server?", "provider": "rehearsal"})
    assert said.status_code == 200, said.text
    view = said.json()
    assert view["outcome"] == "synthesis"
    run = view["run"]
    assert daemon.get(f"/v1/deliberations/{run}").json() == view
    assert len(daemon.get(f"/v1/deliberations/{run}/transcript").json()) == view["messages"]
    assert daemon.get(f"/v1/deliberations/{run}/metrics").status_code == 200
    assert events(daemon.get(f"/v1/deliberations/{run}/events").text)[-1]["run"] == run
    assert [each["run"] for each in daemon.get("/v1/deliberations").json()] == [run]


def test_what_is_no_deliberation_is_not_found(daemon: Served) -> None:
    run = daemon.submit(wait=60)["run"]
    assert daemon.get(f"/v1/deliberations/{run}").status_code == 404
    assert daemon.get(f"/v1/deliberations/{run}/transcript").status_code == 404
    assert daemon.get(f"/v1/deliberations/{run}/metrics").status_code == 404


def test_what_a_deliberation_leaves_is_a_conflict_before_it_is_over(daemon: Served) -> None:
    run = daemon.post("/v1/deliberations", {"problem": "keep it?", "provider": "silent"}).json()["run"]
    for name in ("transcript", "metrics"):
        said = daemon.get(f"/v1/deliberations/{run}/{name}")
        assert (said.status_code, "not over" in said.json()["detail"]) == (409, True)
    daemon.post(f"/v1/runs/{run}/cancel", {})


def test_a_problem_is_needed(daemon: Served) -> None:
    assert daemon.post("/v1/deliberations", {}).status_code == 409
    assert daemon.post("/v1/deliberations", {"problem": "x", "panel": ["nobody"]}).status_code == 409
    assert daemon.post("/v1/deliberations", {"problem": 1}).status_code == 422
