"""PyPI redis: its Lock."""

import redis
from redis.exceptions import LockError

from serve import URL, serve


class RedisPy:
    def __init__(self):
        self.client = redis.Redis.from_url(URL)

    def take(self, name, ttl, patience):
        lock = self.client.lock(name, timeout=ttl / 1000)
        taken = lock.acquire(blocking_timeout=patience / 1000) if patience else lock.acquire(blocking=False)
        return lock if taken else None

    def release(self, lock):
        try:
            lock.release()
        except LockError:
            return False
        return True

    def extend(self, lock, ttl):
        try:
            return lock.extend(ttl / 1000, replace_ttl=True)
        except LockError:
            return False


serve(RedisPy())
