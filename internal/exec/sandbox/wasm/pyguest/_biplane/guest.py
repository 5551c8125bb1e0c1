"""The guest's end of the protocol: runs one program at a time and ends each run with exactly one
Done or Fail."""

import asyncio
import builtins
import gc
import inspect
import linecache
import random
import sys
import types

from . import calls, chance, console, errors, facts, fetch, helpers, host, imports, loop as loops, rewrite, shims, tools, values, warm
from .loop import loop
from .private import private

asyncio, gc, inspect, linecache, random, types = map(private, (asyncio, gc, inspect, linecache, random, types))

GRACE = 40  # seconds that a run waits for calls that the program observed but didn't await
MAX_REPORTS = 10
MAX_TEXT = 100_000  # characters of a program that certainly fit into memory
_missing = object()

_fresh = True
_program = None  # the running one


class _Program:
    def __init__(self, run):
        self.name = run.get("name") or "program.py"
        self.session = bool(run.get("session"))
        self.note = None  # about its value
        self.main = None  # the task that runs it
        self.draining = False
        self.patience = None
        self.out_of_patience = False
        self.forgotten = None  # ids of calls
        self.failures = []  # of tasks that were never awaited

    async def execute(self, code, entry):
        namespace = _main.__dict__
        namespace.pop(rewrite.RESULT, None)
        try:
            value = await self.run(code, entry, namespace)
        except helpers.Finished as e:
            value = e.value
        if value is _missing:
            value = helpers.value()
        helpers.flush()
        return _missing if value is helpers.MISSING else await self.text(value)

    async def run(self, code, entry, namespace):
        """Returns the program's value."""
        started = types.FunctionType(code, namespace)()
        if code.co_flags & inspect.CO_COROUTINE:
            await started
        value = namespace.pop(rewrite.RESULT, _missing)
        if namespace.pop(rewrite.ASSIGNED, _missing) is _missing:
            self.note = None
        # Text() provides the value; os.environ["A"] = "b" provides none.
        elif helpers.said() or isinstance(value, types.ModuleType):
            self.note, value = None, _missing
        elif inspect.isawaitable(value) and not isinstance(value, (values.Object, values.List, calls.ToolCall)):
            value = _missing  # a task that was only started isn't awaited
        elif hasattr(type(value), "__next__") or hasattr(type(value), "__anext__"):
            # Listing a generator would run code that the program didn't run, including tool calls.
            value = _missing
        if value is tools.done:  # from text() and similar functions, which have no value
            value = _missing
        if value is _missing and entry is not None and callable(namespace.get(entry)):
            value = namespace[entry]()
            if not inspect.isawaitable(value) and value is None:
                return _missing
        while inspect.isawaitable(value) and not isinstance(value, (values.Object, values.List)):
            value = await value
            if value is tools.done:
                return _missing
        return value

    async def text(self, value):
        """Encodes the value as JSON, with the results of the awaitables in it."""
        futures = {}
        for _ in range(10):
            found = [f for f in values.awaitables(value) if id(f) not in futures]
            for f in futures.values():
                found += [g for g in values.awaitables(f) if id(g) not in futures]
            found = [f for f in found if not isinstance(f, (values.Object, values.List))]
            if not found:
                break
            for f, r in zip(found, await asyncio.gather(*found)):
                futures[id(f)] = r
                self.keep = getattr(self, "keep", []) + [f]
        return values.dumps(value, futures)


_main = types.ModuleType("__main__")


def _fresh_main():
    _main.__dict__.clear()
    _main.__dict__.update({"__name__": "__main__", "__builtins__": builtins, "__doc__": None, "__package__": None, "__loader__": None, "__spec__": None})
    sys.modules["__main__"] = _main


def _reset():
    """Discards the state of earlier programs."""
    for t in asyncio.all_tasks(loop):
        t._log_destroy_pending = False
        asyncio.tasks._unregister_task(t)
    calls.reset()
    facts.forget()
    chance.forget()
    helpers.forget()
    loop.clear()
    _fresh_main()
    for name, m in list(sys.modules.items()):
        if (getattr(m, "__file__", None) or "").startswith("/") and not m.__file__.startswith(host.libraries):
            del sys.modules[name]


def _start(run):
    global _fresh, _program
    p = _program = _Program(run)
    if not _fresh:
        if not p.session:
            _reset()
        imports.forget()
    _fresh = False
    loop.disarm()
    calls.begin()
    console.begin()
    helpers.begin(p.session)
    if run.get("seed"):
        host.seed(bytes.fromhex(run["seed"]))
        chance.renew()
    try:
        host.begin()
        names = run.get("namespaces")
        _main.__dict__.update(tools.set_namespaces(names, run.get("aliases")))
        _main.__dict__["__file__"] = p.name
        text = run["code"]
        others = (set(helpers.names) | set(tools.aliases)) - set(_main.__dict__)
        code, entry, p.note = rewrite.program(text, p.name, run.get("line") or 0, set(tools.names) | set(names or ()), p.session, others)
        linecache.cache[p.name] = (len(text), None, ("\n" * (run.get("line") or 0) + text).splitlines(True), p.name)
    except BaseException as e:
        # From the parser, when its stack is full.
        if isinstance(e, MemoryError) and len(run["code"]) < MAX_TEXT:
            e = SyntaxError("the program is nested too deeply")
        e.__traceback__ = None if isinstance(e, SyntaxError) else e.__traceback__
        _fail(e)
        return
    p.main = loop.create_task(p.execute(code, entry), name="program")
    p.main.add_done_callback(_ended)


def _ended(task):
    """Handles the end of the program's own code."""
    p = _program
    if p is None or p.main is not task:
        return
    e = None if task.cancelled() else task.exception()
    if task.cancelled():
        e = asyncio.CancelledError("the program cancelled itself")
    if isinstance(e, SystemExit) and e.code in (None, 0, False):
        p.draining = True
    elif isinstance(e, SystemExit):
        _fail(RuntimeError(e.code) if isinstance(e.code, str) else RuntimeError("the program exited with code %s" % (e.code,)), e.__traceback__)
    elif e is not None:
        _fail(e)
    else:
        p.draining = True


def _last_word(line):
    """Ends the program and reports the result. Raises if reporting fails, for lack of memory: the
    program has then not ended, and the caller sends a shorter report."""
    global _program
    p = _program
    console.end()
    host.write(line)
    if p.patience is not None:
        p.patience.cancel()
    _program = None


def _fail(e, traceback=None):
    if _program is None:
        return
    if traceback is not None:
        e.__traceback__ = traceback
    # The interpreter had no memory to create the error.
    if isinstance(e, SystemError) and "without exception set" in str(e):
        e = MemoryError().with_traceback(e.__traceback__)
    # Release what filled the memory before allocating anything.
    if isinstance(e, MemoryError) and not errors.of_parser(e):
        _main.__dict__.clear()  # no longer needed: a session is restored to its previous state
        fields = {"name": "MemoryError", "message": "the program reached its memory limit: hold less at a time", "kind": "limit", "stack": ""}
        try:
            fields["stack"] = errors.stack_of(e.__traceback__)
        except MemoryError:
            pass
    else:
        fields = errors.describe(e, _program.name)
    _report([f for f in _program.failures if f is not e])
    helpers.flush()
    errors.forget(e)
    _last_word('{"fail":%s}' % host.encode({"error": {k: v for k, v in fields.items() if v}}))


def _report(failures):
    for f in failures[:MAX_REPORTS]:
        console.line("error", "an unawaited task failed: " + errors.brief(f))


def _drain():
    """Waits for calls that the program didn't await, then ends the program."""
    p = _program
    left = calls.forgotten()
    pending = [c for c in left if not c.done()]
    if pending and not (p.out_of_patience and all(c._seen for c in pending)):
        if p.patience is None:
            p.patience = loop.call_later(GRACE, _impatient, p)
        return
    text = _missing if p.main.exception() is not None else p.main.result()
    failed = [c for c in left if not c._seen and c.done() and not c.cancelled() and asyncio.Future.exception(c) is not None]
    for c in failed[:MAX_REPORTS]:
        console.line("error", "%s was never awaited, and failed: %s" % (c._path, asyncio.Future.exception(c)))
    _report(p.failures)
    if p.note and text is not _missing:
        console.note(p.note)
    if not p.session:
        running = [t for t in asyncio.all_tasks(loop) if not t.done()]
        if running:
            names = ", ".join(sorted({getattr(t.get_coro(), "__name__", "a task") for t in running})[:5])
            console.line("warn", "the program ended while some of its tasks were running, which cancels them: " + names)
    unawaited = [c._id for c in left]
    try:
        host.end()
    except Exception as e:
        _fail(e)
        return
    value = "" if text is _missing else '"value":%s%s' % (text, "," if unawaited else "")
    _last_word('{"done":{%s%s}}' % (value, '"unawaited":%s' % host.encode(unawaited) if unawaited else ""))


def _impatient(p):
    p.out_of_patience = True
    p.patience = None


def _stalled():
    _fail(errors.StalledError(
        "the program waits for something that can never come: no call and no timer is outstanding. Look for a future that nobody sets, "
        "a queue that nobody fills, a lock that nobody releases." + "".join(" Before that, an unawaited task failed: " + errors.brief(f) for f in (_program.failures[:1] if _program else ()))))


def _unhandled(_, context):
    e = context.get("exception")
    if _program is None:
        return
    if e is not None and len(_program.failures) < MAX_REPORTS:
        _program.failures.append(e)


def _take(line):
    """Handles a line of the host."""
    m = values.decode(line)
    at = m.get("at")
    if at is not None:
        host.clock(at)
    a = m.get("answer")
    if a is not None:
        calls.answer(a)
    elif "wake" in m:
        loop.woken()
    elif m.get("run") is not None and _program is None:
        _start(m["run"])


loop.deliver = _take


def _guarded(f, *args):
    try:
        f(*args)
    except MemoryError as e:
        _out_of_memory(e)
    except (SystemExit, KeyboardInterrupt) as e:  # raised in a task: it ends the program
        _exit(e)
    except RecursionError as e:
        _fail(e)


def _exit(e):
    """Ends the program on sys.exit() in a task, which asyncio re-raises. In the main task it is
    handled like any exception."""
    p = _program
    if p is None or p.main is None:
        return
    if p.main.done():
        _ended(p.main)
        _idle()
    elif isinstance(e, SystemExit) and e.code in (None, 0):
        _fail(RuntimeError("a task ended the program: call exit() in its main code only"))
    else:
        _fail(e)


def _out_of_memory(e):
    if _program is not None:
        _fail(e)
    gc.collect()


def deliver(line):
    """Handles a line of the host."""
    _guarded(_take, line)


def _idle():
    loop.drive()
    p = _program
    if p is None:
        console.end()
        return
    if p.draining:
        _drain()
        loop.drive()
    elif p.main is not None and p.main.done():
        _ended(p.main)
        if _program is not None and _program.draining:
            _drain()
    elif loop.idle() and calls.waiting() == 0:
        _stalled()
    if _program is not None:
        console.flush()
        loop.arm()


def idle():
    """Called when no more lines are waiting."""
    _guarded(_idle)


def _install():
    console.install()
    loops.install()
    tools.install()
    fetch.install()
    helpers.install()
    rewrite.install()
    shims.install()
    chance.install()
    imports.install()
    loop.set_exception_handler(_unhandled)
    _fresh_main()
    builtins.exit = builtins.quit = sys.exit
    if not host.process:
        warm.run(deliver, idle)
        _forget()
    sys.path_importer_cache.clear()
    gc.collect()
    gc.freeze()


def _forget():
    """Restores the guest to the state before its first program."""
    global _fresh
    _reset()
    calls.restart()
    tools.set_namespaces(None)
    console.begin()
    loop.disarm()
    linecache.clearcache()
    random.seed(0)
    _fresh = True


_install()
