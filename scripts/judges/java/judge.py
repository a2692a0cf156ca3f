"""judge.py NAME ARTIFACT PREFIX   runs the test classes of Kafka's test jar ARTIFACT whose names begin
with PREFIX against chronik, and writes $OUT/NAME.tsv (scripts/judges/README.md).

Each class runs in a Java process of its own, whose class path begins with the classes in src: they
start chronikd in place of Kafka's brokers. NOTASKED is java/NAME.notasked, with lines
'Class # reason' or 'Class.method # reason'. Environment:

KT_LOG=INFO      the level of the tests' log; some tests read their log, and need INFO
JOBS=2           classes that run at the same time
CLASSES=REGEXP   the classes to run
KAFKA=1          Kafka's own brokers instead of chronik's, to compare
LIMIT=1200       seconds that a class may take; then its processes are killed, and the case that ran fails
"""

import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import zipfile

here = pathlib.Path(__file__).resolve().parent
root = here.parents[2]
name, artifact, prefix = sys.argv[1:]
out = pathlib.Path(os.environ["OUT"])
cases = os.environ.get("CASES", "")
limit = int(os.environ.get("LIMIT", "1200"))
not_asked_file = here / f"{name}.notasked"
lock = threading.Lock()
running = set()


def java(program):
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/{program}" if home else program


def class_path():
    """Returns the class path that Maven finds for pom.xml. Kept, because that takes seconds."""
    version = re.search(r"<kafka.version>(.*?)<", (here / "pom.xml").read_text())[1]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / f"chronik-judges-{version}"
    cache.mkdir(parents=True, exist_ok=True)
    found = cache / "classpath"
    if not found.exists() or found.stat().st_mtime < (here / "pom.xml").stat().st_mtime:
        new = cache / f"classpath.{os.getpid()}"
        done = subprocess.run(["mvn", "-q", "-B", "-f", here / "pom.xml", "dependency:build-classpath", f"-Dmdep.outputFile={new}"],
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{name}: no class path of Kafka's tests: {done.stdout[-2000:]}")
        os.utime(new)
        new.replace(found)
    return found.read_text().strip()


def test_classes(path):
    """Returns the classes of the test jar that may have cases."""
    jar = next(entry for entry in path.split(":") if re.search(rf"/{artifact}-[^/]*-test\.jar$", entry))
    names = [entry[:-len(".class")].replace("/", ".") for entry in zipfile.ZipFile(jar).namelist() if entry.endswith(".class")]
    return sorted(found for found in names if found.startswith(prefix) and "$" not in found and "Test" in found.rsplit(".", 1)[1])


def not_asked():
    """Returns a dict of class to reason, of the classes of which no case is asked."""
    found = {}
    for line in not_asked_file.read_text().splitlines():
        entry, _, reason = line.partition(" # ")
        if not line.startswith("#") and reason and "." not in entry:
            found[entry.strip()] = reason.strip()
    return found


def run(full, path, classes):
    """Runs a class, and returns its lines (case, result, reason) and the settings that chronik refused."""
    short = full.rsplit(".", 1)[1]
    logs = out / "logs" / short
    logs.mkdir(parents=True)
    results = logs / "results"
    temporary = tempfile.mkdtemp(prefix="chronik-judge-")
    command = [java("java"), "-Xmx1g", "-XX:+UseSerialGC", f"-Djava.io.tmpdir={temporary}",
               f"-Dlog4j2.configurationFile={root / 'scripts/kafka/log4j2.properties'}", f"-Dkt.level={os.environ.get('KT_LOG', 'INFO')}",
               f"-Djudges.chronikd={os.environ['CHRONIKD']}", f"-Djudges.logs={logs}", "-cp", f"{classes}:{path}",
               "io.chronik.judges.Judge", full, results, not_asked_file, cases]
    ended = ""
    with open(logs / "output", "wb") as output:
        # A session of its own: its brokers are of its process group, and end with it.
        process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd=temporary, start_new_session=True)
        with lock:
            running.add(process)
        try:
            if process.wait(limit) != 0:
                ended = f"the Java process ended with {process.returncode}"
        except subprocess.TimeoutExpired:
            ended = f"the class took more than {limit} s"
        finally:
            kill(process)
            with lock:
                running.discard(process)
            shutil.rmtree(temporary, ignore_errors=True)
    lines, begun, settings, complete = [], set(), [], False
    for line in results.read_text().splitlines() if results.exists() else []:
        case, result, reason = line.split("\t", 2)
        if result == "begun":
            begun.add(case)
        elif result == "setting":
            settings.append(reason)
        elif result == "end":
            complete = True
        else:
            begun.discard(case)
            lines.append((case, result, reason))
    lines += [(case, "fail", ended or "it did not end") for case in sorted(begun)]
    if not complete and not begun:
        lines.append((short, "fail", ended or "it did not end"))
    errors = []
    for log in sorted(logs.glob("cluster-*.log")):
        errors += [f"{log.name}: {line[:500]}" for line in log.read_text(errors="replace").splitlines()
                   if re.search(r'"level":"(error|dpanic|panic|fatal)"|^panic:|^fatal error:', line) and '"logger":"health"' not in line]
    return lines, settings, errors


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def stop(*_):
    with lock:
        for process in running:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    os._exit(143)


def main():
    for program in ("mvn", java("java"), java("javac")):
        if not shutil.which(program):
            print(f"{name}: {program} is not installed: it needs Java 17 with its compiler, and Maven")
            sys.exit(77)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    path = class_path()
    classes = out / "classes"
    subprocess.run([java("javac"), "-nowarn", "-d", classes, "-cp", path, *(here / "src").rglob("*.java")], check=True)
    if os.environ.get("KAFKA"):
        shutil.rmtree(classes / "org")
    skipped = not_asked()
    todo, refused, faults = [], {}, {}
    with open(out / f"{name}.tsv", "w") as tsv, concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", "2"))) as pool:
        def write(lines):
            for line in lines:
                tsv.write("\t".join(line) + "\n")
            tsv.flush()
        for full in test_classes(path):
            short = full.rsplit(".", 1)[1]
            if not re.search(os.environ.get("CLASSES", ""), short):
                continue
            if short in skipped:
                if not cases:
                    write([(short, "notasked", skipped[short])])
                continue
            todo.append(full)
        futures = {pool.submit(run, full, path, classes): full.rsplit(".", 1)[1] for full in todo}
        for future in concurrent.futures.as_completed(futures):
            lines, settings, errors = future.result()
            write(lines)
            for setting in settings:
                refused.setdefault(setting, []).append(futures[future])
            if errors:
                faults[futures[future]] = errors
            count = {result: sum(1 for line in lines if line[1] == result) for result in ("pass", "fail", "skip", "notasked")}
            print(f"{name}: {futures[future]}: " + ", ".join(f"{number} {result}" for result, number in count.items()), flush=True)
    for setting, users in sorted(refused.items()):
        print(f"{name}: chronik left out {setting}, for {', '.join(sorted(users))}")
    for short, errors in sorted(faults.items()):
        for error in errors[:5]:
            print(f"{name}: {short}: a broker logged: {error}")


main()
