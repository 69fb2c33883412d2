"""Keys belong to their app; the service of an operator, without an app, finds the keys of all apps."""

import pytest

from ostinato.core.errors import Conflict, NotFound


def make(app, key):
    if "work" not in app.registry.names():
        app.register("work", lambda: None)
    return app.registry.get("work").using(key=key).enqueue().id


def test_a_key_that_one_app_alone_has_is_found_at_the_desk_of_no_app(new_app):
    job_id = make(new_app("shop"), "nightly")
    assert new_app("").jobs.get("nightly").id == job_id
    assert new_app("").jobs.pause("nightly").id == job_id


def test_an_app_does_not_reach_into_another(new_app):
    make(new_app("shop"), "nightly")
    with pytest.raises(NotFound, match=r"There is no job with the key 'nightly' in the app 'bank'\."):
        new_app("bank").jobs.get("nightly")


def test_a_key_of_no_app_comes_before_those_of_others(new_app):
    make(new_app("shop"), "nightly")
    own = make(new_app(""), "nightly")
    assert new_app("").jobs.get("nightly").id == own


def test_a_key_that_two_apps_have_names_them(new_app):
    make(new_app("shop"), "nightly")
    make(new_app("bank"), "nightly")
    with pytest.raises(Conflict, match=r"The apps bank, shop each have a job 'nightly': use its id\."):
        new_app("").jobs.get("nightly")


def test_the_job_that_holds_a_key_comes_before_those_that_had_it(new_app):
    shop = new_app("shop")
    ended = make(shop, "nightly")
    shop.jobs.cancel(ended)
    assert new_app("").jobs.get("nightly").id == ended
    holder = make(shop, "nightly")
    assert new_app("").jobs.get("nightly").id == holder


def test_a_key_that_nobody_has(new_app):
    with pytest.raises(NotFound, match=r"There is no job with the key 'nightly'\.$"):
        new_app("").jobs.get("nightly")
