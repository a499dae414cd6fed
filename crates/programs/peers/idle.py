"""Opens connections to a Redis server, leaves them idle until told, then uses each once more.

idle.py HOST PORT COUNT
"""

import socket
import sys

host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def ping_all(connections):
    for connection in connections:
        connection.sendall(b"PING\r\n")
    for connection in connections:
        answer = b""
        while not answer.endswith(b"\r\n"):
            more = connection.recv(64)
            if not more:
                sys.exit("a connection was closed")
            answer += more
        if answer != b"+PONG\r\n":
            sys.exit(f"answered {answer!r}")


connections = []
while len(connections) < count:
    some = [socket.create_connection((host, port)) for _ in range(min(100, count - len(connections)))]
    ping_all(some)
    connections += some
print("open", flush=True)
sys.stdin.readline()
ping_all(connections)
print("all answered", flush=True)
