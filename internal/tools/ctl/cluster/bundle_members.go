package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// bundleMember is one file of the bundle.
type bundleMember struct {
	name   string
	source string // for the manifest
	get    func(context.Context) ([]byte, error)

	text []byte
	err  error
	took time.Duration
}

// errSkipped marks a member that does not apply here, which is not a fault.
var errSkipped = errors.New("skipped")

// maxConcurrent is how many members are collected concurrently.
const maxConcurrent = 32

// grace is the time that a member may take beyond the timeout of a request: the interval between
// samples and the broker's own waiting.
const grace = 10 * time.Second

// collector collects members.
type collector struct {
	run      Runner
	given    []string       // flags to pass on
	interval time.Duration  // between two samples
	timeout  time.Duration  // timeout of a request
	port     *app.AdminPort // nil for none
}

// collect collects all members concurrently.
func (k *collector) collect(ctx context.Context, members []bundleMember) []bundleMember {
	var wait sync.WaitGroup
	turn := make(chan struct{}, maxConcurrent)
	for i := range members {
		m := &members[i]
		turn <- struct{}{}
		wait.Go(func() {
			defer func() { <-turn }()
			ctx, cancel := context.WithTimeout(ctx, 2*k.timeout+k.interval+grace)
			defer cancel()
			begun := time.Now()
			m.text, m.err = m.get(ctx)
			m.took = time.Since(begun)
		})
	}
	wait.Wait()
	return members
}

// online returns the members of a running broker.
func (k *collector) online(ctx context.Context) []bundleMember {
	members := k.always()
	command := func(name string, args ...string) { members = append(members, k.command(name, args...)) }
	command("health.json", "cluster", "health", "--groups", "3s")
	command("cluster.json", "cluster", "describe")
	command("api-versions.json", "api-versions")
	command("brokers.json", "broker", "list")
	command("topics.json", "topic", "list", "--internal")
	members = append(members, k.partitions())
	command("groups.json", "group", "describe", "--all")
	command("rates.json", "top", "--internal", "--interval="+k.interval.String())
	for _, id := range k.brokers(ctx) {
		command("broker-"+id+".json", "broker", "describe", id)
		command("config-broker-"+id+".json", "config", "get", "broker", id)
	}
	for name, path := range map[string]string{
		"admin/health.json": "/v1/health", "admin/dirs.json": "/v1/dirs", "admin/logs.json": "/v1/logs?limit=10000",
		"admin/profiles.json": "/v1/profiles", "admin/connections.json": "/v1/connections?limit=10000", "admin/log.jsonl": "/v1/log",
		"admin/waits.json":   "/v1/waits?limit=100",
		"admin/brokers.json": "/v1/brokers", "admin/metrics-1.txt": "/metrics", "admin/goroutines.txt": "/debug/pprof/goroutine?debug=2",
	} {
		members = append(members, k.admin(name, path, 0))
	}
	return append(members, k.admin("admin/metrics-2.txt", "/metrics", k.interval), journal())
}

// partitions returns the member with the partitions of all topics. It does not apply if there are
// none.
func (k *collector) partitions() bundleMember {
	m, topics := k.command("partitions.json", "topic", "describe", "--regex", ".*"), k.command("", "topic", "list", "--internal")
	describe := m.get
	m.get = func(ctx context.Context) ([]byte, error) {
		var list []json.RawMessage
		if text, err := topics.get(ctx); err == nil && json.Unmarshal(text, &list) == nil && len(list) == 0 {
			return nil, fmt.Errorf("%w: there are no topics", errSkipped)
		}
		return describe(ctx)
	}
	return m
}

// offline returns the members of a data directory.
func (k *collector) offline(dir string) []bundleMember {
	return append(k.always(),
		k.command("verify.json", "log", "verify", "--dir", dir),
		bundleMember{name: "files.txt", source: "the files under " + dir,
			get: func(ctx context.Context) ([]byte, error) { return listing(ctx, dir) }})
}

// always returns the members that need no broker.
func (k *collector) always() []bundleMember {
	members := []bundleMember{k.command("version.json", "version"), k.command("settings.json", "context", "show"),
		{name: "host/machine.json", source: "this machine", get: machine}}
	for _, name := range []string{"meminfo", "loadavg", "mounts", "version", "uptime", "pressure/cpu", "pressure/io", "pressure/memory"} {
		path := "/proc/" + name
		members = append(members, bundleMember{name: "host/" + strings.ReplaceAll(name, "/", "-") + ".txt", source: path,
			get: func(context.Context) ([]byte, error) {
				text, err := os.ReadFile(path)
				if err != nil { // another operating system, or a container that hides it
					return nil, fmt.Errorf("%w: %w", errSkipped, err)
				}
				return text, nil
			}})
	}
	return members
}

// command returns a member with the output of another command.
func (k *collector) command(name string, args ...string) bundleMember {
	line := append(append([]string{}, args...), "--output=json")
	return bundleMember{name: name, source: "chronikctl " + strings.Join(args, " "), get: func(ctx context.Context) ([]byte, error) {
		var out, errs bytes.Buffer
		code := k.run(ctx, append(line, k.given...), &out, &errs)
		said := strings.TrimSpace(strings.ReplaceAll("\n"+errs.String(), "\nchronikctl: ", "\n"))
		switch {
		case code == app.ExitOK, code == app.ExitUnhealthy && out.Len() > 0: // findings are part of the answer
			return out.Bytes(), nil
		case said == "":
			said = fmt.Sprintf("exit code %d", code)
		}
		return out.Bytes(), errors.New(said)
	}}
}

// admin returns a member with an answer of the admin port, requested after a delay.
func (k *collector) admin(name, path string, after time.Duration) bundleMember {
	m := bundleMember{name: name, source: "GET " + path}
	m.get = func(ctx context.Context) ([]byte, error) {
		if k.port == nil {
			return nil, fmt.Errorf("%w: no admin port is known; give it with --admin", errSkipped)
		}
		t := time.NewTimer(after)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		text, err := k.port.Text(ctx, path)
		if errors.Is(err, app.ErrNoAdminPort) && !k.port.Named {
			err = fmt.Errorf("%w: %w", errSkipped, err)
		}
		return text, err
	}
	return m
}

// brokers returns the ids of the brokers, or none without an answer: the member brokers.json then
// has the reason.
func (k *collector) brokers(ctx context.Context) (ids []string) {
	m := k.command("", "broker", "list")
	text, err := m.get(ctx)
	var list []struct {
		ID int32 `json:"id"`
	}
	if err != nil || json.Unmarshal(text, &list) != nil {
		return nil
	}
	for _, b := range list {
		ids = append(ids, strconv.Itoa(int(b.ID)))
	}
	return ids
}

// journalLines bounds the lines from systemd's journal. The broker's own log buffer is gone once it
// has stopped.
const journalLines = "2000"

// journal returns the end of the broker's log in systemd's journal on this machine.
func journal() bundleMember {
	args := []string{"--unit", "chronikd", "--lines", journalLines, "--no-pager", "--output", "short-iso"}
	return bundleMember{name: "host/journal.txt", source: "journalctl " + strings.Join(args, " "),
		get: func(ctx context.Context) ([]byte, error) {
			path, err := exec.LookPath("journalctl")
			if err != nil {
				return nil, fmt.Errorf("%w: no journalctl on this machine", errSkipped)
			}
			lines, err := exec.CommandContext(ctx, path, args...).Output()
			var exited *exec.ExitError
			switch {
			case bytes.HasPrefix(lines, []byte("-- No entries --")), err == nil && len(lines) == 0:
				return nil, fmt.Errorf("%w: the journal of this machine has no lines of the unit chronikd", errSkipped)
			case errors.As(err, &exited) && len(exited.Stderr) > 0:
				err = fmt.Errorf("%w: %s", err, text.OneLine(string(exited.Stderr)))
			}
			return lines, err
		}}
}

// machine describes the machine that runs chronikctl, which may not be the broker's.
func machine(context.Context) ([]byte, error) {
	host, _ := os.Hostname() // empty if unknown
	text, err := json.MarshalIndent(struct {
		Host string    `json:"host"`
		OS   string    `json:"os"`
		Arch string    `json:"arch"`
		CPUs int       `json:"cpus"`
		Go   string    `json:"go"`
		UID  int       `json:"uid"`
		Time time.Time `json:"time"`
	}{host, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), os.Getuid(), time.Now()}, "", "  ")
	return append(text, '\n'), err
}

// listing lists each file under a directory: mode, size, time and path. It notes files that it
// cannot read.
func listing(ctx context.Context, dir string) ([]byte, error) {
	var b bytes.Buffer
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var info fs.FileInfo
		if err == nil {
			info, err = d.Info()
		}
		if err != nil {
			fmt.Fprintf(&b, "%s: %v\n", path, err)
			return nil
		}
		fmt.Fprintf(&b, "%s %14d %s %s\n", info.Mode(), info.Size(), info.ModTime().UTC().Format(time.RFC3339), path)
		return nil
	})
	return b.Bytes(), err
}
