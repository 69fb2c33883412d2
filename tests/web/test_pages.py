"""Every page renders, whatever is in it, and offers what may be done to those who may."""

PAGES = [
    "/", "/?span=7d", "/jobs", "/jobs?status=paused&text=x&task=y&queue=z&tag=t&sort=name", "/executions",
    "/executions?state=failed", "/calendar", "/calendar?show=past", "/workers", "/events", "/events?kind=job.*&by=a",
]  # fmt: skip


def test_every_page_renders_where_nothing_has_happened_yet(visitor):
    for path in PAGES:
        page = visitor.see(path)
        assert "<h1" in page
        assert "Something went wrong" not in page
