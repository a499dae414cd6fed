"""Echo with blocking sockets; at the caller two threads share each of them.

`echo-serve HOST PORT` or `echo-call HOST PORT CONNECTIONS BYTES`.
"""

import os
import socket
import socketserver
import sys
import threading


class Answer(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128


def call_once(host, port, size, good):
    with socket.create_connection((host, port)) as connection:
        sent = os.urandom(size)

        def write():
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)

        writing = threading.Thread(target=write)
        writing.start()
        received = bytearray()
        while data := connection.recv(65536):
            received += data
        writing.join()
        if received == sent:
            good.append(size)


what, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
if what == "echo-serve":
    with Server((host, port), Answer) as server:
        print("listening", flush=True)
        server.serve_forever()
else:
    count, size, good = int(sys.argv[4]), int(sys.argv[5]), []
    calls = [threading.Thread(target=call_once, args=(host, port, size, good)) for _ in range(count)]
    for thread in calls:
        thread.start()
    for thread in calls:
        thread.join()
    print("ok", sum(good))
