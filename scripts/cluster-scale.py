"""cluster-scale.py [N...]   measures three brokers with N partitions of replication factor 3
(default 10 and 10,000), all on this machine, and prints one table for each N:

  creation, idle CPU and memory, the CPU of a metadata change of one partition, fail-over of a
  broker that leads a third, its return to all in-sync replicas, its controlled shutdown, and
  starts of all three brokers after SIGTERM and after kill -9.

IDLE=60     seconds of the idle measurement.   CHANGES=200   metadata changes to average over.
TOPICS=1    topics among which the partitions are divided.
PROFILES=DIR  writes CPU profiles of the creation, of the idle time and of the changes.
CHRONIKD, CHRONIKCTL   the binaries (default bin/chronikd and bin/chronikctl).
"""

import contextlib
import glob
import http.client
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CHRONIKD = os.environ.get("CHRONIKD", ROOT + "/bin/chronikd")
CHRONIKCTL = os.environ.get("CHRONIKCTL", ROOT + "/bin/chronikctl")
IDLE = float(os.environ.get("IDLE", "60"))
CHANGES = int(os.environ.get("CHANGES", "200"))
TOPICS = int(os.environ.get("TOPICS", "1"))
PROFILES = os.environ.get("PROFILES")
LIMIT = 120  # seconds after which a state that is awaited counts as an error


def row(what, value):
    print(f"  {what:<58} {value}", flush=True)


class Broker:
    """One process of chronikd, with its directory and ports."""

    def __init__(self, node, ports, seeds, work):
        self.node, self.listen, self.admin = node, f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[1]}"
        self.dir, self.seeds, self.process = f"{work}/{node}", seeds, None

    def start(self):
        os.makedirs(self.dir, exist_ok=True)
        with open(f"{self.dir}.log", "ab") as log:
            self.process = subprocess.Popen(
                [CHRONIKD, "--data-dir", self.dir, "--listen", self.listen, "--admin-listen", self.admin]
                + ["--set", "cluster.name=scale", "--set", f"node.id={self.node}", "--set", f"cluster.seeds={self.seeds}"],
                stderr=log,
            )

    def end(self, sig):
        self.process.send_signal(sig)
        self.process.wait(LIMIT)

    def get(self, path, timeout=10):
        with urllib.request.urlopen(f"http://{self.admin}{path}", timeout=timeout) as answer:
            return answer.read()

    def ready(self):
        try:
            return self.get("/readyz") is not None
        except OSError:
            return False

    def led(self):
        """The number of partitions that it leads, as it sees them."""
        return sum(leader == self.node for leader, _, _ in partitions(self))

    def cpu(self):
        """Milliseconds of processor time, user and system, with the kernel's resolution of nanoseconds."""
        total = 0
        for path in glob.glob(f"/proc/{self.process.pid}/task/*/schedstat"):
            try:
                with open(path, encoding="ascii") as f:
                    total += int(f.read().split()[0])
            except OSError:  # the thread has ended
                pass
        return total / 1e6

    def rss(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024

    def metadata(self):
        """Bytes of the metadata files."""
        return sum(os.path.getsize(f) for f in glob.glob(f"{self.dir}/metadata/**", recursive=True) if os.path.isfile(f))


def until(what, done, begin=None):
    """Waits for a state, and returns the seconds since begin."""
    begin = begin or time.monotonic()
    while not done():
        if time.monotonic() - begin > LIMIT:
            sys.exit(f"not within {LIMIT} s: {what}")
        time.sleep(0.05)
    return time.monotonic() - begin


def partitions(broker):
    """Yields (leader, replicas, in-sync replicas) of each partition, by a Metadata request of version 1.

    Its cost does not disturb the measurement, which that of a scrape of all metrics would.
    """
    host, port = broker.listen.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as conn:
        body = struct.pack(">hhihi", 3, 1, 1, -1, -1)
        conn.sendall(struct.pack(">i", len(body)) + body)
        with conn.makefile("rb") as answer:
            p = answer.read(struct.unpack(">i", answer.read(4))[0])
    at = 4  # after the correlation id

    def take(fmt):
        nonlocal at
        values = struct.unpack_from(">" + fmt, p, at)
        at += struct.calcsize(">" + fmt)
        return values

    def skip_string():
        nonlocal at
        size = take("h")[0]
        at += max(size, 0)

    for _ in range(take("i")[0]):  # brokers
        take("i")
        skip_string()
        take("i")
        skip_string()
    take("i")  # the controller
    for _ in range(take("i")[0]):
        take("h")
        skip_string()
        take("b")
        for _ in range(take("i")[0]):
            _, _, leader, replicas = take("hiii")
            at += 4 * replicas
            (isr,) = take("i")
            at += 4 * isr
            yield leader, replicas, isr


def all_led(broker, n, without=None):
    """Reports whether a broker sees a leader for each of n partitions, other than a broker."""
    try:
        found = list(partitions(broker))
    except (OSError, struct.error):
        return False
    return len(found) == n and all(leader not in (-1, without) for leader, _, _ in found)


def all_in_sync(n):
    """Reports whether all brokers see all replicas in sync."""
    def sees(broker):
        found = list(partitions(broker))
        return len(found) == n and all(leader >= 0 and replicas == isr for leader, replicas, isr in found)
    try:
        return all(sees(b) for b in BROKERS)
    except (OSError, struct.error):
        return False


def ctl(*args):
    """Runs chronikctl, and returns the seconds that it took."""
    begin = time.monotonic()
    done = subprocess.run([CHRONIKCTL, "--brokers", BROKERS[0].listen, "--admin", "off", "--timeout", "120s", *args],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"chronikctl {' '.join(args[:3])}: {done.stdout}")
    return time.monotonic() - begin


def profile(name, seconds):
    """Starts a CPU profile of each broker in the background, if profiles are wanted."""
    if not PROFILES:
        return

    def write(b):
        with contextlib.suppress(OSError, http.client.HTTPException), open(f"{PROFILES}/{name}-{b.node}.pprof", "wb") as f:
            f.write(b.get(f"/debug/pprof/profile?seconds={seconds:.0f}", seconds + 30))

    os.makedirs(PROFILES, exist_ok=True)
    for b in BROKERS:
        threading.Thread(target=write, args=(b,), daemon=True).start()


def each(what, values, unit="", digits=1):
    row(what, " / ".join(f"{v:,.{digits}f}" for v in values) + unit)


def measure(n):
    """Prints the table of n partitions."""
    print(f"\n## {n:,} partitions in {min(TOPICS, n)} topics, replication factor 3, three brokers")
    for b in BROKERS:
        b.start()
    row("three empty brokers ready", f"{until('ready', lambda: all(b.ready() for b in BROKERS)):.1f} s")
    topics = min(TOPICS, n)
    profile("creation", 10)
    before = [b.cpu() for b in BROKERS]
    begin = time.monotonic()
    ctl("topic", "create", *[f"scale-{i}" for i in range(topics)], "-p", str(n // topics), "-r", "3")
    answered = time.monotonic() - begin
    until("all partitions in sync", lambda: all_in_sync(n), begin)
    row("creation: answered, all in sync", f"{answered:.2f} s, {time.monotonic() - begin:.2f} s")
    each("creation: CPU of each broker", [b.cpu() - was for b, was in zip(BROKERS, before)], " ms", 0)

    time.sleep(10)  # what follows a creation ends
    profile("idle", IDLE)
    before = [b.cpu() for b in BROKERS]
    time.sleep(IDLE)
    each(f"idle for {IDLE:.0f} s: CPU of each broker, of a core", [(b.cpu() - was) / IDLE / 10 for b, was in zip(BROKERS, before)], " %", 2)
    each("resident memory", [b.rss() for b in BROKERS], " MB", 0)
    each("metadata files", [b.metadata() / 1e6 for b in BROKERS], " MB", 2)
    idle = [(b.cpu() - was) / IDLE for b, was in zip(BROKERS, before)]

    changes("create a topic of one partition", idle, lambda i: ctl("topic", "create", f"one-{i}", "-p", "1", "-r", "3"))
    changes("set a config of a topic of one partition", idle,
            lambda i: ctl("config", "set", "topic", "one-0", f"retention.ms={10**9 + i}"))
    n += CHANGES

    for name, sig in (("kill -9", signal.SIGKILL), ("SIGTERM", signal.SIGTERM)):
        b = max(BROKERS, key=Broker.led)
        led, others = b.led(), [o for o in BROKERS if o is not b]
        before = [o.cpu() for o in others]
        begin = time.monotonic()
        b.process.send_signal(sig)
        until("all partitions have leaders", lambda: all_led(others[0], n, b.node), begin)
        row(f"{name} of a broker that leads {led:,.0f}: all have leaders", f"{time.monotonic() - begin:.2f} s")
        b.process.wait(LIMIT)
        row(f"{name}: the process has ended", f"{time.monotonic() - begin:.2f} s")
        each(f"{name}: CPU of the other two", [o.cpu() - was for o, was in zip(others, before)], " ms", 0)
        time.sleep(5)
        begin = time.monotonic()
        b.start()
        until("ready", b.ready, begin)
        row("– its start: ready", f"{time.monotonic() - begin:.2f} s")
        until("all in sync", lambda: all_in_sync(n), begin)
        row("– its start: in all in-sync replicas", f"{time.monotonic() - begin:.2f} s, CPU {b.cpu():,.0f} ms")
    for name, sig in (("SIGTERM", signal.SIGTERM), ("kill -9", signal.SIGKILL)):
        begin = time.monotonic()
        for b in BROKERS:
            b.process.send_signal(sig)
        for b in BROKERS:
            b.process.wait(LIMIT)
        if sig == signal.SIGTERM:
            row("SIGTERM of all three: ended", f"{time.monotonic() - begin:.2f} s")
        begin = time.monotonic()
        for b in BROKERS:
            b.start()
        until("ready", lambda: all(b.ready() for b in BROKERS), begin)
        row(f"start of all three after {name}: ready", f"{time.monotonic() - begin:.2f} s")
        until("all in sync", lambda: all_in_sync(n), begin)
        row(f"start of all three after {name}: all led and in sync", f"{time.monotonic() - begin:.2f} s")
    for b in BROKERS:
        b.end(signal.SIGTERM)


def changes(what, idle, change):
    """Prints the CPU of one of CHANGES changes on each broker, without what an idle broker needs."""
    profile(what.split()[0], max(CHANGES * 0.03, 1))
    before, begin = [b.cpu() for b in BROKERS], time.monotonic()
    for i in range(CHANGES):
        change(i)
    time.sleep(1)
    seconds = time.monotonic() - begin
    each(f"{what}: CPU of each broker", [(b.cpu() - was - i * seconds) / CHANGES for b, was, i in zip(BROKERS, before, idle)], " ms", 2)


if __name__ == "__main__":
    sizes = [int(a.replace(",", "")) for a in sys.argv[1:]] or [10, 10000]
    for size in sizes:
        workdir = tempfile.mkdtemp(prefix="chronik-scale.")
        first = os.environ.get("CHRONIK_PORT")
        numbers = ([int(first) + i for i in range(6)] if first else
                   subprocess.run([sys.executable, f"{ROOT}/scripts/free-ports.py", "6"], capture_output=True, text=True,
                                  check=True).stdout.split())
        SEEDS = ",".join(f"127.0.0.1:{port}" for port in numbers[:3])
        BROKERS = [Broker(i + 1, (numbers[i], numbers[i + 3]), SEEDS, workdir) for i in range(3)]
        try:
            measure(size)
        finally:
            for broker in BROKERS:
                if broker.process and broker.process.poll() is None:
                    broker.process.kill()
                    broker.process.wait()
            shutil.rmtree(workdir)
