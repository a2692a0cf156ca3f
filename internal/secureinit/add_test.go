package secureinit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/testing/must"
)

func readConfig(file string) (*config.Config, error) {
	return resolve.Load(config.Input{File: file, ReadFile: os.ReadFile})
}

// initialized returns the directory of a new cluster of three.
func initialized(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "cluster")
	x, err := New(dir, nil, []string{"a.example.com", "b.example.com:9093", "10.0.0.13"})
	must.OK(t, err)
	must.OK(t, x.Write(time.Now()))
	return dir
}

// given adds nodes, and returns the numbers that they got.
func given(t *testing.T, dir string, first int, nodes ...string) (ids []int) {
	t.Helper()
	x, err := Add(dir, nodes, first, readConfig, time.Now())
	must.OK(t, err)
	for _, p := range x.nodes {
		cfg, err := readConfig(filepath.Join(p.dir, "chronikd.yaml"))
		if err != nil || "node-"+cfg.Broker["node.id"] != filepath.Base(p.dir) {
			t.Errorf("%s: %v", p.dir, err)
		}
		ids = append(ids, p.id)
	}
	if names, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(names) > 0 {
		t.Errorf("left: %v %v", names, err)
	}
	return ids
}

func refused(t *testing.T, dir, want string, first int, nodes ...string) {
	t.Helper()
	if _, err := Add(dir, nodes, first, readConfig, time.Now()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v: %v, want %s", nodes, err, want)
	}
}

func contentOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must.OK(t, err)
	return string(text)
}

// Directories of nodes are moved to their machines: neither their numbers nor their addresses are
// given again.
func TestWhatWasMovedAwayIsNotGivenAgain(t *testing.T) {
	dir := initialized(t)
	remove := func(names ...string) {
		t.Helper()
		for _, name := range names {
			must.OK(t, os.RemoveAll(filepath.Join(dir, name)))
		}
	}
	want := func(got []int, want int) {
		t.Helper()
		if len(got) != 1 || got[0] != want {
			t.Errorf("got the numbers %v, want %d", got, want)
		}
	}
	remove("node-2", "node-3")
	want(given(t, dir, 0, "d.example.com"), 4)
	remove("node-4")
	refused(t, dir, "another node has its ports", 0, "D.example.com")
	refused(t, dir, "another node has its ports", 0, "b.example.com:9094")
	want(given(t, dir, 0, "e.example.com"), 5)
	remove("node-5")
	refused(t, dir, "the numbers up to 5 are given; write 6 or more", 5, "f.example.com")

	remove("nodes")
	refused(t, dir, "write --first-id with a number", 0, "f.example.com")
	refused(t, dir, "another node has its ports", 6, "b.example.com") // cluster.seeds has it
	refused(t, dir, "the numbers up to 3 are given", 3, "f.example.com")
	must.OK(t, os.Mkdir(filepath.Join(dir, "node-1", "ca.pem.old"), 0o700)) // it cannot be linked there
	must.OK(t, os.WriteFile(filepath.Join(dir, "node-1", "ca.pem.old", "x"), nil, 0o600))
	refused(t, dir, "ca.pem.old", 6, "f.example.com")
	remove("node-1/ca.pem.old")
	refused(t, dir, "write --first-id with a number", 0, "f.example.com")
	want(given(t, dir, 6, "f.example.com"), 6)
	remove("node-6")
	want(given(t, dir, 0, "g.example.com"), 7)

	damaged := contentOf(t, filepath.Join(dir, "nodes")) + "x.example.com:9093\n"
	must.OK(t, os.WriteFile(filepath.Join(dir, "nodes"), []byte(damaged), 0o600))
	refused(t, dir, "does not begin with the number of a broker", 0, "h.example.com")
}

// After any failure, the next call gives the same numbers, and assumes no holder of a ca.pem that
// an earlier call has issued.
func TestAnAdditionThatFailedIsRepeated(t *testing.T) {
	nodes := []string{"d.example.com", "e.example.com"}
	block := func(path ...string) func(*testing.T, *Addition) (repair func()) {
		return func(t *testing.T, x *Addition) func() {
			at := filepath.Join(append([]string{x.dir}, path...)...)
			must.OK(t, os.MkdirAll(filepath.Join(at, "x"), 0o700)) // neither replaced nor removed
			return func() { must.OK(t, os.RemoveAll(at)) }
		}
	}
	for _, c := range []struct {
		name   string
		fault  func(*testing.T, *Addition) (repair func())
		widens bool
	}{
		{"leftover", block("node-5"), false},
		{"roster", block("nodes.new"), false},
		{"authority", block("node-2", "ca.pem.old"), false},
		{"second name", func(t *testing.T, x *Addition) func() {
			x.rename = func(from, to string) error {
				if filepath.Base(to) == "node-5" {
					return errors.New("the disk is gone")
				}
				return os.Rename(from, to)
			}
			return func() {}
		}, true},
		{"sync", func(_ *testing.T, x *Addition) func() {
			x.syncDir = func(string) error { return errors.New("the disk is gone") }
			return func() {}
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := &Addition{dir: initialized(t), rename: os.Rename, syncDir: syncDir}
			ca := filepath.Join(x.dir, "ca.pem")
			before := contentOf(t, ca)
			repair := c.fault(t, x)
			if _, err := add(x, nodes, 0, readConfig, time.Now()); err == nil {
				t.Fatal("it did not fail")
			}
			if widened := contentOf(t, ca) != before; widened != c.widens {
				t.Errorf("a new ca.pem is there: %t", widened)
			}
			if _, err := os.Stat(filepath.Join(x.dir, "node-4")); err == nil {
				t.Error("a directory has its name, but not all")
			}
			repair()
			x, err := Add(x.dir, nodes, 0, readConfig, time.Now())
			must.OK(t, err)
			if x.nodes[0].id != 4 || x.nodes[1].id != 5 {
				t.Errorf("%+v", x.nodes)
			}
			text := x.Summary()
			for _, want := range []string{"1. copy it over the ca.pem of each broker", "`chronikctl broker list` shows the numbers"} {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			if strings.Contains(text, "is new") == c.widens {
				t.Errorf("not true:\n%s", text)
			}
			if list := contentOf(t, filepath.Join(x.dir, "nodes")); strings.Count(list, "\n4 ") != 1 || strings.Count(list, "\n5 ") != 1 {
				t.Error(list)
			}
		})
	}
}

// Two calls at a time would give the same numbers.
func TestOneAdditionAtATime(t *testing.T) {
	dir := initialized(t)
	d, err := os.Open(dir)
	must.OK(t, err)
	must.OK(t, unix.Flock(int(d.Fd()), unix.LOCK_EX))
	refused(t, dir, "another secure add has the directory", 0, "d.example.com")
	must.OK(t, d.Close())
	given(t, dir, 0, "d.example.com")
}
