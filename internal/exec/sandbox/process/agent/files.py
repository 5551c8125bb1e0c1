"""The program's files: copies of the host's files in the sandbox's own file system. They are copied
there before a program runs, and changes are copied back when it has ended without an error."""

import base64
import errno
import json
import os

ROOTS = ("workspace", "skills")  # folders below the root, here and at the host
MOST = 10_000  # files and folders

_known = {}  # path to (time of modification in ns, size), or None for a folder
_loaded = False
_absent = False  # the host has no files


class _NoHost(Exception):
    """The host answers no questions."""


def _do(ask, op, path, **fields):
    """Performs an operation of the host's file system."""
    answer = ask(json.dumps({"file": {"id": 0, "op": op, "path": path, **fields}}))
    if answer is None:
        raise _NoHost
    answer = json.loads(answer)["answer"]
    error = answer.get("error")
    if error:
        code = getattr(errno, error.get("code") or "", errno.EIO)
        raise OSError(code, error.get("message") or os.strerror(code), path)
    return answer.get("value")


def _mark(path):
    """Returns what identifies the content of a file."""
    s = os.lstat(path)
    return s.st_mtime_ns, s.st_size


def load(ask):
    """Copies the host's files, once."""
    global _loaded, _absent
    if _loaded:
        return
    try:
        _load(ask)
    except _NoHost:
        _absent = True
    _loaded = True


def _list(ask, name):
    """Returns the content of a folder of the host; it is empty if the program may not read it."""
    try:
        return _do(ask, "list", name)
    except (PermissionError, FileNotFoundError):
        return []


def _load(ask):
    todo = list(ROOTS)
    for name in todo:
        here = "/" + name
        if name not in ROOTS:
            os.makedirs(here, exist_ok=True)
            _known[name] = None
        for item in _list(ask, name):
            path = name + "/" + item["name"]
            if item["dir"]:
                todo.append(path)
                continue
            try:
                data = base64.b64decode(_do(ask, "read", path, base64=True))
            except PermissionError:
                continue  # the program may not read it
            with open("/" + path, "wb") as f:
                f.write(data)
            _known[path] = _mark("/" + path)


def _walk():
    """Returns the program's files and folders: path to mark, folders before their content."""
    found = {}
    for root in ROOTS:
        todo = [root]
        while todo:
            folder = todo.pop()
            for e in os.scandir("/" + folder):
                path = folder + "/" + e.name
                if e.is_symlink() or not (e.is_dir() or e.is_file()):
                    continue  # the host has only files and folders
                if e.is_dir():
                    found[path] = None
                    todo.append(path)
                else:
                    found[path] = _mark(e.path)
                if len(found) > MOST:
                    raise OSError(errno.EDQUOT, "the program left more than %d files in ./workspace" % MOST)
    return found


def store(ask):
    """Copies changed files to the host, and removes what the program removed."""
    if _absent:
        return
    found = _walk()
    for path in sorted(set(_known) - set(found), reverse=True):  # content before its folder
        _do(ask, "rm", path, recursive=True, force=True)
        del _known[path]
    for path, mark in found.items():
        if path in _known and _known[path] == mark:
            continue
        if mark is None:
            if path in _known:  # it was a file
                _do(ask, "rm", path, force=True)
            _do(ask, "mkdir", path, recursive=True)
        else:
            if path in _known and _known[path] is None:  # it was a folder
                _do(ask, "rm", path, recursive=True, force=True)
            with open("/" + path, "rb") as f:
                data = f.read()
            _do(ask, "write", path, data=base64.b64encode(data).decode(), base64=True, flag="w")
        _known[path] = mark
