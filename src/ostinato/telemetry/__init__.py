"""Telemetry: log lines, events for hooks, counts and times for `/metrics`."""
