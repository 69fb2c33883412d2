"""Calling others over HTTP, because a user said so: the one safe way, for tasks, webhooks and tests of sources.

A name is looked up once for each connection; every address that it has must be one we may call, and the connection
goes to the addresses that were checked, not to the name (which could mean another by then). TLS still checks the
name. No proxy of the environment is asked, since it would look names up itself. Each request has bounds for its time,
for what is received and for what that unpacks to; each hop of it asks the gate (the budgets of providers) first.

    async with ctx.outgoing.request("GET", url, params=[("page", "1")], credentials=credentials) as reply:
        await reply.require_good()                  # BadAnswer with status, first bytes and headers, unless 2xx
        async for part in reply.parts():            # decompressed, as it comes; or await reply.read(), reply.json()
            ...
        reply.asked                                 # what Retry-After and RateLimit-* ask for, within bounds

Make one `Credentials(auth)` for a run: a token that it asked for is kept in it. Connections are kept and used again.
What goes wrong is an Unreachable (`transient` says whether it may work later), or a BudgetSpent with the time when the
provider's window opens: let that one pass, and the run is deferred until then.
"""

from ostinato.outgoing.calling import Answer, Outgoing
from ostinato.outgoing.credentials import Credentials
from ostinato.outgoing.gate import Gate, OpenGate, RequestPermit
from ostinato.outgoing.reply import Bounds, Reply

__all__ = ["Answer", "Bounds", "Credentials", "Gate", "OpenGate", "Outgoing", "Reply", "RequestPermit"]
