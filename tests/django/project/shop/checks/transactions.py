"""A job is part of the caller's transaction."""

from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase

from shop.framework import TaskResultDoesNotExist, TaskResultStatus
from shop.models import Order
from shop.tasks import note
from shop.worker import work


class Transactions(TransactionTestCase):
    """With real commits and a real worker."""

    def test_a_rollback_takes_the_job_along(self):
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            Order.objects.create(number=1)
            gone = note.enqueue(1, "gone")
            self.assertEqual(gone.status, TaskResultStatus.READY)
            self.assertEqual(note.get_result(gone.id), gone)
            raise ZeroDivisionError
        with self.assertRaises(TaskResultDoesNotExist):
            note.get_result(gone.id)
        with transaction.atomic():
            Order.objects.create(number=1)
            kept = note.enqueue(1, text="kept")
        work()
        kept.refresh()
        self.assertEqual(kept.status, TaskResultStatus.SUCCESSFUL)
        self.assertEqual(Order.objects.get().note, "kept")

    def test_a_savepoint_takes_it_along_too(self):
        with transaction.atomic():
            kept = note.enqueue(2, "kept")
            with self.assertRaises(ZeroDivisionError), transaction.atomic():
                gone = note.enqueue(2, "gone")
                raise ZeroDivisionError
        self.assertEqual(note.get_result(kept.id).args, [2, "kept"])
        with self.assertRaises(TaskResultDoesNotExist):
            note.get_result(gone.id)

    def test_aenqueue_is_part_of_it_as_well(self):
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            gone = async_to_sync(note.aenqueue)(3, "gone")
            raise ZeroDivisionError
        with self.assertRaises(TaskResultDoesNotExist):
            note.get_result(gone.id)

    def test_without_a_transaction_it_is_there_at_once(self):
        result = note.enqueue(4, "at once")
        self.assertFalse(connection.in_atomic_block)
        self.assertEqual(note.get_result(result.id), result)
        self.assertEqual(async_to_sync(note.aget_result)(result.id), result)


class InsideTestCase(TestCase):
    """Django's usual test is one transaction: a job in it can be read in it, and goes with it."""

    def test_it_can_be_read(self):
        result = note.enqueue(5, text="in a test")
        self.assertEqual(note.get_result(result.id), result)
        result.refresh()
        self.assertEqual((result.args, result.kwargs), ([5], {"text": "in a test"}))
