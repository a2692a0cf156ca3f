package system

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/hostile"
	"github.com/chronik-io/chronik/internal/testing/must"
)

const (
	soakMemory = 64 << 20
	// Connections: honest clients of each probe, idle ones, and concurrent attacks with this many
	// each.
	soakClients, soakIdle       = 60, 300
	soakAttacks, soakMob        = 4, 100
	soakTurn                    = 10 * time.Second // of one attack
	soakPart                    = 30               // percent of its full size
	soakFailures                = 100              // one in this many honest requests may be refused
	soakHeap              int64 = soakMemory / 5 * 4
)

// container creates a memory cgroup of soakMemory and a program that runs chronikd in it; the
// kernel kills a process that needs more. Without the permission to create one, the program is
// chronikd with as much memory by GOMEMLIMIT, and the test compares its resident memory with the
// limit. In a cgroup that would be wrong, because the program's file counts for the group that read
// it first.
func container(t *testing.T) (program string, env []string, contained bool) {
	t.Helper()
	binary := cmp.Or(os.Getenv("CHRONIKD"), "chronikd")
	dir, limit, err := memoryCgroup()
	if err == nil {
		err = os.Mkdir(dir, 0o750)
	}
	if err == nil {
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Error(err)
			}
		})
		err = os.WriteFile(filepath.Join(dir, limit), []byte(strconv.Itoa(soakMemory)), 0o600)
	}
	if err != nil {
		t.Logf("NOT IN A CONTAINER, only with GOMEMLIMIT: %v", err)
		return binary, []string{"GOMEMLIMIT=" + strconv.FormatInt(soakHeap, 10)}, false
	}
	program = filepath.Join(t.TempDir(), "contained")
	text := fmt.Sprintf("#!/bin/sh\necho $$ > %s && exec %s \"$@\"\n", filepath.Join(dir, "cgroup.procs"), binary)
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	return program, nil, true
}

// cgroups is Linux's cgroup directory.
const cgroups = "/sys/fs/cgroup"

// memoryCgroup returns a directory for a cgroup below this process's own, and the name of the file
// that limits its memory.
func memoryCgroup() (dir, limit string, err error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", "", err
	}
	name := fmt.Sprintf("chronik-%d", os.Getpid())
	for line := range strings.Lines(string(text)) {
		switch id, path, _ := strings.Cut(strings.TrimSpace(line), ":"); {
		case strings.HasPrefix(path, "memory:"):
			return filepath.Join(cgroups, "memory", strings.TrimPrefix(path, "memory:"), name), "memory.limit_in_bytes", nil
		case id == "0":
			dir, limit = filepath.Join(cgroups, strings.TrimPrefix(path, ":"), name), "memory.max"
		}
	}
	return dir, limit, nil
}

// A broker with 64 MiB of memory has 1,000 connections from honest clients, idle ones, and every
// attack in turn. It is not killed, stays within its memory, and serves the honest clients.
// CHRONIK_HOSTILE_SOAK is the duration, CHRONIK_HOSTILE names the attacks.
func TestHostileSoak(t *testing.T) {
	d, err := time.ParseDuration(cmp.Or(os.Getenv("CHRONIK_HOSTILE_SOAK"), "0s"))
	must.OK(t, err)
	if d <= 0 {
		t.Skip("takes minutes: make hostile-soak")
	}
	all := chosen(t, "CHRONIK_HOSTILE")
	program, env, contained := container(t)
	t.Setenv("CHRONIKD", program)
	p, err := start(t.TempDir(), env, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--set",
		"group.initial.rebalance.delay.ms=0")
	must.OK(t, err)
	t.Cleanup(func() { _ = p.end(syscall.SIGKILL) })
	v := &victim{process: p, t: t}
	prepare, prepared := context.WithTimeout(t.Context(), startTime)
	defer prepared()
	must.OK(t, hostile.Prepare(prepare, p.Addr))
	for _, a := range all {
		if err := a.Prepare(prepare, &hostile.Attacker{Addr: p.Addr, Part: soakPart}); err != nil {
			t.Fatalf("%s: prepare: %v", a.Name, err)
		}
	}
	alone := v.watchMany(t.Context(), aloneFor)

	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	idle := &hostile.Attacker{Addr: p.Addr, Part: 100}
	defer idle.Close()
	must.OK(t, idle.Idle(ctx, soakIdle))
	var wg sync.WaitGroup
	seed := rand.Uint64()
	for i := range soakAttacks {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			for ctx.Err() == nil {
				a := all[random.IntN(len(all))]
				if err := soakTurnOf(ctx, t, a, p.Addr); err != nil {
					t.Errorf("%s: the attack itself failed: %v", a.Name, err)
				}
			}
		})
	}
	beside := v.watchMany(ctx, d)
	wg.Wait()
	if peak := v.reportSoak(d, alone, beside); peak > soakMemory && !contained {
		t.Errorf("%d bytes were resident, the limit is %d", peak, soakMemory)
	}
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, p.logged())
	}
}

func (v *victim) watchMany(ctx context.Context, d time.Duration) map[string]hostile.Latency {
	v.t.Helper()
	seen, err := hostile.Watch(context.WithoutCancel(ctx), v.Addr, d, soakClients)
	if err != nil {
		v.t.Fatal(err)
	}
	return seen
}

// soakTurnOf runs one turn of one attack.
func soakTurnOf(ctx context.Context, t *testing.T, a hostile.Attack, addr string) error {
	ctx, over := context.WithTimeout(ctx, soakTurn)
	defer over()
	c, err := attackers(t, orders{Attack: a.Name, Addr: addr, Part: soakPart, Most: soakMob, For: soakTurn})
	if err != nil {
		return err
	}
	_, err = c.wait()
	<-ctx.Done() // it keeps its connections until its turn is over
	return errors.Join(err, c.leave())
}

// reportSoak fails the test if the broker is gone or has refused honest requests. It returns the
// maximum resident memory.
func (v *victim) reportSoak(d time.Duration, alone, beside map[string]hostile.Latency) (peak int64) {
	v.t.Helper()
	select {
	case err := <-v.done:
		v.done <- err
		v.t.Fatalf("the broker was killed: %v\n%s", err, v.logged())
	default:
	}
	peak = v.memory("VmHWM")
	var text strings.Builder
	for name, seen := range map[string]map[string]hostile.Latency{"alone": alone, "beside them": beside} {
		fmt.Fprintf(&text, "honest clients %s:\n", name)
		if err := hostile.Latencies(&text, seen); err != nil {
			v.t.Fatal(err)
		}
	}
	for name, l := range beside {
		if l.Failed*soakFailures > l.N {
			v.t.Errorf("honest %s failed %d of %d times, first with: %v", name, l.Failed, l.N, l.Failure)
		}
	}
	v.t.Logf("%v with %d MiB: %d MiB resident at most\n%s", d, soakMemory>>20, peak>>20, &text)
	return peak
}
