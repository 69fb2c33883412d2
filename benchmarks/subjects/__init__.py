"""One script for each subject, run by its own Python."""
