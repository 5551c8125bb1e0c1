"""The guest's only connection to the host: lines, questions and the clock."""

import _host
import json

# process reports whether the guest is an ordinary interpreter in a process sandbox, with real
# files, threads and native packages. Otherwise it is the embedded engine.
process = getattr(_host, "process", False)

# libraries are the prefixes of the files that don't belong to the program.
libraries = getattr(_host, "libraries", ("/lib/",))

write = _host.write  # one line, without its newline
ask = _host.ask  # returns the answer, or None if the host doesn't answer
clock = _host.clock
seed = _host.seed

# begin is called before a program runs, and end after it ended without an error.
begin = getattr(_host, "begin", lambda: None)
end = getattr(_host, "end", lambda: None)

_next = _host.next
encode = json.JSONEncoder(ensure_ascii=True, check_circular=False, separators=(",", ":")).encode


def send(kind, fields):
    """Sends one message of the protocol; fields are plain values."""
    write('{"%s":%s}' % (kind, encode(fields)))


def next_line():
    """Blocks until the host's next line and returns it."""
    write('{"hold":true}')
    line = _next()
    if line is None:
        raise SystemExit("the host hung up")
    return line
