"""The engine of the client: NATS on a bare asyncio.Protocol. Only `headrace.io.nats.client` uses it.

    upkeep.py    keeps one link alive for ever
    answers.py   requests that wait for their answer, on one inbox
    link.py      one connection: reads frames, writes in bursts, pings
    routes.py    from a frame to its subscriber
    dial.py      from an address to a link that the server has accepted

A message costs no task, no queue and no lock. `headrace.core.nats.nats_wire` knows the bytes.
"""
