package system

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// brokersKey finds the brokers that a script has started.
type brokersKey struct{}

// find returns a broker by its name in the script.
func find(ts *testscript.TestScript, name string) *process {
	p := ts.Value(brokersKey{}).(map[string]*process)[name]
	if p == nil {
		ts.Fatalf("broker %s was not started", name)
	}
	return p
}

// broker NAME ARG... starts chronikd on free ports, waits until it is ready, and sets NAME to its
// address, NAME_ADMIN to its admin address, and NAME_PID.
func broker(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: broker NAME ARG...")
	}
	name, all := args[0], ts.Value(brokersKey{}).(map[string]*process)
	env := []string{"CHRONIK_LISTEN=127.0.0.1:0", "CHRONIK_ADMIN_LISTEN=127.0.0.1:0"}
	for _, key := range []string{"CHRONIK_NUM_PARTITIONS", "CHRONIK_SERVICE_HOST"} {
		if v := ts.Getenv(key); v != "" {
			env = append(env, key+"="+v)
		}
	}
	p, err := start(ts.MkAbs("."), env, args[1:]...)
	ts.Check(err)
	all[name] = p
	ts.Defer(func() { _ = p.end(syscall.SIGKILL) })
	ts.Setenv(name, p.Addr)
	ts.Setenv(name+"_ADMIN", p.Admin)
	ts.Setenv(name+"_PID", fmt.Sprint(p.cmd.Process.Pid))
}

// end NAME [TERM|INT|KILL] ends a broker. After TERM (the default) and INT its exit code must be 0,
// with ! another.
func end(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL}
	if len(args) == 1 {
		args = append(args, "TERM")
	}
	if len(args) != 2 || signals[args[1]] == 0 {
		ts.Fatalf("usage: end NAME [TERM|INT|KILL]")
	}
	p := find(ts, args[0])
	err := p.end(signals[args[1]])
	if args[1] == "KILL" {
		return
	}
	if bad := err != nil; bad != neg {
		ts.Fatalf("%s ended with %v:\n%s", args[0], err, p.logged())
	}
}

// logged NAME REGEXP fails unless a line of the broker's log matches; with ! it fails if one does.
func logged(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: logged NAME REGEXP")
	}
	p := find(ts, args[0])
	found := regexp.MustCompile("(?m)" + args[1]).FindString(p.logged())
	if (found != "") == neg {
		ts.Fatalf("%q: found %q in the log:\n%s", args[1], found, p.logged())
	}
}

// get STATUS URL REGEXP sends an HTTP request; the body must match.
func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: get STATUS URL REGEXP")
	}
	request(ts, http.MethodGet, "", args)
}

// put STATUS URL BODY REGEXP does the same with a body.
func put(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: put STATUS URL BODY REGEXP")
	}
	request(ts, http.MethodPut, args[2], []string{args[0], args[1], args[3]})
}

// request sends a request to the admin port.
func request(ts *testscript.TestScript, method, body string, args []string) {
	req, err := http.NewRequest(method, args[1], strings.NewReader(body))
	ts.Check(err)
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	ts.Check(err)
	if fmt.Sprint(resp.StatusCode) != args[0] || !regexp.MustCompile(args[2]).Match(text) {
		ts.Fatalf("%s %s: %s, want %s and %s\n%s", method, args[1], resp.Status, args[0], args[2], text)
	}
}

// fingerprint NAME DIR... sets the variable to a digest of all names, sizes, contents and change
// times below the directories. If the variable is set, the digest must be the same; with ! it must
// be another.
func fingerprint(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: fingerprint NAME DIR...")
	}
	var all []string
	for _, dir := range args[1:] {
		ts.Check(filepath.WalkDir(ts.MkAbs(dir), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			line := fmt.Sprintf("%s %v %d", path, info.Mode(), info.ModTime().UnixNano())
			if info.Mode().IsRegular() {
				b, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				line += fmt.Sprintf(" %x", sha256.Sum256(b))
			}
			all = append(all, line)
			return nil
		}))
	}
	slices.Sort(all)
	before, now := ts.Getenv(args[0]), strings.Join(all, "\n")
	if before != "" && (before == now) == neg {
		ts.Fatalf("changed: %v\nbefore\n%s\nnow\n%s", !neg, before, now)
	}
	ts.Setenv(args[0], now)
}

// newer FILE... writes a greater format version into the header of each file, with the matching
// checksum.
func newer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: newer FILE...")
	}
	for _, name := range args {
		found, err := filepath.Glob(ts.MkAbs(name))
		ts.Check(err)
		if len(found) == 0 {
			ts.Fatalf("%s: no such file", name)
		}
		for _, path := range found {
			b, err := os.ReadFile(path)
			ts.Check(err)
			switch {
			case strings.HasPrefix(string(b), "chronikr") && len(b) >= 48: // metadata; see raftstore/records.go
				binary.LittleEndian.PutUint16(b[10:], 99)
				binary.LittleEndian.PutUint32(b[44:], crc32.Checksum(b[:44], crc32.MakeTable(crc32.Castagnoli)))
			case strings.HasPrefix(string(b), "chronik-"): // a state file; see statefile
				kind, rest, _ := strings.Cut(string(b), " ")
				_, rest, _ = strings.Cut(rest, " ")
				b = []byte(kind + " 99 " + rest)
			default:
				ts.Fatalf("%s has an unknown format: %s", path, hex.EncodeToString(b[:min(16, len(b))]))
			}
			ts.Check(os.WriteFile(path, b, 0o600))
		}
	}
}
