"""Shapes of the explanation why a job ran, ran late or did not run."""

from datetime import datetime
from uuid import UUID

from ostinato.core.why import Because, Verdict, Why
from ostinato.service.views import ExecutionView
from ostinato.shapes.answers import Answer, JsonObject
from ostinato.shapes.executions import ExecutionAnswer, SkipAnswer


class CauseAnswer(Answer):
    """A reason, with its times and its caller."""

    because: Because
    since: datetime | None
    until: datetime | None
    by: str
    execution_id: UUID | None


class WhyAnswer(JsonObject):
    """Explanation of the occurrence at or before an instant, as data and as sentences."""

    at: datetime
    verdict: Verdict
    due_at: datetime | None
    number: int | None
    causes: list[CauseAnswer]
    sentences: list[str]
    next_run_at: datetime | None
    executions: list[ExecutionAnswer]
    skip: SkipAnswer | None

    @classmethod
    def of(cls, why: Why) -> "WhyAnswer":
        return cls(
            at=why.at, verdict=why.verdict, due_at=why.due_at, number=why.number,
            causes=[CauseAnswer.of(cause) for cause in why.causes], sentences=list(why.sentences),
            next_run_at=why.next_run_at,
            executions=[ExecutionAnswer.of(ExecutionView.of(row)) for row in why.attempts],
            skip=None if why.skip is None else SkipAnswer.of(why.skip),
        )  # fmt: skip
