"""Does the work of Ray and verl in one process, for clients that call them on the way to the gateway."""

import concurrent.futures
import sys
import types


class _Method:
    def __init__(self, pool, function):
        self.pool, self.function = pool, function

    def remote(self, *arguments):
        return self.pool.submit(self.function, *arguments)


class _Actor:
    def __init__(self, instance, threads):
        self._instance, self._pool = instance, concurrent.futures.ThreadPoolExecutor(threads)

    def __getattr__(self, name):
        return _Method(self._pool, getattr(self._instance, name))


class _ActorClass:
    """Calls of its actors run in threads of this process."""

    def __init__(self, made, threads=1):
        self.made, self.threads = made, threads

    def options(self, max_concurrency=1, **_):
        return _ActorClass(self.made, max_concurrency)

    def remote(self, *arguments):
        return _Actor(self.made(*arguments), self.threads)


def _wait(references, num_returns=1, timeout=None):
    assert num_returns == 1
    done = concurrent.futures.wait(references, timeout, concurrent.futures.FIRST_COMPLETED).done
    first = [reference for reference in references if reference in done][:1]
    return first, [reference for reference in references if reference not in first]


class _TokenBucketWorker:
    """verl's, without a limit."""

    def __init__(self, rate_limit):
        self.rate_limit = rate_limit

    def acquire(self):
        return True

    def release(self):
        return None

    def get_current_count(self):
        return 0


def replace_ray_and_verl():
    sys.modules["ray"] = types.SimpleNamespace(remote=_ActorClass, wait=_wait, get=lambda reference: reference.result(),
                                               ObjectRef=concurrent.futures.Future)
    sys.modules["verl"] = types.ModuleType("verl")
    sys.modules["verl.tools"] = types.ModuleType("verl.tools")
    sys.modules["verl.tools.sandbox_fusion_tools"] = types.SimpleNamespace(
        TokenBucketWorker=_ActorClass(_TokenBucketWorker))
