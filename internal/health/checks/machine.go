package checks

import (
	"fmt"
	"math"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
)

func hostChecks() []Check {
	return []Check{
		{Name: "files", run: checkFiles,
			Doc: "Whether the process may open enough files: each connection needs up to two, and each segment in use one; at the limit, connections are refused and partitions fail."},
		{Name: "memory", run: checkMemory,
			Doc: "Whether the broker's memory use, its budgets and the Go runtime's limit fit into the container's memory limit, and whether memory is swapped. A broker that is killed or swapped out answers no requests."},
		{Name: "clock", run: checkClock,
			Doc: "Whether the clock is synchronized, and whether it has jumped recently: retention by time, timestamps of LogAppendTime and searches by time depend on it."},
		{Name: "boot", run: checkBoot,
			Doc: "Whether the broker can tell a crash of its process from one of the machine, by the kernel's boot id. If not, records that were not synced count as lost after each crash."},
	}
}

// Thresholds of the checks of the machine.
const (
	filesBase   = 64   // files of the process itself: listeners, pollers, metadata, the log
	filesOfConn = 2    // per connection: the broker may duplicate its socket's
	filesOfDir  = 8    // per log directory in addition to segments: journal files, locks
	connections = 1000 // that should be possible: a client has two or three
	usedMuch    = 0.8  // of the limit of open files
	usedUp      = 0.95 // of it: connections and segments are refused soon

	residentMuch = 0.95     // of the container's limit
	budgetsMuch  = 0.7      // of the available memory: the Go heap may have 0.8, and the broker needs some for itself
	swappedMuch  = 64 << 20 // less is unused memory

	steppedFor = time.Hour // how long a clock that was set is reported
	stepped    = 5 * time.Second
)

// moreFiles restarts the broker.
const moreFiles = "raise it and restart: LimitNOFILE=1048576 in the unit (systemctl edit chronikd), --ulimit nofile=1048576:1048576 for a container, ulimit -n in a shell"

const moreMemory = "raise the limit: --memory of the container, MemoryMax of the unit"

func checkFiles(f *Facts, n *notes) {
	limit, open := f.Files.Limit, f.Files.Open
	if limit <= 0 {
		return
	}
	const subject = "limit of open files"
	n.see(fmt.Sprintf("%d of %d files are open", open, limit))
	raise := func(severity health.Severity, x health.Finding, problem string) {
		x.Severity, x.Problem, x.Remedy, x.Stops = severity, problem, moreFiles, true
		n.addFinding(x)
	}
	all := health.Finding{Subject: subject}
	switch used := float64(open) / float64(limit); {
	case used >= usedUp:
		raise(health.Bad, all,
			fmt.Sprintf("%d of %d files are open: new connections and segments are refused, or soon will be", open, limit))
		return
	case used >= usedMuch:
		raise(health.Warn, all,
			fmt.Sprintf("%d of %d files are open: at the limit new connections and segments are refused", open, limit))
		return
	}
	if len(f.Dirs) == 0 {
		return // the need is not known yet
	}
	segments := make([]int, len(f.Dirs))
	for i, d := range f.Dirs {
		segments[i] = d.MaxOpenFiles
	}
	room, need := connectionLimit(limit, segments), connections
	if f.Files.MaxConnections > 0 && f.Files.MaxConnections < math.MaxInt32 {
		need = f.Files.MaxConnections
	}
	if room < need {
		why := fmt.Sprintf("about %d clients", room/3)
		if need != connections {
			why = fmt.Sprintf("max.connections is %d", need)
		}
		raise(health.Warn, all,
			fmt.Sprintf("the process may open %d files, which leaves %d for connections in addition to segments (%s)", limit, room, why))
	}
	for _, d := range f.Dirs {
		// If the segments use half of the limit, a higher limit would let more of them stay open.
		if half := 2*len(f.Dirs)*(d.MaxOpenFiles+1) > limit; half && d.Logs > d.MaxOpenFiles {
			raise(health.Warn, health.OfDir(d.Path),
				fmt.Sprintf("it has %d partitions and keeps %d segments open, because the process may open %d files: "+
					"writing to all of them syncs and closes a segment for each one that is opened", d.Logs, d.MaxOpenFiles, limit))
		}
	}
}

// connectionLimit returns how many connections have file descriptors if the process may open limit
// files and keeps the given number of segments open in each log directory.
func connectionLimit(limit int, segments []int) int {
	for _, n := range segments {
		limit -= n + filesOfDir
	}
	return max(limit-filesBase, 0) / filesOfConn
}

// Connections returns the maximum number of connections of a broker: see connectionLimit, but at
// least an eighth of the limit, since segments are rarely all open. It returns 0 if the limit is
// unknown.
func Connections(limit int, segments []int) int {
	return max(connectionLimit(limit, segments), limit/8)
}

func checkMemory(f *Facts, n *notes) {
	m := f.Memory
	if m.Resident > 0 {
		used := fmt.Sprintf("%s of memory in use", text.Bytes(m.Resident))
		if m.Limit > 0 {
			used += " of " + text.Bytes(m.Limit)
		}
		n.see(used)
	}
	if m.Limit > 0 {
		limit := text.Bytes(m.Limit)
		if m.GoLimit > m.Limit && m.GoLimit < math.MaxInt64 {
			n.add(health.Warn, "memory",
				fmt.Sprintf(
					"GOMEMLIMIT is %s and the container's limit %s: the kernel kills the broker before the runtime limits its memory",
					text.Bytes(m.GoLimit),
					limit,
				),
				"unset GOMEMLIMIT, then it is 80 % of the container's limit, or lower it")
		}
		if float64(m.Resident) > residentMuch*float64(m.Limit) {
			n.add(health.Warn, "memory",
				fmt.Sprintf("the broker uses %s of its container's limit of %s: the kernel is about to kill it",
					text.Bytes(m.Resident), limit),
				moreMemory+", or choose a smaller produce.profile")
		}
	}
	switch there := text.Bytes(m.There); {
	case m.There <= 0:
	case float64(m.Budgets) > budgetsMuch*float64(m.There):
		n.add(health.Warn, "memory",
			fmt.Sprintf(
				"requests, responses, records that wait for segments and compaction may use %s of the available %s: with the broker's other needs that is more than the memory",
				text.Bytes(m.Budgets),
				there,
			),
			moreMemory+", or use fewer log directories")
	case m.Wanted > m.Budgets:
		n.add(health.Note, "memory",
			fmt.Sprintf(
				"requests, responses, records that wait for segments and compaction may use %s of the available %s, and with more memory %s: under load clients wait sooner, and responses are shorter",
				text.Bytes(m.Budgets),
				there,
				text.Bytes(m.Wanted),
			),
			moreMemory+"; or choose a smaller produce.profile or log.cleaner.dedupe.buffer.size, if that is enough for your load")
	}
	if m.Swapped >= swappedMuch {
		n.add(health.Warn, "memory",
			fmt.Sprintf("%s of the broker are swapped out: requests wait until they are read from the disk", text.Bytes(m.Swapped)),
			"add memory to the machine, or disable swapping for the broker: MemorySwapMax=0 in the unit, --memory-swap equal to --memory for a container")
	}
}

func checkBoot(f *Facts, n *notes) {
	switch {
	case f.Boot.Known:
		n.see("the machine's boot id is known")
	case f.Boot.Hidden:
		n.add(health.Warn, "boot id of the machine",
			"it is hidden from the broker: if the process is killed, the next start must assume that the machine lost power, "+
				"and that records of topics with chronik.durability.profile=interval or os are lost",
			"let the broker read /proc/sys/kernel/random/boot_id: ProcSubset=all in the unit, /proc mounted in a container")
	}
}

func checkClock(f *Facts, n *notes) {
	c := f.Clock
	if c.Known {
		text := "the clock is synchronized"
		if !c.Synchronized {
			text = "the clock is not synchronized"
			n.add(health.Note, "clock",
				"this machine's clock is not synchronized: retention by time, timestamps and searches by time depend on it",
				"run NTP: chrony or systemd-timesyncd")
		}
		n.see(text)
	}
	if !c.SteppedAt.IsZero() && f.Now.Sub(c.SteppedAt) < steppedFor {
		word := "forward"
		if c.Stepped < 0 {
			word = "back"
		}
		n.add(health.Warn, "clock",
			fmt.Sprintf("the clock was set %s by %v at %s: retention by time deletes records too early or too late, and timestamps jump",
				word, c.Stepped.Abs().Round(time.Second), c.SteppedAt.UTC().Format(time.RFC3339)),
			"let NTP slew it (chrony: makestep only at the start), and do not suspend this virtual machine")
	}
}

// Stepped returns by how much a clock was set between two readings, if passed elapsed between them
// on a monotonic clock; 0 if they agree.
func Stepped(before, after time.Time, passed time.Duration) time.Duration {
	by := after.Round(0).Sub(before.Round(0)) - passed
	if by.Abs() < stepped {
		return 0
	}
	return by
}
