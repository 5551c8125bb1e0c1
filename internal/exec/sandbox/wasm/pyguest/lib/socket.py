"""A stub of socket with the names that other modules need, and errors that explain there is no
network."""

import enum
import errno

AddressFamily = enum.IntEnum("AddressFamily", {"AF_UNSPEC": 0, "AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10})
SocketKind = enum.IntEnum("SocketKind", {"SOCK_STREAM": 1, "SOCK_DGRAM": 2, "SOCK_NONBLOCK": 2048, "SOCK_CLOEXEC": 524288})
globals().update(AddressFamily.__members__)
globals().update(SocketKind.__members__)

IPPROTO_TCP, IPPROTO_UDP, IPPROTO_IPV6 = 6, 17, 41
SOL_SOCKET, SO_REUSEADDR, SO_KEEPALIVE, SO_ERROR, SO_BROADCAST, SO_TYPE, SO_REUSEPORT = 1, 2, 9, 4, 6, 3, 15
TCP_NODELAY, IPV6_V6ONLY = 1, 26
SHUT_RD, SHUT_WR, SHUT_RDWR = 0, 1, 2
AI_PASSIVE, AI_ADDRCONFIG, AI_CANONNAME, AI_NUMERICHOST = 1, 32, 2, 4
NI_NUMERICHOST, NI_NUMERICSERV = 1, 2
EAI_NONAME, EAI_AGAIN, EAI_FAMILY, EAI_ADDRFAMILY = -2, -3, -6, -9
SOMAXCONN, MSG_PEEK = 4096, 2
has_ipv6 = False
error = OSError
timeout = TimeoutError
_GLOBAL_DEFAULT_TIMEOUT = object()


class herror(OSError):
    pass


class gaierror(OSError):
    pass


def _refuse(*args, **kwargs):
    raise OSError(errno.ENETUNREACH, "the sandbox has no network: use tools to reach services; find them with search(\"...\")")


class socket:
    def __init__(self, family=-1, type=-1, proto=-1, fileno=None):
        _refuse()


SocketType = socket
create_connection = create_server = socketpair = fromfd = gethostbyname = gethostbyaddr = gethostbyname_ex = getaddrinfo = getnameinfo = getservbyname = _refuse


def gethostname():
    return "sandbox"


def getfqdn(name=""):
    return name or "sandbox"


def getdefaulttimeout():
    return None


def setdefaulttimeout(timeout):
    pass


def inet_aton(s):
    import ipaddress

    try:
        return ipaddress.IPv4Address(s).packed
    except ValueError as e:
        raise OSError(str(e)) from None


def inet_ntoa(b):
    import ipaddress

    return str(ipaddress.IPv4Address(bytes(b)))


def inet_pton(family, s):
    import ipaddress

    try:
        return ipaddress.ip_address(s).packed
    except ValueError as e:
        raise OSError(str(e)) from None


def inet_ntop(family, b):
    import ipaddress

    return str(ipaddress.ip_address(bytes(b)))


def htons(x):
    return (x & 255) << 8 | x >> 8


def htonl(x):
    return int.from_bytes(x.to_bytes(4, "little"), "big")


ntohs, ntohl = htons, htonl
