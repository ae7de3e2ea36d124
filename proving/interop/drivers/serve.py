"""Answers the test's requests for one lock library: a line in, a line out. What they mean stands in src/answer.rs.

Instants are those of CLOCK_MONOTONIC, which all processes of a machine share.
"""

import logging
import os
import queue
import sys
import threading
import time

URL = sys.argv[1]

now = time.monotonic_ns


class Service:
    """`library` has take(name, ttl, patience), which gives a holding or None; release(holding) and extend(holding, ttl),
    which give False where the lock was not held any more."""

    def __init__(self, library):
        self.library = library
        self.holding = None

    def take(self, name, ttl, patience):
        asked = now()
        self.holding = self.library.take(name, int(ttl), int(patience))
        return "held" if self.holding is None else f"took {asked} {now()}"

    def release(self):
        called = now()
        told = self.library.release(self.holding)
        return f"{'released' if told else 'not-held'} {called}"

    def extend(self, ttl):
        return "extended" if self.library.extend(self.holding, int(ttl)) else "not-held"

    def visit(self, name, ttl, patience, hold, witness):
        """Takes the lock, is alone in the file that whoever holds it makes, and releases."""
        self.holding = self.library.take(name, int(ttl), int(patience))
        if self.holding is None:
            return "held"
        answered = now()
        me = f"{os.getpid()} {answered}"
        try:
            with open(witness, "x") as file:
                file.write(me)
        except FileExistsError:
            return f"met {read(witness)}"
        time.sleep(int(hold) / 1000)
        found = read(witness)
        if found != me:
            return f"met {found}"
        os.unlink(witness)
        called = now()
        told = self.library.release(self.holding)
        return f"visited {answered} {called}" if told else f"not-held {called}"


def read(path):
    with open(path) as file:
        return file.read()


def serve(library):
    # What is worth knowing is in the answers.
    logging.disable()
    service = Service(library)
    requests = queue.SimpleQueue()
    threading.Thread(target=receive, args=[requests], daemon=True).start()
    while True:
        verb, *words = requests.get().split()
        try:
            answer = getattr(service, verb)(*words)
        except Exception as error:
            answer = f"failed {type(error).__name__}: {error}".replace("\n", " ")
        print(answer, flush=True)


def receive(requests):
    for line in sys.stdin:
        requests.put(line)
    # At once, whatever the library waits for; also when the test was killed: its end of the pipe closes with it.
    os._exit(0)
