"""The loops of a worker process: dispatcher, worker, runner, sweeper. Each loop is a timer around a step.

The only room beside `tasks` that knows asyncio. It decides nothing about jobs: that is `core.lifecycle`.
"""
