"""Compiles CPython's library for the embedded engine: compile.py FROM TO. Needs nothing but the interpreter's core."""
import marshal, os, sys
from importlib import _bootstrap_external as ext

# What can't work in the sandbox, or has no use there.
LEFT_OUT = {
    "test", "idlelib", "ensurepip", "turtledemo", "tkinter", "turtle.py", "pydoc_data", "lib2to3", "curses", "_pyrepl", "ctypes", "multiprocessing",
    "venv", "sqlite3", "dbm", "idle", "antigravity.py", "this.py", "_pyio.py", "pty.py", "tty.py", "socketserver.py", "wsgiref", "xmlrpc",
    "ftplib.py", "imaplib.py", "poplib.py", "smtplib.py", "mailbox.py", "webbrowser.py", "_android_support.py", "_aix_support.py", "_ios_support.py",
    "_apple_support.py", "_osx_support.py", "__phello__", "__hello__.py", "site-packages", "pdb.py", "bdb.py", "cProfile.py", "profile.py",
    "pstats.py", "socket.py", "ssl.py", "__pycache__", "rlcompleter.py", "compileall.py", "zipapp.py", "modulefinder.py", "pyclbr.py",
}


def build(src, dst):
    for name in sorted(os.listdir(src)):
        a, b = src + "/" + name, dst + "/" + name
        if name in LEFT_OUT or src.endswith("/encodings") and name in ("mbcs.py", "oem.py"):
            continue
        if ext._path_isdir(a):
            build(a, b)
        elif name.endswith(".py"):
            with open(a, "rb") as f:
                text = f.read()
            code = compile(text, b[len(sys.argv[2]):].replace("/", "/lib/python3.13/", 1), "exec", dont_inherit=True, optimize=2)
            os.makedirs(dst, exist_ok=True)
            with open(b + "c", "wb") as f:
                f.write(ext._code_to_hash_pyc(code, b"\0" * 8, checked=False))


build(sys.argv[1], sys.argv[2])
