"""Functions that programs know from similar systems: text, image, notify, store, load, sleep,
final_answer. They are builtins, so a program may define its own. So are the modules that
programs use without importing them."""

import builtins
import importlib
import time

from . import calls, console, tools

MODULES = """asyncio base64 collections csv datetime functools hashlib io itertools json math os random re statistics string sys textwrap
time uuid""".split()


class Finished(BaseException):
    """Raised to end a program with a value."""

    def __init__(self, value):
        super().__init__("final_answer ended the program")
        self.value = value


MISSING = object()
_texts = []
_kept = {}
_state = {"lasting": False, "warned": False}


def begin(lasting):
    """Resets the state at the start of a run; lasting tells whether it belongs to a session."""
    _texts.clear()
    _state.update(lasting=lasting, warned=False)


def forget():
    """Discards stored values."""
    _kept.clear()


def said():
    """Reports whether the program called text."""
    return bool(_texts)


def value():
    """Returns what was passed to text, for a program without a value of its own: a single text as
    is, several as a list; MISSING if none."""
    if not _texts:
        return MISSING
    all = list(_texts)
    _texts.clear()
    return all[0] if len(all) == 1 else all


def flush():
    """Writes the texts to the console."""
    for t in _texts:
        console.line("log", t if isinstance(t, str) else repr(t))
    _texts.clear()


def text(value):
    """Adds to the program's output. Without another value, the texts are the program's value."""
    value = calls.settled(value)
    if isinstance(value, dict) and value.get("type") == "text" and isinstance(value.get("text"), str):
        value = value["text"]
    _texts.append(value)
    return tools.done


def image(x):
    """Shows the agent an image, like emit."""
    return tools.emit(x)


def notify(value):
    """Writes a line to the console."""
    value = calls.settled(value)
    console.line("info", value if isinstance(value, str) else repr(value))
    return tools.done


def store(key, value):
    """Stores a value for later programs of the session."""
    if not _state["lasting"] and not _state["warned"]:
        _state["warned"] = True
        console.line("warn", "store: without a session, stored values are lost when this program ends")
    _kept[str(key)] = calls.settled(value)
    return tools.done


def load(key, default=None):
    """Returns the value stored under a key."""
    return _kept.get(str(key), default)


def sleep(seconds=0):
    """Sleeps like time.sleep; the result may be awaited."""
    time.sleep(seconds)
    return tools.done


def final_answer(value=None):
    """Ends the program with a value."""
    raise Finished(calls.settled(value))


names = {f.__name__: f for f in (text, image, notify, store, load, sleep, final_answer)}


def install():
    for name, f in names.items():
        setattr(builtins, name, f)
    for name in MODULES:
        tools.modules[name] = importlib.import_module(name)
        setattr(builtins, name, tools.modules[name])
