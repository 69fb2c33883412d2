"""A shop with tasks."""
