"""The model behind the page of the admin: it has permissions, and no table."""

from typing import Any

from django.db import models


class _NoRows(models.Manager):  # type: ignore[misc]
    """The manager of a model without a table: Django finds no rows, in `dumpdata` for example."""

    def get_queryset(self) -> Any:
        return super().get_queryset().none()


class ScheduledJob(models.Model):  # type: ignore[misc]
    """The jobs of Ostinato, for permissions: `ostinato.view_scheduledjob` and `ostinato.change_scheduledjob`."""

    objects = _NoRows()

    class Meta:
        managed = False
        default_permissions = ("view", "change")
