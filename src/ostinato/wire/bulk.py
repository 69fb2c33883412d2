"""One action for many jobs: what comes in, and what came of each."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from ostinato.wire.questions import Chosen
from ostinato.wire.words import Text, Words, WrongField

MOST = 1000

Action = Literal["pause", "resume", "cancel", "delete", "retry", "run", "restart"]


class BulkBody(Words):
    """An action, and the jobs by id (or key) or by a filter; at most 1,000 at once."""

    action: Action
    ids: Annotated[list[Text], Field(max_length=MOST)] | None = None
    filter: Chosen | None = None

    def check(self) -> None:
        if (self.ids is None) == (self.filter is None):
            raise WrongField("ids", "Say which jobs: either ids, or a filter.")
        if self.filter is not None and not self.filter.said():
            raise WrongField("filter", "An empty filter would mean every job: say which ones.")


class BulkResult(BaseModel):
    """What came of one job."""

    id: str
    ok: bool
    status_code: int
    detail: str | None


class BulkAnswer(BaseModel):
    """What came of all. `remaining`: how many the filter found beyond these; ask again for them."""

    action: Action
    succeeded: int
    failed: int
    remaining: int
    results: list[BulkResult]
