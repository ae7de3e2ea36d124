"""PyPI python-redis-lock."""

import redis_lock

from serve import TTL, client, serve


class PythonRedisLock:
    def take(self, key):
        lock = redis_lock.Lock(client, key, expire=TTL)
        return lock if lock.acquire() else None

    def release(self, lock):
        lock.release()


serve(PythonRedisLock())
