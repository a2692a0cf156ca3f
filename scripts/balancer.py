#!/usr/bin/env python3
"""balancer.py HOST[,HOST...]:PORT BROKER...   passes the bytes of each connection to one of the brokers
(HOST:PORT each) in turns, as a TCP balancer does. One that refuses is not running: the next one
gets the connection. When either end closes, so does the other."""

import asyncio
import contextlib
import itertools
import sys

turns = itertools.cycle(sys.argv[2:])


async def copy(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()


async def serve(reader, writer):
    for _ in sys.argv[2:]:
        host, _, port = next(turns).rpartition(":")
        try:
            broker_reader, broker_writer = await asyncio.open_connection(host, port)
            break
        except OSError:
            continue
    else:
        writer.close()
        return
    ends = [asyncio.create_task(copy(reader, broker_writer)), asyncio.create_task(copy(broker_reader, writer))]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for end in ends:
        end.cancel()
    writer.close()
    broker_writer.close()


async def main():
    host, _, port = sys.argv[1].rpartition(":")
    server = await asyncio.start_server(serve, host.split(","), port)
    async with server:
        await server.serve_forever()


asyncio.run(main())
