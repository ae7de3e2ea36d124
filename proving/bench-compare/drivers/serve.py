"""Plays one lock library in a comparison: a line of JSON in, a line out, as ../../competitor/src/order.rs has them.

Instants are those of CLOCK_MONOTONIC, which all processes of a machine share. What is a task elsewhere is a thread here: these
libraries block.
"""

import itertools
import json
import logging
import os
import queue
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import redis

TTL = 10

COMPARE_AND_DELETE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"

now = time.monotonic_ns
client = redis.Redis.from_url(sys.argv[1])


def cycles(tasks, millis, cycle):
    begun = now()
    end = begun + millis * 1_000_000

    def task(n):
        key, count = f"own:{os.getpid()}:{n}", 0
        while now() < end:
            cycle(key)
            count += 1
        return count

    with ThreadPoolExecutor(tasks) as pool:
        count = sum(pool.map(task, range(tasks)))
    return {"is": "cycles", "count": count, "nanos": now() - begun}


def bare():
    compare_and_delete = client.register_script(COMPARE_AND_DELETE)
    serials = itertools.count()

    def cycle(key):
        value = f"{next(serials):032x}"
        granted = client.set(key, value, px=TTL * 1000, nx=True)
        released = compare_and_delete([key], [value])
        if not granted or released != 1:
            raise RuntimeError(f"the bare loop was not alone on {key}")

    return cycle


class Service:
    """`library` has take(key), which waits as the library does by itself and gives a holding, or None where the library gave
    up; and release(holding)."""

    def __init__(self, library):
        self.library = library
        self.bare_cycle = bare()

    def alone(self, key):
        holding = self.library.take(key)
        if holding is None:
            raise RuntimeError(f"gave up waiting for {key}, which nobody else has")
        self.library.release(holding)

    def cycle(self, tasks, millis):
        return cycles(tasks, millis, self.alone)

    def bare(self, tasks, millis):
        return cycles(tasks, millis, self.bare_cycle)

    def turns(self, key, hold, think, millis):
        turns = []
        end = now() + millis * 1_000_000
        while now() < end:
            asked = now()
            holding = None
            while holding is None:
                holding = self.library.take(key)
            had = now()
            time.sleep(hold / 1000)
            released = now()
            self.library.release(holding)
            turns.append([asked, had, released])
            time.sleep(think / 1000)
        return {"is": "turns", "turns": turns}


def serve(library):
    # What is worth knowing is in the answers.
    logging.disable()
    service = Service(library)
    orders = queue.SimpleQueue()
    threading.Thread(target=receive, args=[orders], daemon=True).start()
    client.ping()
    say({"is": "ready"})
    while True:
        order = json.loads(orders.get())
        try:
            say(getattr(service, order.pop("do"))(**order))
        except Exception as error:
            say({"is": "failed", "why": f"{type(error).__name__}: {error}"})


def say(report):
    print(json.dumps(report), flush=True)


def receive(orders):
    for line in sys.stdin:
        orders.put(line)
    # At once, whatever the library waits for; also when whoever started this was killed: its end of the pipe closes with it.
    os._exit(0)
