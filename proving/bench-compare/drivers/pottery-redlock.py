"""PyPI pottery: its Redlock."""

from pottery import Redlock

from serve import TTL, client, serve


class Pottery:
    def take(self, key):
        lock = Redlock(key=key, masters={client}, auto_release_time=TTL)
        return lock if lock.acquire() else None

    def release(self, lock):
        lock.release()


serve(Pottery())
