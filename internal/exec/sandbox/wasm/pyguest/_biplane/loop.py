"""The event loop. It runs ready callbacks after each line of the host, and waits by requesting a
wake-up."""

import asyncio
import functools
import heapq
import sys
import threading
from asyncio import events, tasks

from . import errors, host, values


# Iterations before the host's lines are read again: tasks that are always ready must not hold up
# answers and timers.
PASSES = 256


def _swap_task(loop, task):
    """Makes task the current task of loop, and returns the previous one; both may be None."""
    if hasattr(tasks, "_swap_current_task"):  # since Python 3.12
        return tasks._swap_current_task(loop, task)
    current = tasks.current_task(loop)
    if current is not None:
        tasks._leave_task(loop, current)
    if task is not None:
        tasks._enter_task(loop, task)
    return current


class _Selector:
    def select(self, timeout):
        return ()

    def close(self):
        pass

    def get_map(self):
        return {}


class Loop(asyncio.BaseEventLoop):
    """The guest's only event loop."""

    def __init__(self):
        super().__init__()
        self._selector = _Selector()
        self._clock_resolution = 0.001
        self._thread_id = threading.get_ident()
        self._armed = None  # time of the requested wake-up, or None
        self.waiting = None  # returns the number of answers that the host owes
        self.deliver = None  # handles a line of the host

    # Overrides of what needs threads and sockets in asyncio's loops.

    def _process_events(self, event_list):
        pass

    def _write_to_self(self):
        pass

    def close(self):
        pass

    def is_closed(self):
        return False

    def stop(self):
        pass

    async def shutdown_asyncgens(self):
        pass

    async def shutdown_default_executor(self, timeout=None):
        pass

    def run_in_executor(self, executor, func, *args):
        f = self.create_future()
        try:
            f.set_result(func(*args))
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as e:
            f.set_exception(e)
        return f

    def create_task(self, coro, **kw):
        coro = awaitable(coro)
        if not asyncio.iscoroutine(coro) and hasattr(type(coro), "__await__"):
            coro = _wrap(coro)
        return super().create_task(coro, **kw)

    def run_forever(self):
        raise RuntimeError("the event loop runs already: await what you wait for")

    def run_until_complete(self, future):
        """Blocks until future is done, while other tasks go on."""
        future = tasks.ensure_future(future, loop=self)
        current = _swap_task(self, None)
        try:
            while True:
                self.drive(future)
                if future.done():
                    return future.result()
                if self.idle() and not self.waiting():
                    raise errors.StalledError("the program waits for what can never come: no call and no timer is outstanding")
                self.arm()
                self.deliver(host.next_line())
        finally:
            _swap_task(self, current)

    # Running.

    def _head(self):
        """Returns the next timer, or None."""
        timers = self._scheduled
        while timers and timers[0]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(timers)._scheduled = False
        return timers[0] if timers else None

    def _due(self):
        t = self._head()
        return t is not None and t._when <= self.time() + self._clock_resolution / 2

    def drive(self, until=None):
        """Runs ready callbacks until none is left, until a future is done, or for PASSES
        iterations; arm then requests a wake-up."""
        for _ in range(PASSES):
            if not (self._ready or self._due()) or until is not None and until.done():
                return
            self._run_once()

    def _run_once(self):
        if self._scheduled or self._debug:
            super()._run_once()
            return
        ready = self._ready  # without timers, this is all that asyncio's loop does
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def idle(self):
        """Reports whether nothing is ready and no timer is set."""
        return not self._ready and self._head() is None

    def arm(self):
        """Requests a wake-up at the next timer, or at once if anything is ready."""
        t = self._head()
        when = 0 if self._ready else None if t is None else t._when
        if when == self._armed:
            return
        self._armed = when
        host.send("timer", {"ms": -1 if when is None else max(0, (when - self.time()) * 1000)})

    def woken(self):
        self._armed = None

    def disarm(self):
        """Forgets the requested wake-up at the start of a run, which cancels it."""
        self._armed = None

    def clear(self):
        """Discards all ready callbacks and timers."""
        self._ready.clear()
        self._scheduled.clear()
        self._timer_cancelled_count = 0


async def _wrap(awaitable):
    return await awaitable


loop = Loop()


def awaitable(x):
    """Returns x, or a finished future for a plain value: names that an earlier program assigned
    calls to may hold their values."""
    if type(x) not in values.GIVEN:
        return x
    f = loop.create_future()
    f.set_result(x)
    return f


def _takes_values(f):
    """Makes f, whose first argument is an awaitable, accept a plain value too."""
    @functools.wraps(f)
    def takes(*args, **keywords):
        return f(*map(awaitable, args[:1]), *args[1:], **keywords)

    return takes


def _takes_lists(f):
    """Makes f, whose first argument holds awaitables, accept plain values in it too."""
    @functools.wraps(f)
    def takes(*args, **keywords):
        if args and isinstance(args[0], (list, tuple)):
            args = [awaitable(x) for x in args[0]], *args[1:]
        return f(*args, **keywords)

    return takes


def _gathers(f):
    @functools.wraps(f)
    def gather(*coros_or_futures, **keywords):
        return f(*map(awaitable, coros_or_futures), **keywords)

    return gather


_TAKERS = {"ensure_future": _takes_values, "shield": _takes_values, "wait_for": _takes_values, "wait": _takes_lists, "as_completed": _takes_lists, "gather": _gathers}


class _Policy(events.BaseDefaultEventLoopPolicy):
    def get_event_loop(self):
        return loop

    def new_event_loop(self):
        return loop

    def set_event_loop(self, other):
        pass


def run(main, *, debug=None, loop_factory=None):
    """Replaces asyncio.run: runs main on the running loop."""
    return loop.run_until_complete(main)


async def to_thread(func, /, *args, **kwargs):
    """Replaces asyncio.to_thread: there are no threads, so func runs at once."""
    return func(*args, **kwargs)


def install():
    events.set_event_loop_policy(_Policy())
    events._set_running_loop(loop)
    sys.set_asyncgen_hooks(loop._asyncgen_firstiter_hook, loop._asyncgen_finalizer_hook)
    for m in (asyncio, asyncio.runners):
        m.run = run
    for name, takes in _TAKERS.items():
        f = takes(getattr(tasks, name))
        setattr(asyncio, name, f)
        setattr(tasks, name, f)
    asyncio.to_thread = asyncio.threads.to_thread = to_thread
    asyncio.new_event_loop = events.new_event_loop = lambda: loop
    asyncio.get_event_loop = events.get_event_loop = lambda: loop
    asyncio.set_event_loop = events.set_event_loop = lambda other: None
    asyncio.Runner.run = lambda self, coro, *, context=None: loop.run_until_complete(coro)
    asyncio.Runner.__enter__ = lambda self: self
    asyncio.Runner.__exit__ = lambda self, *a: None
    asyncio.Runner.close = lambda self: None
    asyncio.Runner.get_loop = lambda self: loop
