"""Orders."""

from django.db import models


class Order(models.Model):
    """An order; tasks write about it."""

    number = models.IntegerField(unique=True)
    note = models.CharField(max_length=200, default="")
