"""The systems that Ostinato was asked to replace, each promise as a test from outside, on both databases."""
