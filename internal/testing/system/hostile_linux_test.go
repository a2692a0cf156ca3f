package system

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/security/certs"
	"github.com/chronik-io/chronik/internal/testing/hostile"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/race"
)

const (
	// hostileHeap is the victim's GOMEMLIMIT. By its own calculation it then has 320 MiB, and may
	// be killed beyond.
	hostileHeap  = 256 << 20
	hostileLimit = hostileHeap / 4 * 5
	aloneFor     = 3 * time.Second
	besideFor    = 6 * time.Second
	// hostileTime bounds the sending time of an attack, and the wait of a bystander for one
	// response in make test.
	hostileTime = time.Minute
)

// victim is a broker of its own for one attack.
type victim struct {
	*process
	t   *testing.T
	dir string // of its data
}

func startVictim(t *testing.T, args ...string) *victim {
	t.Helper()
	env := []string{"GOMEMLIMIT=" + strconv.Itoa(hostileHeap)}
	if !slices.Contains(args, "--config") {
		args = append([]string{"--listen", "127.0.0.1:0"}, args...)
	}
	args = append([]string{"--admin-listen", "127.0.0.1:0", "--set", "group.initial.rebalance.delay.ms=0",
		"--set", "offsets.topic.num.partitions=1"}, args...) // all groups share one queue
	dir := t.TempDir()
	p, err := start(dir, env, args...)
	must.OK(t, err)
	t.Cleanup(func() { _ = p.end(syscall.SIGKILL) })
	v := &victim{p, t, dir}
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	must.OK(t, hostile.Prepare(ctx, p.Addr))
	return v
}

// forAttack returns arguments that start the listener of an attack, in addition to the first one.
func forAttack(t *testing.T, a hostile.Attack) []string {
	t.Helper()
	if !a.TLS {
		return nil
	}
	dir := t.TempDir()
	ca, err := certs.NewAuthority("hostile", []string{"localhost"}, time.Now())
	must.OK(t, err)
	pair, err := ca.Leaf("broker", []string{"localhost"}, time.Now())
	must.OK(t, err)
	for name, text := range map[string]string{"server.pem": string(pair.Certificate), "server-key.pem": string(pair.Key),
		"chronikd.yaml": "listeners:\n  - listen: 127.0.0.1:0\n  - {name: tls, listen: 127.0.0.1:0, security: tls}\n" +
			fmt.Sprintf("tls: {certificate: %[1]s/server.pem, key: %[1]s/server-key.pem}\n", dir)} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return []string{"--config", filepath.Join(dir, "chronikd.yaml")}
}

// unread is the series of the answers that clients have not read, which are apart from the heap.
const unread = `chronik_budget_used_bytes{budget="unread_answers"}`

// live returns the live heap after a garbage collection, and the unread answers.
func (v *victim) live() int64 {
	v.t.Helper()
	resp, err := http.Get("http://" + v.Admin + "/debug/pprof/heap?gc=1")
	if err != nil {
		v.t.Fatalf("%v\n%s", err, v.logged())
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		v.t.Fatalf("requesting a garbage collection: %s", resp.Status)
	}
	return v.metric("go_memstats_heap_alloc_bytes") + v.metric(unread)
}

// metric returns the value of a series.
func (v *victim) metric(name string) int64 {
	v.t.Helper()
	for line := range strings.Lines(adminText(v.t, v.process, "/metrics")) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				v.t.Fatal(err)
			}
			return int64(n)
		}
	}
	v.t.Fatalf("missing metric %s", name)
	return 0
}

// disk returns how many bytes of the data directory are on the disk.
func (v *victim) disk() (n int64) {
	v.t.Helper()
	err := filepath.WalkDir(v.dir, func(path string, _ fs.DirEntry, err error) error {
		var st syscall.Stat_t
		switch {
		case err != nil || syscall.Lstat(path, &st) != nil: // a file that is gone has none
		case filepath.Ext(path) == ".journal":
			n += written(path)
		default:
			n += st.Blocks * 512
		}
		return nil
	})
	if err != nil {
		v.t.Fatal(err)
	}
	return n
}

// written returns the end of a file without the zeros that the journal writes ahead, whole files of
// them. What prepares them is an earlier write, and the limit of the journal bounds them.
func written(path string) int64 {
	f, err := os.Open(path)
	if err != nil {
		return 0 // it was renamed
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	part := make([]byte, 1<<20)
	for err == nil && size > 0 {
		part = part[:min(size, int64(cap(part)))]
		size -= int64(len(part))
		if _, err = f.ReadAt(part, size); err == nil {
			if text := bytes.TrimRight(part, "\x00"); len(text) > 0 {
				return size + int64(len(text))
			}
		}
	}
	return 0
}

// memory returns a line of /proc/PID/status in bytes.
func (v *victim) memory(line string) int64 {
	v.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.cmd.Process.Pid))
	if err != nil {
		v.t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(text, []byte(line+":"))
	kb, err := strconv.ParseInt(strings.Fields(string(rest))[0], 10, 64)
	if err != nil {
		v.t.Fatal(err)
	}
	return kb << 10
}

// attack runs an attack and returns its cost. With bystanders it measures their response times.
// Without, it only checks that each gets a response while the attack's connections are open.
func (v *victim) attack(a hostile.Attack, part, turns int, bystanders bool) hostile.Result {
	v.t.Helper()
	r := hostile.Result{Attack: a}
	ctx, cancel := context.WithTimeout(v.t.Context(), 2*hostileTime)
	defer cancel()
	if err := a.Prepare(ctx, &hostile.Attacker{Addr: v.Addr, Part: part}); err != nil {
		v.t.Fatalf("%s: prepare: %v", a.Name, err)
	}
	var control *victim
	if bystanders {
		control = startVictim(v.t)
		r.Alone = v.watch(ctx, aloneFor)
	}
	before, disk := v.live(), v.disk()
	r.Before = v.memory("VmRSS")
	begin := time.Now()
	limit := hostileTime
	if bystanders {
		limit = besideFor
	}
	addr := v.Addr
	if a.TLS {
		addr = v.More[0]
	}
	c, err := attackers(v.t, orders{Attack: a.Name, Addr: addr, Part: part, Turns: turns, For: limit})
	if err != nil {
		v.t.Fatal(err)
	}
	if bystanders {
		var wg sync.WaitGroup
		wg.Go(func() { r.Control = control.watch(ctx, besideFor) })
		r.During = v.watch(ctx, besideFor)
		wg.Wait()
		if err := control.end(syscall.SIGTERM); err != nil {
			v.t.Errorf("%s: the broker that was not attacked: %v", a.Name, err)
		}
	}
	o, err := c.wait()
	if err != nil {
		v.t.Errorf("%s: the attack itself failed: %v", a.Name, err)
	}
	if !bystanders {
		answer, late := context.WithTimeout(ctx, answerWithin)
		defer late()
		if err := hostile.Answered(answer, v.Addr); err != nil {
			v.t.Errorf("%s: a bystander got no response within %v: %v", a.Name, answerWithin, err)
		}
	}
	r.Sent, r.Outcomes = o.Sent, o.Outcomes
	r.Held, r.Disk = v.live()-before, v.disk()-disk
	r.Scrape = int64(len(adminText(v.t, v.process, "/metrics")))
	if err := c.leave(); err != nil {
		v.t.Errorf("%s: %v", a.Name, err)
	}
	closed, lasts := time.Now(), hostile.Lasts
	if !bystanders {
		lasts = 10 * hostile.Lasts // other tests have the processors, and the broker has to build what it then cannot send
	}
	for {
		r.Kept, r.Waited = v.live()-before, time.Since(closed)
		if r.Kept <= a.Keeps || r.Waited > lasts {
			break
		}
		pause(v.t.Context(), 200*time.Millisecond)
	}
	r.Peak, r.After = v.memory("VmHWM"), v.memory("VmRSS")
	v.t.Logf("%s: %v, held %d, kept %d, resident %d to %d; %s", a.Name, time.Since(begin).Round(time.Millisecond), r.Held, r.Kept, r.Before,
		r.Peak, r.Outcomes)
	return r
}

// answerWithin is less than the time that a frame may take to arrive (30 s): a bystander must not
// wait for that.
const answerWithin = 20 * time.Second

func (v *victim) watch(ctx context.Context, d time.Duration) map[string]hostile.Latency {
	v.t.Helper()
	seen, err := hostile.Watch(ctx, v.Addr, d, 1)
	if err != nil {
		v.t.Error(err)
	}
	return seen
}

// A client that has not logged in makes the broker use no more memory than the attack's bound while
// it is connected, and none for long after it is gone. Meanwhile others get responses. The attacks
// in CHRONIK_HOSTILE_MEMORY run at full size. `make hostile` also measures response times.
func TestHostileClientsUseLittleMemory(t *testing.T) {
	t.Parallel() // it measures the memory of processes of its own
	limit := int64(hostileLimit)
	if race.Detector && os.Getenv("CHRONIKD") == "" {
		limit = 0
	}
	attacks := chosen(t, "CHRONIK_HOSTILE_MEMORY")
	for i := range attacks {
		attacks[i].Part = 100
	}
	if len(attacks) == 0 {
		attacks = slices.DeleteFunc(hostile.Attacks(), func(a hostile.Attack) bool { return a.Part == 0 })
	}
	for _, a := range attacks {
		t.Run(a.Name, func(t *testing.T) {
			v := startVictim(t, forAttack(t, a)...)
			const turns = 1
			for _, fault := range v.attack(a, a.Part, turns, false).Faults(limit) {
				t.Error(fault)
			}
		})
	}
}

// chosen returns the attacks that a variable names, all of them for "all", none if it is not set.
func chosen(t *testing.T, variable string) []hostile.Attack {
	t.Helper()
	all := hostile.Attacks()
	only := os.Getenv(variable)
	switch only {
	case "":
		return nil
	case "all":
		return all
	}
	var some []hostile.Attack
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(all, func(a hostile.Attack) bool { return a.Name == name })
		if i < 0 {
			t.Fatalf("unknown attack %q; docs/operations.md lists them", name)
		}
		some = append(some, all[i])
	}
	return some
}

// Every attack at full size: how much memory the broker uses, for how long, and how long others
// wait meanwhile. The limit is twice the time without the attack, before it or at a broker that is
// not attacked, or 50 ms. CHRONIK_HOSTILE names attacks, or is "all".
func TestHostileClientsDelayOthersLittle(t *testing.T) {
	attacks := chosen(t, "CHRONIK_HOSTILE")
	if len(attacks) == 0 {
		t.Skip("takes minutes and measures response times: make hostile")
	}
	var results []hostile.Result
	for _, a := range attacks {
		t.Run(a.Name, func(t *testing.T) {
			v := startVictim(t, forAttack(t, a)...)
			r := v.attack(a, 100, 0, true)
			for _, fault := range r.Faults(hostileLimit) {
				t.Error(fault)
			}
			results = append(results, r)
		})
	}
	var table strings.Builder
	must.OK(t, hostile.Table(&table, results, hostileLimit))
	t.Logf("%d attacks:\n%s", len(results), &table)
}
