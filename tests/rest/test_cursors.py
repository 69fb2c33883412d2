"""Cursors of lists that come back wrong, over HTTP."""

import pytest


@pytest.mark.parametrize("question", ["cursor=%21", "cursor=abc&offset=3"])
def test_a_cursor_of_no_page_is_not_found(api, question):
    assert api.refused("GET", f"/jobs?{question}", code=404)


def test_a_cursor_and_an_offset_are_refused_together(api):
    for _ in range(2):
        api.make(task="fine", schedule="manual")
    cursor = api.get("/jobs?limit=1")["cursor"]
    assert "use one of them" in api.refused("GET", f"/jobs?cursor={cursor}&offset=1")
