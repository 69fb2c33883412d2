"""What moves by itself: dispatcher, worker, runner, sweeper. Each duty is a step; a loop is a timer around it.

The only room beside `tasks` that knows asyncio. It decides nothing about jobs: that is `core.lifecycle`.
"""
