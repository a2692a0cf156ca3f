"""bench-store.py [ROW...]   what the object store costs: snapshots and tiered storage, on this machine.

ROW (default: all):
  bystanders  a producer's latency: undisturbed, during a first snapshot of other records, during one
              with a limited rate, and with snapshots at an interval
  load        throughput and CPU in a closed loop: without snapshots, and with them at an interval
  copy        upload, verify and restore, compared with cp, sync and cat of as many bytes
  tier        reads of old records from the store, compared with the local log and with cat; the
              latency of a tail, and of a producer, meanwhile and while records are copied
  idle        what a round costs a broker with 10,000 idle partitions that have remote.storage.enable

SIZE=512M         bytes of records that are snapshotted, copied and read.
DURATION=6        seconds of each measurement that has no end of its own.   ROUNDS=1   of each comparison.
INTERVAL=4        seconds between two snapshots of bystanders and load, which then last for three of them.
RATE=10000 MESSAGE=2500   the bystander: requests per second on 64 connections, and bytes of each.
LIMIT=50000000    snapshot.bytes.per.second where it is limited.   PARTITIONS=10000   of the row idle.
CHRONIKD, CHRONIKCTL, CHRONIK_BENCH   the programs (default those in bin/).   JSON=FILE   figures as JSON, too.

The broker and its store, a directory, are below TMPDIR, so on one disk. It needs space of four times
SIZE, and 10 GB for what the loads write. Progress goes to the standard error. Medians of the rounds
are printed, with the smallest and the largest. "Not cached" means that the kernel was asked to drop
the pages of these files (posix_fadvise); the host of a virtual machine may have them still. The
daily verification is off. The defaults take about five minutes. One snapshot a minute, with more
records:  make bench-store SIZE=4G DURATION=30 INTERVAL=60 ROUNDS=3
"""

import contextlib
import datetime
import glob
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CHRONIKD = os.environ.get("CHRONIKD", ROOT + "/bin/chronikd")
CHRONIKCTL = os.environ.get("CHRONIKCTL", ROOT + "/bin/chronikctl")
BENCH = os.environ.get("CHRONIK_BENCH", ROOT + "/bin/chronik-bench")


def size(text):
    """The bytes of a text such as 512M or 1G, in powers of 1,024."""
    m = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not m:
        sys.exit(f"bench-store: {text} is no size such as 512M")
    return int(m.group(1)) * 1024 ** " KMG".index(m.group(2) or " ")


SIZE = size(os.environ.get("SIZE", "512M"))
DURATION = float(os.environ.get("DURATION", "6"))
ROUNDS = int(os.environ.get("ROUNDS", "1"))
INTERVAL = float(os.environ.get("INTERVAL", "4"))
SPAN = max(DURATION, 3 * INTERVAL)  # of what has snapshots at an interval
RATE = int(os.environ.get("RATE", "10000"))
MESSAGE = int(os.environ.get("MESSAGE", "2500"))
LIMIT = int(os.environ.get("LIMIT", "50000000"))
PARTITIONS = int(os.environ.get("PARTITIONS", "10000"))
WARMUP = 2  # seconds before each measurement of a load
WAIT = 600  # seconds after which a state that is awaited counts as an error
FILL_RATE = 100_000  # records of 1 KiB per second
# Old records of every SIZE fill segments. What a load writes while it waits for something has a bound.
SMALL = {"segment.bytes": min(64 << 20, SIZE >> 5), "file.delete.delay.ms": 1000}
BOUNDED = SMALL | {"segment.bytes": 64 << 20, "retention.bytes": 512 << 20}

WORK = ""  # the directory of this run
RUNNING = []  # processes to end
QUANTILES = ("p50", "p99", "p99_9", "max")
LATENCIES, FIGURES = {}, {}  # of all rows


def say(text):
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


def until(what, done):
    """Waits for a state, and returns the seconds that it took."""
    begin = time.monotonic()
    while not done():
        if time.monotonic() - begin > WAIT:
            sys.exit(f"bench-store: not within {WAIT} s: {what}")
        time.sleep(0.2)
    return time.monotonic() - begin


def start(args, **kw):
    process = subprocess.Popen(args, **kw)
    RUNNING.append(process)
    return process


def end(process, sig):
    """Ends a process, and returns its exit status."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(sig)
    try:
        status = process.wait(WAIT)
    except subprocess.TimeoutExpired:
        process.kill()
        status = process.wait()
    RUNNING.remove(process)
    return status


def timed(*args):
    """Runs a program, and returns the seconds that it took and its output. What else it says is printed."""
    begin = time.monotonic()
    process = start(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, said = process.communicate()
    RUNNING.remove(process)
    if process.returncode != 0:
        sys.exit(f"bench-store: {' '.join(args)}: {out}{said}")
    for line in said.splitlines():
        say(f"{os.path.basename(args[0])}: {line}")
    return time.monotonic() - begin, out


class Broker:
    """A process of chronikd with its directory, and with its store in another one."""

    def __init__(self, name, **settings):
        out = timed(sys.executable, f"{ROOT}/scripts/free-ports.py", "2")[1].split()
        self.listen, self.admin = f"127.0.0.1:{out[0]}", f"127.0.0.1:{out[1]}"
        self.dir, self.store = f"{WORK}/{name}", f"{WORK}/{name}.store"
        self.settings = {"snapshot.interval.ms": 0, "snapshot.verify.interval.ms": 0, "log.retention.check.interval.ms": 1000,
                         "remote.log.manager.task.interval.ms": 1000} | settings
        self.process, self.topics = None, 0

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.process:
            self.stop()
        for d in glob.glob(f"{self.dir}*"):
            shutil.rmtree(d) if os.path.isdir(d) else os.remove(d)

    def start(self, **settings):
        """Starts it, with an empty store if the directory is missing."""
        os.makedirs(self.store, exist_ok=True)
        every = self.settings | settings | {"archive.url": f"file://{self.store}"}
        with open(f"{self.dir}.log", "ab") as log:
            self.process = start([CHRONIKD, "--data-dir", self.dir, "--listen", self.listen, "--admin-listen", self.admin]
                                 + [f"--set={k}={v}" for k, v in every.items()], stderr=log)
        until("the broker is ready", self.ready)

    def stop(self):
        end(self.process, signal.SIGTERM)
        self.process = None

    def again(self, **settings):
        """Restarts it with a store that has only the mark of the cluster, so that its next snapshot is a first one."""
        self.stop()
        for d in glob.glob(f"{self.store}/*/*"):
            if os.path.basename(d) != "store":
                shutil.rmtree(d) if os.path.isdir(d) else os.remove(d)
        os.sync()
        self.start(**settings)

    def ready(self):
        if self.process.poll() is not None:
            with open(f"{self.dir}.log", encoding="utf-8") as log:
                sys.exit(f"bench-store: chronikd has ended:\n{log.read()}")
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://{self.admin}/readyz", timeout=10).close()
            return True
        return False

    def metric(self, name):
        with urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=10) as answer:
            return float(re.search(rf"^{name} (\S+)$", answer.read().decode(), re.MULTILINE).group(1))

    def ctl(self, *args):
        """Runs chronikctl, and returns the seconds that it took and its output."""
        return timed(CHRONIKCTL, "--brokers", self.listen, "--admin", "off", "--timeout", f"{WAIT}s", *args)

    def snapshot(self):
        """Takes one, and returns the seconds until it was complete, and what the store says of it."""
        seconds, out = self.ctl("snapshot", "create", "-o", "json")
        return seconds, json.loads(out)

    def cpu(self):
        """Seconds of processor time, user and system, with the kernel's resolution of nanoseconds."""
        total = 0
        for path in glob.glob(f"/proc/{self.process.pid}/task/*/schedstat"):
            with contextlib.suppress(OSError), open(path, encoding="ascii") as f:  # the thread may have ended
                total += int(f.read().split()[0])
        return total / 1e9

    def bench(self, *args, topic, seconds=DURATION, warmup=WARMUP, polite=False):
        """Starts chronik-bench; polite: it gets a processor only if nothing else needs it."""
        command = ["chrt", "-i", "0"] if polite and shutil.which("chrt") else []
        command += [BENCH, "--bootstrap-servers", self.listen, "--admin", "off", "--server-pid", str(self.process.pid), "--json",
                    "--topic", topic, "-d", f"{seconds:.1f}s", "--warmup", f"{warmup}s", *args]
        return start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def fill(self, topic, n, **configs):
        """Writes n bytes of records of 1 KiB, and waits until the disk has nothing left to write."""
        say(f"{topic}: {n / 1e6:,.0f} MB of records are written")
        flags = [f"--topic-config={k}={v}" for k, v in (SMALL | configs).items()]
        result(self.bench("--create-topic", "--partitions", "4", "--batched", "-s", "1024", "--rate", str(FILL_RATE), *flags,
                          topic=topic, seconds=n / 1024 / FILL_RATE, warmup=0))
        os.sync()

    def producer(self, topic, seconds, **configs):
        flags = [f"--topic-config={k}={v}" for k, v in (BOUNDED | configs).items()]
        return self.bench("--create-topic", "--partitions", "4", "-c", "64", "-s", str(MESSAGE), "--rate", str(RATE), *flags,
                          topic=topic, seconds=seconds)

    def produced(self, seconds=DURATION, **configs):
        """The latency of the bystander, in a topic of its own that is deleted."""
        self.topics += 1
        topic = f"bystander-{self.topics}"
        got = result(self.producer(topic, seconds, **configs))
        self.ctl("topic", "delete", topic, "--yes")
        return got

    def during(self, what):
        """The latency of the bystander while what runs, and what that returns."""
        self.topics += 1
        topic = f"bystander-{self.topics}"
        load = self.producer(topic, WAIT)
        time.sleep(WARMUP + 0.5)
        returned = what()
        got = result(load, signal.SIGINT)
        self.ctl("topic", "delete", topic, "--yes")
        return got, returned


def result(load, sig=None):
    """The document of a load that ends, or that a signal ends."""
    if sig:
        load.send_signal(sig)
    out, err = load.communicate()
    RUNNING.remove(load)
    try:
        document = json.loads(out)
    except ValueError:
        sys.exit(f"bench-store: {' '.join(load.args)}: {err or out}")
    for flow in document["flows"]:
        if flow["failures"]:
            say(f"FAILURES of {flow['name']}: {flow['failures']}")
    return document


def files(directory):
    return [f for f in glob.glob(f"{directory}/**", recursive=True) if os.path.isfile(f)]


def uncached(*directories):
    """Asks the kernel to drop the pages of files. Anyone may do that for files that he can read."""
    os.sync()
    for path in [f for d in directories for f in files(d)]:
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def bytes_of(*directories):
    return sum(os.path.getsize(f) for d in directories for f in files(d))


def note(row, name, value, unit, form="{:,.1f}"):
    """Adds a figure. Figures of the same name are those of rounds."""
    FIGURES.setdefault(row, {}).setdefault(name, {"unit": unit, "form": form, "values": []})["values"].append(value)
    say(f"{name}: {form.format(value)} {unit}")


def note_latency(row, name, document, flow="produce"):
    """Adds quantiles in ms: a line of the table of latencies."""
    got = next(f for f in document["flows"] if f["name"] == flow)["latency"]
    values = [got[f"{q}_us"] / 1000 for q in QUANTILES]
    for of, value in zip(LATENCIES.setdefault(row, {}).setdefault(name, {q: [] for q in QUANTILES}).values(), values):
        of.append(value)
    say(f"{name}: " + ", ".join(f"{q} {v:,.2f}" for q, v in zip(QUANTILES, values)) + f" ms, of {got['count']:,}")


def note_rate(row, name, n, seconds):
    note(row, name, n / seconds / 1e6, "MB/s", "{:,.0f}")


def note_cpu(row, name, seconds, n):
    note(row, f"{name}: CPU of the broker", seconds / n * 1e9, "s/GB", "{:.2f}")


def cell(values, form):
    """The median, and the smallest and the largest if there are several."""
    text = form.format(statistics.median(values))
    if len(values) > 1:
        text += f" ({form.format(min(values))}–{form.format(max(values))})"
    return text


def table(row, title):
    print(f"\n## {row}: {title}")
    if row in LATENCIES:
        print("\n| latency, ms | p50 | p99 | p99.9 | max |\n|---|---|---|---|---|")
        for name, quantiles in LATENCIES[row].items():
            print(f"| {name} | " + " | ".join(cell(v, "{:,.2f}") for v in quantiles.values()) + " |")
    if row in FIGURES:
        print("\n| figure | |\n|---|---|")
        for name, f in FIGURES[row].items():
            print(f"| {name} | {cell(f['values'], f['form'])} {f['unit']} |")
    sys.stdout.flush()


@contextlib.contextmanager
def snapshots(broker):
    """Takes a snapshot at each INTERVAL meanwhile. The list gets the seconds and the bytes of each."""
    taken, stop, failed = [], threading.Event(), []

    def take():
        while not failed and not stop.wait(max(INTERVAL - (taken[-1][0] if taken else 0), 0.1)):
            try:
                seconds, snapshot = broker.snapshot()
                taken.append((seconds, snapshot["uploadedBytes"]))
            except (SystemExit, Exception) as e:  # or the row would have figures without these snapshots
                failed.append(e)

    thread = threading.Thread(target=take)
    thread.start()
    try:
        yield taken
    finally:
        stop.set()
        thread.join()
    for e in failed:
        raise e


def note_snapshots(row, name, taken):
    note(row, f"{name}: seconds of a snapshot", statistics.mean(s for s, _ in taken), "s", "{:,.2f}")
    note(row, f"{name}: uploaded by each", statistics.mean(n for _, n in taken) / 1e6, "MB", "{:,.0f}")


def row_bystanders():
    """p99 of a producer of {rate:,} requests/s of {message:,} B, acks=all, in {mb:.0f} MB/s; other records: {size}"""
    row = "bystanders"
    with Broker(row) as b:
        b.fill("other", SIZE)
        for _ in range(ROUNDS):
            b.again()
            note_latency(row, "undisturbed", b.produced())
            got, (seconds, snapshot) = b.during(b.snapshot)
            note_latency(row, "first snapshot", got)
            note_rate(row, "first snapshot: upload", snapshot["uploadedBytes"], seconds)
            note(row, "first snapshot: its duration", seconds, "s")
            note_latency(row, "undisturbed", b.produced())
            with snapshots(b) as taken:
                got = b.produced(SPAN)
            note_latency(row, f"a snapshot every {INTERVAL:.0f} s", got)
            note_snapshots(row, f"a snapshot every {INTERVAL:.0f} s", taken)
            b.again(**{"snapshot.bytes.per.second": LIMIT})
            note_latency(row, "undisturbed", b.produced())
            got, (seconds, _) = b.during(b.snapshot)
            note_latency(row, f"first snapshot, {LIMIT / 1e6:.0f} MB/s at most", got)
            note(row, f"first snapshot, {LIMIT / 1e6:.0f} MB/s at most: its duration", seconds, "s")


def row_load():
    """128 connections with one record of 256 B in flight each, acks=all; a snapshot every {interval:.0f} s"""
    row, load = "load", ("--create-topic", "--topic-config", "file.delete.delay.ms=1000", "-c", "128", "-s", "256")
    with Broker(row) as b:
        for i in range(2 * ROUNDS):
            b.again()
            name = f"a snapshot every {INTERVAL:.0f} s" if i % 2 else "no snapshots"
            with snapshots(b) if i % 2 else contextlib.nullcontext() as taken:
                got = result(b.bench(*load, topic=f"load-{i}", seconds=SPAN))
            note(row, f"{name}: requests", got["flows"][0]["requests_per_second"], "/s", "{:,.0f}")
            note(row, f"{name}: CPU of the broker", got["server_cpu"]["seconds"] / got["elapsed_seconds"], "s/s", "{:.3f}")
            note(row, f"{name}: CPU of the broker per request", got["server_cpu"]["per_request_us"], "µs", "{:.2f}")
            note_latency(row, name, got)
            if taken is not None:
                note_snapshots(row, name, taken)
            b.ctl("topic", "delete", f"load-{i}", "--yes")
            time.sleep(2)  # until its files are deleted


def row_copy():
    """upload, verify and restore of {size}, compared with cp, sync and cat of as many bytes"""
    row = "copy"
    with Broker(row) as b:
        b.fill("records", SIZE)
        logs = glob.glob(f"{b.dir}/logs/records-*")
        for _ in range(ROUNDS):
            for cache in ("cached", "not cached"):
                b.again()
                fresh(cache, *logs)
                cp(row, f"cp and sync of the log, {cache}", logs, f"{b.dir}.copy")
                fresh(cache, *logs)
                before = b.cpu()
                seconds, snapshot = b.snapshot()
                note_rate(row, f"first snapshot, {cache}", snapshot["uploadedBytes"], seconds)
                note_cpu(row, f"first snapshot, {cache}", b.cpu() - before, snapshot["uploadedBytes"])
                stored = glob.glob(f"{b.store}/*")
                fresh(cache, *stored)
                cat(row, f"cat of the objects, {cache}", stored)
                fresh(cache, *stored)
                seconds, _ = b.ctl("snapshot", "verify", str(snapshot["number"]))
                note_rate(row, f"snapshot verify, {cache}", snapshot["bytes"], seconds)
                fresh(cache, *stored)
                cp(row, f"cp and sync of the objects, {cache}", stored, f"{b.dir}.copy")
                fresh(cache, *stored)
                seconds, _ = timed(CHRONIKD, "restore", f"file://{b.store}", "--data-dir", f"{b.dir}.restored", "--admin-listen", "off")
                note_rate(row, f"restore, {cache}", snapshot["bytes"], seconds)
                shutil.rmtree(f"{b.dir}.restored")
                os.sync()


def fresh(cache, *directories):
    if cache == "cached":
        cat(None, "", directories)
    else:
        uncached(*directories)


def cp(row, name, sources, target):
    """Times a copy until it is durable, and removes it."""
    os.makedirs(target)
    seconds = timed("sh", "-c", 'cp -r "$@" && sync -f "$0"', target, *sources, target)[0]
    note_rate(row, name, bytes_of(target), seconds)
    shutil.rmtree(target)
    os.sync()


def cat(row, name, directories):
    paths = [f for d in directories for f in files(d)]
    seconds = timed("sh", "-c", 'cat "$@" >/dev/null', "cat", *paths)[0]
    if row:
        note_rate(row, name, sum(os.path.getsize(f) for f in paths), seconds)


def read(row, b, name, place):
    """Reads a topic from its start: raw fetches, and a consumer that decodes. What is not cached is not read twice."""
    for clients in ("own", "batched"):
        what = f"{name}, {'raw fetches' if clients == 'own' else 'decoded'}"
        flags = ("--mode", "consume", "--clients", clients, "-c", "1", "-s", "1024")
        got = result(b.bench(*flags, topic="records", warmup=1))
        rate = got["flows"][0]["payload_bytes_per_second"]
        note_rate(row, f"{what}, cached", rate, 1)
        note_cpu(row, f"{what}, cached", got["server_cpu"]["seconds"], rate * got["elapsed_seconds"])
        uncached(place)
        got = result(b.bench(*flags, topic="records", seconds=max(min(SIZE / rate / 2, DURATION), 0.3), warmup=0))
        note_rate(row, f"{what}, not cached", got["flows"][0]["payload_bytes_per_second"], 1)


def tail(row, b, name, reads):
    """The latency of a tail, without and with a consumer that reads the topic from its start as fast as it can."""
    for disturbed in (False, True):
        reader = b.bench("--mode", "consume", "-c", "1", topic="records", seconds=WAIT, polite=True) if disturbed else None
        got = result(b.bench("--create-topic", "--mode", "e2e", "-c", "16", "-s", "256", "--rate", "5000", topic="tail"))
        title = f"tail {'next to ' + name if disturbed else 'undisturbed'}"
        note_latency(row, f"{title}, send to receive", got, "end-to-end")
        note_latency(row, f"{title}, producer", got)
        if reader:
            rate = result(reader, signal.SIGINT)["flows"][0]["payload_bytes_per_second"]
            reads.append(rate)
            note_rate(row, f"{name} next to a tail", rate, 1)


def row_tier():
    """reads of {size} from the store and from the local log; latencies of a tail meanwhile, and of a producer during copies"""
    row, tiered = "tier", {"remote.storage.enable": "true", "local.retention.bytes": 1}
    for _ in range(ROUNDS):
        with Broker(row) as b:
            b.fill("records", SIZE)
            read(row, b, "local log", f"{b.dir}/logs")
            tail(row, b, "a reader of the local log", [])
            note_latency(row, "producer undisturbed", b.produced())
            got, seconds = b.during(lambda: copied(b, tiered))
            note_latency(row, "producer while other records are copied", got)
            note_rate(row, "copies of other records", b.metric("chronik_tier_copied_bytes_total"), seconds)
            note_latency(row, "producer undisturbed", b.produced())
            note_latency(row, "producer whose own records are copied", b.produced(**tiered))
            only_tiered(b)
            objects = glob.glob(f"{b.store}/*/log")
            uncached(*objects)
            cat(row, "cat of the objects, not cached", objects)
            cat(row, "cat of the objects, cached", objects)
            before = b.metric("chronik_tier_read_bytes_total")
            read(row, b, "store", b.store)
            if b.metric("chronik_tier_read_bytes_total") == before:
                sys.exit("bench-store: nothing was read from the store")
            tail(row, b, "a reader of the store", [])


def copied(b, configs):
    """Enables tiered storage, and returns the seconds from the first copy until there is no more to copy."""
    b.ctl("topic", "alter", "records", *[f"--config={k}={v}" for k, v in configs.items()])
    until("copies begin", lambda: b.metric("chronik_tier_lag_bytes") > 0 or b.metric("chronik_tier_copied_bytes_total") > 0)
    return until("all is copied", lambda: b.metric("chronik_tier_lag_bytes") == 0)


def only_tiered(b):
    """Makes the local log of all records as short as it can be: a few records roll the active segments."""
    b.ctl("topic", "alter", "records", "--config=segment.ms=1000")
    time.sleep(1.5)
    for _ in range(2):
        result(b.bench("--batched", "-c", "4", "-s", "1024", "--rate", "1000", topic="records", seconds=1, warmup=0))
        time.sleep(1.5)
    b.ctl("topic", "alter", "records", "--config=segment.ms=604800000")

    def local():
        topic = json.loads(b.ctl("topic", "describe", "records", "-o", "json")[1])[0]
        return topic["sizeBytes"]

    until("only the store has old records", lambda: local() < SIZE / 50)
    say(f"{local() / 1e6:,.1f} MB of the records are on the local disk")


def row_idle():
    """{partitions:,} partitions without traffic, for {duration:.0f} s; remote.log.manager.task.interval.ms=1000"""
    row = "idle"
    with Broker(row) as b:
        idle = {}
        for name, flags in (("not tiered", ()), ("tiered", ("--config", "remote.storage.enable=true"))):
            before = b.cpu()
            if name == "not tiered":
                b.ctl("topic", "create", "many", "--partitions", str(PARTITIONS))
            else:
                b.ctl("topic", "alter", "many", *flags)
                until("all are tiered", lambda: b.metric("chronik_tier_partitions") == PARTITIONS)
            settled(b)
            note(row, f"{name}: CPU until it is idle", b.cpu() - before, "s", "{:.2f}")
            for _ in range(ROUNDS):
                before = b.cpu()
                time.sleep(DURATION)
                idle[name] = (b.cpu() - before) / DURATION
                note(row, f"{name}: CPU, of a core", idle[name] * 100, "%", "{:.2f}")
        note(row, "a round over all partitions", (idle["tiered"] - idle["not tiered"]) * 1000, "ms", "{:.2f}")
        note(row, "with the default interval of 30 s, of a core", (idle["tiered"] - idle["not tiered"]) / 30 * 100, "%", "{:.3f}")


def settled(b):
    """Waits until what a change has caused is over: the processor time of five seconds falls no further."""
    last, now = float("inf"), 5.0
    while now < 0.9 * last:
        last, before = now, b.cpu()
        time.sleep(5)
        now = b.cpu() - before


ROWS = {"bystanders": row_bystanders, "load": row_load, "copy": row_copy, "tier": row_tier, "idle": row_idle}


def main(names):
    wrong = [n for n in names if n not in ROWS]
    if wrong:
        sys.exit(f"bench-store: there is no row {wrong[0]}; there are: {' '.join(ROWS)}")
    free = shutil.disk_usage(WORK).free
    need = 4 * SIZE + 10e9
    if free < need:
        sys.exit(f"bench-store: {WORK} has {free / 1e9:.1f} GB of free space, and {need / 1e9:.1f} GB are needed; set SIZE or TMPDIR")
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        cpu = re.search(r"model name\s*: (.*)", f.read())
    machine = f"{os.cpu_count()} CPUs, {cpu.group(1) if cpu else '?'}, Linux {os.uname().release}, {datetime.date.today()}"
    print(f"machine: {machine}, load {os.getloadavg()[0]:.2f} at the beginning, {WORK}")
    texts = {"rate": RATE, "message": MESSAGE, "mb": RATE * MESSAGE / 1e6, "size": f"{SIZE / 1e9:.2f} GB", "interval": INTERVAL,
             "partitions": PARTITIONS, "duration": DURATION}
    for name in names or ROWS:
        say(f"row {name}")
        ROWS[name]()
        table(name, ROWS[name].__doc__.format(**texts))
    if os.environ.get("JSON"):
        with open(os.environ["JSON"], "w", encoding="utf-8") as f:
            json.dump({"machine": machine, "settings": texts, "rounds": ROUNDS, "latencies_ms": LATENCIES, "figures": FIGURES},
                      f, indent=2, ensure_ascii=False)


def interrupted(*_):
    sys.exit(130)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupted)
    signal.signal(signal.SIGINT, interrupted)
    WORK = tempfile.mkdtemp(prefix="chronik-store.")
    try:
        main(sys.argv[1:])
    finally:
        for running in list(RUNNING):
            running.kill()
            running.wait()
        shutil.rmtree(WORK, ignore_errors=True)
