"""A lock of another program, told what to do line by line.

usage: peer.py KIND URL...    KIND: redis-py, pottery

    acquire NAME SECONDS            yes or no, at once
    release                         yes or no: did it still hold what it acquired?
    count NAME SECONDS KEY ROUNDS   adds to a number in ROUNDS critical sections; yes when done
"""

import random
import sys
import time
import uuid

from pottery import Redlock
from pottery.exceptions import ReleaseUnlockedLock
from redis import Redis
from redis.exceptions import LockError
from redis.lock import Lock


class RedisPy:
    """redis-py's lock knows one server. Taken on each of several it is the lock of the quorum."""

    def __init__(self, servers):
        self.servers = servers
        self.quorum = len(servers) // 2 + 1
        self.held = []

    def acquire(self, name, seconds):
        locks = [Lock(server, name, timeout=seconds, blocking=False) for server in self.servers]
        token = uuid.uuid4().hex
        self.held = [lock for lock in locks if lock.acquire(token=token)]
        if len(self.held) >= self.quorum:
            return True
        self.release()
        return False

    def release(self):
        return sum(self._is_released(lock) for lock in self.held) >= self.quorum

    @staticmethod
    def _is_released(lock):
        try:
            lock.release()
            return True
        except LockError:
            return False


class Pottery:
    """pottery puts `redlock:` in front of every name."""

    def __init__(self, servers):
        self.servers = set(servers)
        self.lock = None

    def acquire(self, name, seconds):
        key = name.removeprefix("redlock:")
        self.lock = Redlock(key=key, masters=self.servers, auto_release_time=seconds)
        return bool(self.lock.acquire(blocking=False))

    def release(self):
        try:
            self.lock.release()
            return True
        except ReleaseUnlockedLock:
            return False


def count(lock, server, name, seconds, key, rounds):
    for _ in range(rounds):
        while not lock.acquire(name, seconds):
            time.sleep(random.uniform(0.005, 0.05))
        seen = int(server.get(key) or 0)
        time.sleep(0.002)
        server.set(key, seen + 1)
        lock.release()
    return True


def main():
    kind, *urls = sys.argv[1:]
    servers = [Redis.from_url(url) for url in urls]
    lock = {"redis-py": RedisPy, "pottery": Pottery}[kind](servers)
    for line in sys.stdin:
        word, *args = line.split()
        if word == "acquire":
            done = lock.acquire(args[0], float(args[1]))
        elif word == "release":
            done = lock.release()
        else:
            done = count(lock, servers[0], args[0], float(args[1]), args[2], int(args[3]))
        print("yes" if done else "no", flush=True)


main()
