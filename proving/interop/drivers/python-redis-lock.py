"""PyPI python-redis-lock. It counts in whole seconds; a ttl of 0 is a lock without an end, a patience of -1 waits for ever."""

import math

import redis
import redis_lock

from serve import URL, serve


class PythonRedisLock:
    def __init__(self):
        self.client = redis.Redis.from_url(URL)

    def take(self, name, ttl, patience):
        lock = redis_lock.Lock(self.client, name, expire=math.ceil(ttl / 1000) or None)
        if name.startswith("="):
            lock._name = name[1:]
        if patience == 0:
            taken = lock.acquire(blocking=False)
        elif patience < 0:
            taken = lock.acquire()
        else:
            taken = lock.acquire(timeout=math.ceil(patience / 1000))
        return lock if taken else None

    def release(self, lock):
        try:
            lock.release()
        except redis_lock.NotAcquired:
            return False
        return True

    def extend(self, lock, ttl):
        try:
            lock.extend(math.ceil(ttl / 1000))
        except redis_lock.NotAcquired:
            return False
        return True


serve(PythonRedisLock())
