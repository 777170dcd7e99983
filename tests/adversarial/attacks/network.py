"""Attacks that call a model, or anything else, from a candidate."""

from tests.adversarial.attacks import Attack

_PORTS = """
def ports():
    found = []
    for name in ("tcp", "tcp6"):
        try:
            with open("/proc/net/" + name) as file:
                lines = [line.split() for line in file][1:]
        except OSError:
            continue
        found += [int(fields[1].split(":")[1], 16) for fields in lines if fields[3] == "0A"]
    return found
"""

ATTACKS = (
    Attack(
        "call_the_relay",
        _PORTS
        + """
import socket
def deed():
    for port in [*ports(), 80, 8000]:
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as sock:
                sock.sendall(b"GET /v1/models HTTP/1.1\\r\\n\\r\\n")
                if sock.recv(1):
                    raise Leak(port)
        except OSError:
            pass
""",
    ),
    Attack(
        "call_by_urllib",
        _PORTS
        + """
import json, urllib.request
def deed():
    body = json.dumps({"model": "stub", "messages": [{"role": "user", "content": "x"}]}).encode()
    for port in [*ports(), 8000]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/chat/completions", body, 1) as reply:
                raise Leak(reply.read(100))
        except OSError:
            pass
""",
    ),
    Attack(
        "call_by_raw_system_calls",
        """
import ctypes, os
def deed():
    libc = ctypes.CDLL(None, use_errno=True)
    numbers = (41, 53, 425, 0x40000000 + 41) if os.uname().machine == "x86_64" else (198, 199, 425)
    for number in numbers:
        if libc.syscall(number, 2, 1, 0, ctypes.create_string_buffer(64)) >= 0:
            raise Leak(f"system call {number}")
""",
    ),
    Attack(
        "call_by_a_client",
        """
def deed():
    import asyncio
    async def ask():
        reader, writer = await asyncio.open_connection("127.0.0.1", 8000)
        raise Leak("connected")
    asyncio.run(ask())
""",
        interactions=("solve",),
    ),
    Attack(
        "look_up_a_name",
        """
import socket
def deed():
    try:
        raise Leak(socket.gethostbyname("example.org"))
    except OSError:
        pass
""",
    ),
)
