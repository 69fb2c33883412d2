"""Idempotency-Key: what comes again is done once and answered alike."""

import threading
from datetime import timedelta

import pytest

from ostinato.core.errors import Conflict
from ostinato.core.read_models import Answered, RepeatableRequest
from tests.rest.conftest import Client

KEY = {"Idempotency-Key": "order-1"}
A_JOB = {"task": "fine", "schedule": "1h"}


def test_a_repeat_gets_the_first_answer(api):
    first = api.ask("POST", "/jobs", json=A_JOB, headers=KEY)
    again = api.ask("POST", "/jobs", json=A_JOB, headers=KEY)
    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["etag"] == first.headers["etag"]
    assert again.headers["location"] == first.headers["location"]
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    assert api.get("/jobs")["total"] == 1


def test_it_works_across_processes(app, new_app, api):
    first = api.post("/jobs", A_JOB, 201, headers=KEY)
    other = new_app()
    other.register("fine", lambda: None)
    assert Client(other).post("/jobs", A_JOB, 201, headers=KEY) == first


def test_the_same_key_with_another_request_is_refused(api):
    job = api.post("/jobs", A_JOB, 201, headers=KEY)
    for path, body in [
        ("/jobs", {"task": "other"}),
        (f"/jobs/{job['id']}/run", None),
        ("/jobs?allow_unknown=1", A_JOB),
    ]:
        answer = api.post(path, body, 409, headers=KEY)
        assert "another request" in answer["detail"]


def test_keys_of_different_callers_have_nothing_to_do_with_each_other(app, api, as_role):
    from ostinato.core.access import Role

    job = api.make(**A_JOB)
    api.post(f"/jobs/{job['id']}/pause", headers=KEY)
    other = as_role(Role.ADMIN)
    asked = RepeatableRequest("bob", "order-1", "another")
    assert app.scheduler.repeats.begin(asked) is None
    assert other.post(f"/jobs/{job['id']}/pause", headers=KEY)["status"] == "paused"


def test_a_refusal_leaves_the_key_free(api):
    assert api.post("/jobs", {"task": "nobody-knows-it"}, 422, headers=KEY)
    assert api.post("/jobs", A_JOB, 201, headers=KEY)["task"] == "fine"


def test_a_control_verb_is_repeated_safely(api):
    job = api.make(task="fine", schedule="manual")
    for _ in range(3):
        api.post(f"/jobs/{job['id']}/run", code=202, headers=KEY)
    assert api.get(f"/jobs/{job['id']}/executions")["total"] == 1


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_key_that_cannot_be_is_refused(api, key):
    assert api.post("/jobs", A_JOB, 422, headers={"Idempotency-Key": key})
    assert api.get("/jobs")["total"] == 0


def test_many_at_once_make_one_job(api):
    codes = []

    def post():
        codes.append(api.ask("POST", "/jobs", json=A_JOB, headers=KEY).status_code)

    threads = [threading.Thread(target=post) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(codes) <= {201, 409}
    assert 201 in codes
    assert api.get("/jobs")["total"] == 1


def test_what_a_dead_process_began_is_taken_over_after_a_minute(app):
    answers, now = app.parts.store.answers, app.now()
    asked = RepeatableRequest("ann", "k", "same")
    assert answers.begin(asked, now) is None
    with pytest.raises(Conflict, match="still being answered"):
        answers.begin(asked, now + timedelta(seconds=59))
    assert answers.begin(asked, now + timedelta(seconds=61)) is None


def test_answers_are_forgotten_after_a_day(app):
    answers, now = app.parts.store.answers, app.now()
    asked = RepeatableRequest("ann", "k", "same")
    answers.begin(asked, now)
    answers.finish(asked, Answered(201, "{}", "first"))
    assert answers.begin(asked, now + timedelta(hours=23)) == Answered(201, "{}", "first")
    assert answers.begin(RepeatableRequest("ann", "k", "another"), now + timedelta(hours=25)) is None


def test_an_answer_with_a_secret_is_not_kept(api):
    body = {"name": "ci", "role": "viewer"}
    one, two = (api.post("/keys", body, 201, headers=KEY) for _ in range(2))
    assert one != two
