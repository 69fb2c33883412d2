"""Patterns for URLs, as robots.txt has them: a beginning, with `*` for anything and `$` for the end.

`/blog/` is all that begins so, `/*.pdf$` all that ends so. One that begins with http is compared with the whole URL,
others with path and query. They are no regular expressions: one from a user could run for ever.
"""


def fits(pattern: str, url: str, path: str) -> bool:
    """Return True if a pattern matches a URL (or the part of it after the host)."""
    return _begins(pattern, url if pattern.startswith(("http:", "https:")) else path)


def _begins(pattern: str, text: str) -> bool:
    anchored = pattern.endswith("$")
    first, *others = pattern.removesuffix("$").split("*")
    if not text.startswith(first):
        return False
    if anchored and not others:
        return text == first
    at = len(first)
    for part in others[:-1] if anchored else others:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return not anchored or (text.endswith(others[-1]) and len(text) - len(others[-1]) >= at)
