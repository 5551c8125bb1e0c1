# Tries to get out of a process sandbox. The value is the list of attempts that succeeded.
import ctypes, errno, glob, mmap, os, shutil, signal, socket, stat, subprocess, sys

libc = ctypes.CDLL(None, use_errno=True)
succeeded = []


def attempt(name, f):
    """Records the attempt unless it raises an OSError or returns something false."""
    try:
        r = f()
    except (OSError, ImportError, subprocess.SubprocessError, ValueError):
        return
    if r:
        succeeded.append("%s: %.200r" % (name, r))


def call(nr, *args):
    """Makes a system call, and reports whether it was not refused."""
    ctypes.set_errno(0)
    r = libc.syscall(ctypes.c_long(nr), *[ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(a) for a in args])
    return r != -1 or ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM, errno.EACCES, errno.ENOENT, errno.EROFS, errno.EAFNOSUPPORT)


def write(path):
    with open(path, "w") as f:
        f.write("x")
    return True


# Files of the host.
for path in ("/etc/shadow", "/root", "/home", "/var", "/run", "/sys", "/boot", "/opt", "/mnt", "/srv", "/proc/kcore", "/proc/sys", "/proc/kallsyms", "/proc/config.gz", "/proc/keys",
             "/proc/sysrq-trigger", "/proc/1/root/root", "/proc/self/cwd/../root", "/workspace/../../../root", "/dev/mem", "/dev/kmsg", "/dev/fuse", "/dev/kvm", "/dev/net/tun",
             "/dev/vda", "/dev/sda", "/dev/tty", "/dev/ptmx", "/var/run/docker.sock", "/tmp/.X11-unix", "/sys/fs/cgroup"):
    attempt("see " + path, lambda: os.path.lexists(path))
attempt("files of others in /tmp", lambda: os.listdir("/tmp"))
attempt("write to /usr", lambda: write("/usr/x"))
attempt("write to /etc", lambda: write("/etc/x"))
attempt("write to the root", lambda: write("/x"))
attempt("write to /dev", lambda: write("/dev/x"))
attempt("change the agent", lambda: write("/biplane/_host.py"))
attempt("change /etc/passwd", lambda: write("/etc/passwd"))
attempt("replace the agent", lambda: os.rename("/biplane/_host.py", "/biplane/x") is None)
attempt("link out of the workspace", lambda: (os.symlink("/proc/1/root", "/workspace/l"), os.listdir("/workspace/l/root"))[1])
attempt("hard link of a file of the host", lambda: os.link("/usr/bin/python3", "/workspace/h") is None)
attempt("device", lambda: os.mknod("/workspace/d", stat.S_IFBLK | 0o600, os.makedev(254, 0)) is None)
attempt("set-user-ID file", lambda: (shutil.copy("/usr/bin/id", "/workspace/id"), os.chmod("/workspace/id", 0o4755), subprocess.run(["/workspace/id", "-u"], capture_output=True).stdout.strip() not in (b"1000",))[2])
attempt("sudo", lambda: subprocess.run(["su", "-c", "id"], capture_output=True).returncode == 0)
attempt("open by handle", lambda: call(304, -100, b"x" * 16, 0))

# Processes.
attempt("other processes", lambda: [p for p in glob.glob("/proc/[0-9]*") if int(p[6:]) > 50])
attempt("environment of the first process", lambda: [v for v in open("/proc/1/environ").read().split("\0") if v and "=biplane-secret-" not in v and v.split("=")[0] not in
        ("PATH", "HOME", "TMPDIR", "USER", "LANG", "LC_ALL", "TZ", "TERM", "PYTHONDONTWRITEBYTECODE", "PYTHONUTF8", "PYTHONSAFEPATH", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "GOPATH", "GOTOOLCHAIN", "CARGO_HOME",
         "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "npm_config_cafile", "NODE_EXTRA_CA_CERTS")])
attempt("inherited descriptors", lambda: [d for d in os.listdir("/proc/self/fd") if int(d) > 3 and os.path.exists("/proc/self/fd/" + d) and not os.readlink("/proc/self/fd/" + d).startswith(("pipe:", "/proc/"))])
attempt("signal the parent", lambda: os.getppid() and os.kill(os.getppid(), 0) is None)
attempt("signal everybody outside", lambda: os.kill(2**22 - 1, 0) is None)
attempt("trace", lambda: call(101, 16, 1, 0, 0))
attempt("read the memory of a process", lambda: call(310, 1, 0, 0, 0, 0, 0))
attempt("descriptor of a process", lambda: call(438, 0, 0, 0))
attempt("binary of the gateway", lambda: b"biplane" in os.readlink("/proc/1/exe").encode())

# Namespaces, mounts, privileges.
for name, flag in (("mount", 0x20000), ("user", 0x10000000), ("pid", 0x20000000), ("net", 0x40000000), ("uts", 0x4000000), ("cgroup", 0x2000000)):
    attempt("new namespace: " + name, lambda: libc.unshare(flag) == 0)
attempt("enter a namespace", lambda: libc.setns(os.open("/proc/self/ns/net", os.O_RDONLY), 0) == 0)
attempt("clone with a user namespace", lambda: call(56, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0))
attempt("mount", lambda: libc.mount(b"none", b"/workspace", b"tmpfs", 0, None) == 0)
attempt("unmount", lambda: libc.umount2(b"/proc", 2) == 0)
attempt("chroot", lambda: os.chroot("/workspace") is None)
attempt("become root", lambda: os.setuid(0) is None)
attempt("host name", lambda: socket.sethostname("x") is None)
attempt("raise a limit", lambda: __import__("resource").setrlimit(7, (4096, 4096)) is None)
attempt("leave the control group", lambda: write("/sys/fs/cgroup/cgroup.procs"))
attempt("scores of the out-of-memory killer", lambda: write("/proc/self/oom_score_adj"))
attempt("map the users", lambda: write("/proc/self/uid_map"))
for name, nr in (("fsopen", 430), ("open_tree", 428), ("move_mount", 429), ("pivot_root", 155), ("bpf", 321), ("io_uring", 425), ("keyctl", 250), ("add_key", 248), ("userfaultfd", 323), ("perf", 298),
                 ("kexec", 246), ("init_module", 175), ("finit_module", 313), ("reboot", 169), ("swapon", 167), ("acct", 163), ("settimeofday", 164), ("syslog", 103), ("iopl", 172), ("kcmp", 312),
                 ("quotactl", 179), ("fanotify", 300), ("lookup_dcookie", 212), ("vhangup", 153), ("modify_ldt", 154), ("seccomp", 317), ("memfd_secret", 447), ("name_to_handle_at", 303),
                 ("process_madvise", 440), ("mount_setattr", 442), ("remap_file_pages", 216), ("a call of the future", 999), ("set_mempolicy", 238)):
    if sys.maxsize > 2**32 and os.uname().machine == "x86_64":
        attempt(name, lambda: call(nr, 0, 0, 0, 0, 0, 0))

# Network.
for family in (socket.AF_NETLINK, socket.AF_PACKET, socket.AF_VSOCK, 38, socket.AF_BLUETOOTH if hasattr(socket, "AF_BLUETOOTH") else 31, 16):
    attempt("socket of family %d" % family, lambda: socket.socket(family, socket.SOCK_RAW))
attempt("raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))


def connect(host, port=80, family=socket.AF_INET, request=b"GET / HTTP/1.0\r\nHost: %s\r\n\r\n"):
    """Connects, and reports whether something answers that doesn't refuse on behalf of the gateway."""
    s = socket.socket(family, socket.SOCK_STREAM)
    s.settimeout(2)
    s.connect((host, port))
    s.sendall(request.replace(b"%s", host.encode()))
    answer = b""
    while part := s.recv(4096):
        answer += part
    return answer and b"\r\n\r\nbiplane: " not in answer and not answer.startswith(b"HTTP/1.1 400 ") and answer


def through_proxy(target):
    return connect("127.0.0.1", 3128, request=b"CONNECT " + target + b" HTTP/1.1\r\nHost: " + target + b"\r\n\r\n")


def ask_names(kind, name):
    """Asks the name server for records, and returns its answers."""
    labels = b"".join(bytes([len(l)]) + l for l in name.split(b".") if l)
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(2)
    s.connect(("127.0.0.1", 53))
    s.send(b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + labels + b"\x00" + kind.to_bytes(2, "big") + b"\x00\x01")
    answer = s.recv(4096)
    return int.from_bytes(answer[6:8], "big") and answer


for host in ("127.0.0.1", "127.1", "127.64.0.1", "127.255.255.254", "2130706433", "0x7f000001", "0177.0.0.1", "169.254.169.254", "10.0.0.1", "192.168.0.1", "1.1.1.1", "0.0.0.0"):
    for port in (80, 443, 8420):
        attempt("connect to %s port %d" % (host, port), lambda: connect(host, port))
for host in ("::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "fd00:ec2::254", "2606:4700:4700::1111"):
    attempt("connect over IPv6 to " + host, lambda: connect(host, 80, socket.AF_INET6))
for target in (b"127.0.0.1:8420", b"127.1:80", b"2130706433:80", b"0x7f.1:80", b"[::1]:80", b"[::ffff:a9fe:a9fe]:80", b"169.254.169.254:80", b"metadata.google.internal:80",
               b"localhost:8420", b"example.com:443", b"example.com.:443", b"EXAMPLE.com:443", b"example.com:0443", b"example.com\0.evil:443", b"a@example.com:443", b"example.com:443@x:1"):
    attempt("proxy to %r" % target, lambda: through_proxy(target))
attempt("proxy to a URL", lambda: connect("127.0.0.1", 3128, request=b"GET http://127.0.0.1:8420/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))
attempt("proxy with another host", lambda: connect("127.0.0.1", 3128, request=b"GET http://example.com/ HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n"))
for kind in (1, 5, 10, 16, 28, 33, 65, 255):
    attempt("DNS records of type %d" % kind, lambda: ask_names(kind, b"a" * 60 + b"." + b"b" * 60 + b".example.com"))
attempt("send UDP", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("1.1.1.1", 53)))
attempt("resolve a name", lambda: socket.getaddrinfo("example.com", 80))
attempt("interfaces", lambda: [i for _, i in socket.if_nameindex() if i != "lo"])


def abstract():
    s = socket.socket(socket.AF_UNIX)
    s.connect("\0/biplane-test-abstract")
    return True


attempt("abstract socket of the host", abstract)
succeeded
