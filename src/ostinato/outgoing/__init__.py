"""HTTP requests to addresses that users name, for tasks, webhooks and tests of sources. All such requests go here.

A host name is resolved once for each connection, and all its addresses must be allowed. The connection goes to the
checked addresses, not to the name, which could resolve to another address by then. TLS still checks the name. A proxy
from the environment is ignored, since it would resolve names itself. Each request has limits for its time and for the
size of the answer, before and after decompression. Each hop first passes the gate, which a feature may bring.

    async with ctx.outgoing.request("GET", url, params=[("page", "1")], credentials=credentials) as reply:
        await reply.require_good()                  # BadAnswer with status, first bytes and headers, unless 2xx
        async for part in reply.parts():            # decompressed, in parts; or await reply.read(), reply.json()
            ...
        reply.asked                                 # the wait from Retry-After and RateLimit-*, within bounds

Make one `Credentials(auth)` for a run: it keeps its OAuth token. Connections are reused. Failures are Unreachable
(`transient` says whether a retry may help), or BudgetSpent with the time when the provider's window opens. A task
should not catch BudgetSpent: it defers the run until then.
"""

from ostinato.outgoing.calling import CallAnswer, Outgoing
from ostinato.outgoing.credentials import Credentials
from ostinato.outgoing.gate import Gate, LateGate, OpenGate, RequestPermit
from ostinato.outgoing.reply import Bounds, Reply

__all__ = ["Bounds", "CallAnswer", "Credentials", "Gate", "LateGate", "OpenGate", "Outgoing", "Reply", "RequestPermit"]
