"""One request and its response against the limits, without a network."""

import asyncio
import threading

import pytest

pytest.importorskip("fastapi", reason="the web extra is not installed")
from starlette.exceptions import HTTPException

from mambamatcher.web.exchange import FREE_BYTES, SLICE_BYTES, Exchange, MemoryBudget
from mambamatcher.web.workers import BusyError, WorkerPool


class Client:
    """Sends given messages, then nothing until it leaves; keeps what it gets."""

    def __init__(self, *bodies, complete=True):
        last = len(bodies) - 1
        self.messages = [
            {"type": "http.request", "body": body, "more_body": not complete or number < last}
            for number, body in enumerate(bodies)
        ]
        self.left = asyncio.Event()
        self.got = []

    async def receive(self):
        if self.messages:
            return self.messages.pop(0)
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        self.got.append(message)

    def exchange(self, memory, workers=None, max_bytes=100, max_seconds=0.2):
        return Exchange(
            self.receive, self.send, max_bytes=max_bytes, max_seconds=max_seconds, memory=memory, workers=workers
        )


async def read_body(_, receive, send):
    while (await receive()).get("more_body"):
        pass
    await answer(_, receive, send)


async def answer(_, __, send, body=b"done"):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


async def status_of(exchange, app=read_body):
    try:
        await exchange.run(app, {}, has_body=True)
    except HTTPException as refusal:
        return refusal.status_code
    return 200


def test_bytes_are_counted_as_they_arrive():
    async def run():
        memory = MemoryBudget(1000)
        assert await status_of(Client(b"x" * 50, b"x" * 50).exchange(memory)) == 200
        assert await status_of(Client(b"x" * 50, b"x" * 51).exchange(memory)) == 413
        assert memory.used == 0

    asyncio.run(run())


def test_a_body_that_stalls_ends_with_408_and_frees_its_memory():
    async def run():
        memory = MemoryBudget(1000)
        assert await status_of(Client(b"x", complete=False).exchange(memory)) == 408
        assert memory.used == 0

    asyncio.run(run())


def test_an_application_may_work_longer_than_the_server_waits_for_a_client():
    async def slow(scope, receive, send):
        await receive()
        await asyncio.sleep(0.5)
        await answer(scope, receive, send)

    async def run():
        assert await status_of(Client(b"x").exchange(MemoryBudget(1000)), slow) == 200

    asyncio.run(run())


def test_requests_are_only_in_progress_from_their_last_byte_to_the_first_of_the_response():
    seen = []

    async def run():
        workers = WorkerPool(1)

        async def app(scope, receive, send):
            seen.append(workers.requests)
            await receive()
            seen.append(workers.requests)
            await receive()
            seen.append(workers.requests)
            await answer(scope, receive, send)
            seen.append(workers.requests)

        await Client(b"x", b"y").exchange(MemoryBudget(1000), workers).run(app, {}, has_body=True)
        seen.append(workers.requests)

    asyncio.run(run())
    assert seen == [0, 0, 1, 0, 0]


LARGE = b"x" * (FREE_BYTES + 80)


def test_a_slow_upload_gives_its_memory_to_a_new_one_and_a_recent_one_does_not():
    async def run():
        memory = MemoryBudget(100)
        client = Client(LARGE, complete=False)
        slow = asyncio.create_task(status_of(client.exchange(memory, max_bytes=10**6, max_seconds=1.0)))
        await asyncio.sleep(0.05)
        assert await status_of(Client(LARGE).exchange(memory, max_bytes=10**6)) == 503
        await asyncio.sleep(0.25)  # more than a fifth of its time without a byte
        assert await status_of(Client(LARGE).exchange(memory, max_bytes=10**6)) == 200
        assert await slow == 503

    asyncio.run(run())


def test_small_requests_are_answered_while_the_memory_is_exhausted():
    async def run():
        memory = MemoryBudget(100)
        client = Client(LARGE + b"x" * 20, complete=False)
        holding = asyncio.create_task(status_of(client.exchange(memory, max_bytes=10**6, max_seconds=1.0)))
        await asyncio.sleep(0.05)
        assert memory.used == 100
        assert await status_of(Client(b"x" * 50, b"x" * 50).exchange(memory)) == 200
        client.left.set()
        await holding

    asyncio.run(run())


def test_a_response_that_exceeds_the_memory_becomes_503():
    async def large(scope, receive, send):
        await answer(scope, receive, send, LARGE + b"x" * 21)

    async def run():
        client = Client(b"x")
        assert await status_of(client.exchange(MemoryBudget(100)), large) == 503
        assert client.got == []

    asyncio.run(run())


def test_a_large_response_is_sent_in_slices():
    sent = bytes(range(256)) * 1000

    async def large(scope, receive, send):
        await answer(scope, receive, send, sent)

    async def run():
        client = Client(b"x")
        await client.exchange(MemoryBudget(10**6)).run(large, {}, has_body=True)
        bodies = client.got[1:]
        assert b"".join(message["body"] for message in bodies) == sent
        assert [message["more_body"] for message in bodies] == [True] * (len(bodies) - 1) + [False]
        assert max(len(message["body"]) for message in bodies) == SLICE_BYTES

    asyncio.run(run())


def test_work_that_has_not_begun_is_dropped_when_its_client_leaves():
    done, gate = [], threading.Event()

    async def run():
        workers = WorkerPool(10)

        async def app(scope, receive, send):
            await receive()
            await workers.run(done.append, "the work")
            await answer(scope, receive, send)

        blocking = [asyncio.create_task(workers.run(gate.wait, 30)) for _ in range(2)]  # both threads
        client = Client(b"x")
        asked = asyncio.create_task(client.exchange(MemoryBudget(100), workers).run(app, {}, has_body=True))
        await asyncio.sleep(0.1)
        assert workers.requests == 1
        client.left.set()
        await asked
        assert workers.requests == 0
        gate.set()
        await asyncio.gather(*blocking)
        await workers.run(lambda: None)  # runs after whatever was queued
        assert client.got == done == []

    asyncio.run(run())


def test_a_full_worker_pool_refuses_another_request():
    workers = WorkerPool(1)
    workers.enter()
    with pytest.raises(BusyError):
        workers.enter()
    workers.leave()
    workers.enter()
