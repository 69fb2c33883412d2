"""The dashboard: a page is one question to the front desk and one template. No rule, no SQL.

A module of this room has functions `(visit: Visit) -> Response` and a table `ROUTES` of where they stand, which
`app.py` puts together: `get("/jobs", jobs)`, `post("/jobs/{id}/pause", pause, Role.OPERATOR)`. A page shows
(`visit.page`), an action does something and leads on (`visit.see`); one that fails shows its page again, with the error
beside what caused it (`visit.troubled`). Templates get no markup from us but by words.py and charts.py, and nothing
inline: the policy of the site (headers.py) lets the browser run and apply what /static has, and nothing else.
"""
