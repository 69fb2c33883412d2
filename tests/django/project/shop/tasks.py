"""Tasks of every kind."""

import os
import threading

from django.db import connection

from ostinato import Context, GiveUp
from ostinato.django import job
from shop.framework import TaskContext, task
from shop.models import Order


class OutOfStock(Exception):
    """An exception of the shop."""


@task
def add(first, second=0, /, *more, times=1, **others):
    return (first + second + sum(more)) * times + sum(others.values())


@task()
async def add_async(first, second):
    order = await Order.objects.acreate(number=first * 1000 + second)
    return order.number


@task(takes_context=True)
def who(context, name):
    assert isinstance(context, TaskContext)
    return {"id": context.task_result.id, "attempt": context.attempt, "args": context.task_result.args, "name": name}


@task
def value_error():
    raise ValueError(ValueError("no such thing"))


@task
def out_of_stock():
    raise OutOfStock("no apples")


@task
def leaves():
    raise SystemExit("it leaves")


@task
def returns_a_function():
    return lambda: True


@job(retries=1, backoff="0s")
@task(takes_context=True)
def second_time(context):
    if context.attempt == 1:
        raise GiveUp("now") if context.task_result.args else OutOfStock("the first time")
    return context.attempt


@task
def note(number, text):
    Order.objects.filter(number=number).update(note=text)


@job(isolation="process")
@task(takes_context=True)
def elsewhere(context, number):
    Order.objects.filter(number=number).update(note=f"pid {os.getpid()}")
    return [os.getpid(), context.attempt]


@job(isolation="process")
@task
def fails_elsewhere():
    raise OutOfStock("in another process")


@task
def connection_of_the_thread():
    connection.ensure_connection()
    return [threading.get_ident(), id(connection.connection)]


@task(priority=100)
def first_of_all(number):
    return Context.current().live.priority


@job(every="1h", first_run="now", key="hourly")
@task(queue_name="queue_1", priority=-100)
def hourly():
    return "on time"


@job(cron="0 9 * * mon-fri")
@task
async def daily():
    return "good morning"
