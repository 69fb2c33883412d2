"""The dashboard: a page is one query of the service and one template. No rule, no SQL.

A module of this room has functions `(visit: PageRequest) -> Response` and a table `ROUTES` with their paths, which
`app.py` collects: `get("/jobs", show)`, `post("/jobs/{id}/pause", pause, Role.OPERATOR)`. A page renders a template
(`visit.page`). An action changes something and redirects (`visit.redirect`); after an error it shows its page again,
with the error beside its cause (`visit.with_error`). Only formatting.py, charts.py and
features/workflows/pages.py make markup for templates. Nothing is inline: the policy (app.py) lets the browser use
only scripts and styles from /static.
"""
