"""Three example sources, and the API that they fetch (`make demo` runs both)."""
