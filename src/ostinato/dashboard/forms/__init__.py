"""Forms: the typed texts, and the request bodies that they mean.

A form does not validate: a text becomes a value if possible, else it stays a text. The same `shapes` and rules as for
REST then find the errors, which the page shows beside their fields. An empty field has no value, so the defaults of
the rules apply.
"""
