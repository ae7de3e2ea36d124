"""PyPI pottery: its Redlock."""

import redis
from pottery import ExtendUnlockedLock, Redlock, ReleaseUnlockedLock

from serve import URL, serve


class Pottery:
    def __init__(self):
        self.masters = {redis.Redis.from_url(URL)}

    def take(self, name, ttl, patience):
        lock = Redlock(key=name, masters=self.masters, auto_release_time=ttl / 1000)
        taken = lock.acquire(timeout=patience / 1000) if patience else lock.acquire(blocking=False)
        return lock if taken else None

    def release(self, lock):
        try:
            lock.release()
        except ReleaseUnlockedLock:
            return False
        return True

    def extend(self, lock, ttl):
        try:
            lock.extend()
        except ExtendUnlockedLock:
            return False
        return True


serve(Pottery())
