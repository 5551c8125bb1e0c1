"""The program's files: copies of the host's files in the sandbox's own file system. They are copied
there before a program runs, and changes are copied back when it has ended without an error. In a session
they stay there, so only what has changed is copied."""

import base64
import errno
import json
import os

ROOTS = ("workspace", "skills")  # folders below the root, here and at the host
MOST = 10_000  # files and folders

_known = {}  # what is equal here and at the host: path to (time of modification in ns, size), or None for a folder
_host_marks = {}  # the same of the host's files: path to (time of modification in ms, size)
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
    """Copies the host's files that differ from those here, and removes what the host doesn't have.
    In a session, that undoes what a failed program did."""
    global _absent, _loaded
    try:
        there = _survey(ask)
    except _NoHost:
        _absent = True
        return
    _absent = False
    here = _walk() if _loaded else {}
    _loaded = True
    for path in sorted(here, reverse=True):  # content before its folder
        if path not in there or (here[path] is None) != (there[path] is None):
            _remove(path)
    for path in set(_known) - set(there):
        del _known[path]
    for path, mark in there.items():  # folders before their content
        if mark is None:
            if path not in here:
                _remove(path)
            os.makedirs("/" + path, exist_ok=True)
            _known[path] = None
            continue
        if _host_marks.get(path) == mark and path in here and _known.get(path) == here[path]:
            continue
        if path not in here:
            _remove(path)  # a link, for example
        try:
            data = base64.b64decode(_do(ask, "read", path, base64=True))
        except PermissionError:  # the program may not read it
            _remove(path)
            continue
        with open("/" + path, "wb") as f:
            f.write(data)
        _known[path] = _mark("/" + path)
        _host_marks[path] = mark


def _remove(path):
    """Removes what is here at a path, if anything."""
    _known.pop(path, None)
    if not os.path.lexists("/" + path):
        return
    if os.path.islink("/" + path) or not os.path.isdir("/" + path):
        os.unlink("/" + path)
        return
    import shutil

    shutil.rmtree("/" + path)


def _list(ask, name):
    """Returns the content of a folder of the host; it is empty if the program may not read it."""
    try:
        return _do(ask, "list", name, flag="l")
    except (PermissionError, FileNotFoundError):
        return []


def _survey(ask):
    """Returns the host's files and folders, folders before their content: path to (time of
    modification, size), or None for a folder."""
    found = {}
    todo = list(ROOTS)
    for name in todo:
        if name not in ROOTS:
            found[name] = None
        for item in _list(ask, name):
            path = name + "/" + item["name"]
            if item["dir"]:
                todo.append(path)
            else:
                found[path] = (item["mtime"], item["size"])
    return found


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
    if found == _known:
        return
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
    for path, mark in _survey(ask).items():
        _host_marks[path] = mark
