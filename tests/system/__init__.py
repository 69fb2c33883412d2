"""Tests with real processes and servers. Only here may a test sleep, while it waits for another process."""
