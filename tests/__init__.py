"""The tests: they mirror src, use real databases, and crank the clock instead of sleeping."""
