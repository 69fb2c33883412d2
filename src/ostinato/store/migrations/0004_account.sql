-- What a run cost and how it stopped: {"cpu_ms", "memory_mb", "stopped", "exit_code"}; null when nothing is known.
ALTER TABLE {executions} ADD COLUMN account {json};
