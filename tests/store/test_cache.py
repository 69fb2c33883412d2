"""Answers about very many jobs are cached for ten times as long as they took; others never."""

import pytest

from ostinato.store.statistics import MANY, AnswerCache


class Asked:
    """A slow question that counts its calls."""

    def __init__(self, jobs, seconds=2.0):
        self.jobs, self.seconds, self.times, self.now = jobs, seconds, 0, 100.0

    def __call__(self):
        self.times += 1
        self.now += self.seconds
        return self.times, self.jobs


@pytest.mark.parametrize(("jobs", "kept"), [(MANY, False), (MANY + 1, True)])
def test_only_answers_about_very_many_are_kept(jobs, kept):
    asked = Asked(jobs)
    answers = AnswerCache(lambda: asked.now)
    assert [answers.get("how many", asked) for _ in range(3)] == ([1, 1, 1] if kept else [1, 2, 3])
    assert answers.holds("how many") is kept


def test_they_are_kept_for_ten_times_as_long_as_they_took():
    asked = Asked(MANY + 1)
    answers = AnswerCache(lambda: asked.now)
    answers.get("how many", asked)
    asked.now += 19.9
    assert answers.get("how many", asked) == 1
    asked.now += 0.2
    assert answers.get("how many", asked) == 2


def test_each_question_has_its_own_answer():
    asked = Asked(MANY + 1)
    answers = AnswerCache(lambda: asked.now)
    assert [answers.get(question, asked) for question in ("a", "b", "a")] == [1, 2, 1]
