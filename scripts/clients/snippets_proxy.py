"""Stands between Kafka clients and a broker, and can lose its answers.

    snippets_proxy.py ADDRESS-FILE

ADDRESS-FILE holds the broker's HOST:PORT, read anew for each connection. The
first line of output is the address to dial. After SIGUSR1 the next answer to a
Produce is lost, and everything that the broker says to anybody after it; that is
when LOST is printed. The broker is to be killed then: with its connections all
others end, and no new one is accepted until SIGUSR2.
"""
import asyncio
import signal
import sys

PRODUCE = 0


class Proxy:
    def __init__(self, address_file):
        self.address_file = address_file
        self.armed = self.lost = False
        self.server, self.port, self.writers = None, 0, set()

    async def listen(self):
        self.armed = self.lost = False
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    def broker_gone(self):
        """A connection of the broker's ended. Where that was planned, all do."""
        if self.lost and self.server is not None:
            self.server.close()
            self.server = None
            for writer in list(self.writers):
                writer.close()

    async def serve(self, reader, writer):
        try:
            with open(self.address_file, encoding="ascii") as f:
                host, port = f.read().strip().rsplit(":", 1)
            broker_reader, broker_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        both, produces = {writer, broker_writer}, set()
        self.writers |= both
        try:
            await asyncio.gather(self.requests(reader, broker_writer, produces), self.answers(broker_reader, writer, produces))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.writers -= both
            for w in both:
                w.close()

    async def requests(self, reader, writer, produces):
        while True:
            size = await reader.readexactly(4)
            frame = await reader.readexactly(int.from_bytes(size, "big"))
            if int.from_bytes(frame[:2], "big") == PRODUCE:
                produces.add(frame[4:8])
            writer.write(size + frame)
            await writer.drain()

    async def answers(self, reader, writer, produces):
        while True:
            try:
                size = await reader.readexactly(4)
                frame = await reader.readexactly(int.from_bytes(size, "big"))
            except (OSError, asyncio.IncompleteReadError):
                self.broker_gone()
                raise
            produced = frame[:4] in produces
            produces.discard(frame[:4])
            if self.armed and produced and not self.lost:
                self.lost = True
                print("LOST", flush=True)
            if not self.lost:
                writer.write(size + frame)
                await writer.drain()


async def main():
    proxy = Proxy(sys.argv[1])
    await proxy.listen()
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGUSR1, lambda: setattr(proxy, "armed", True))
    loop.add_signal_handler(signal.SIGUSR2, lambda: asyncio.ensure_future(proxy.listen()))
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    print(f"127.0.0.1:{proxy.port}", flush=True)
    await stop.wait()


asyncio.run(main())
