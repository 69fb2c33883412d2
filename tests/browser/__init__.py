"""The dashboard in a real Chromium. One browser for all of it, one server for each module."""
