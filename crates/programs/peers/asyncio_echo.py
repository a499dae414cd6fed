"""Echo with asyncio: `echo-serve HOST PORT` or `echo-call HOST PORT CONNECTIONS BYTES`."""

import asyncio
import os
import sys


async def answer(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def serve(host, port):
    server = await asyncio.start_server(answer, host, port)
    print("listening", flush=True)
    async with server:
        await server.serve_forever()


async def call_once(host, port, size):
    reader, writer = await asyncio.open_connection(host, port)
    sent = os.urandom(size)

    async def write():
        writer.write(sent)
        await writer.drain()
        writer.write_eof()

    writing = asyncio.create_task(write())
    received = await reader.read(-1)
    await writing
    writer.close()
    if received != sent:
        sys.exit(f"{len(received)} bytes came back of {size}, or others")
    return size


async def call(host, port, count, size):
    calls = [call_once(host, port, size) for _ in range(count)]
    print("ok", sum(await asyncio.gather(*calls)))


what, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
if what == "echo-serve":
    asyncio.run(serve(host, port))
else:
    asyncio.run(call(host, port, int(sys.argv[4]), int(sys.argv[5])))
