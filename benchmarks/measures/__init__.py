"""What is measured, each in a module of its own, and how a subject is run for it."""
