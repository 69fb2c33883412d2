"""Ostinato: a durable scheduler for recurring work."""
