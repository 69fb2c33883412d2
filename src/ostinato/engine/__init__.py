"""The loops of a worker process: dispatcher, worker, runner, sweeper. Each loop is a timer around a step.

The loops and the runs of tasks are asyncio; each call into the store is made on a thread (`Worker.in_store`). This room
decides nothing about jobs: `core.lifecycle` does.
"""
