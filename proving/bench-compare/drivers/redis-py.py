"""PyPI redis: its Lock."""

from serve import TTL, client, serve


class RedisPy:
    def take(self, key):
        lock = client.lock(key, timeout=TTL)
        return lock if lock.acquire() else None

    def release(self, lock):
        lock.release()


serve(RedisPy())
