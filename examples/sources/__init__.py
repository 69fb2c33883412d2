"""Three example sources and their API (`make demo` runs both)."""
