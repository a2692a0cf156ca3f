package chronikd

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/metadata/copies"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// While a cluster has fewer than three voters, the loss of one disk must not be the loss of the
// metadata: the copy outlives the first start with cluster.name, has what was changed since, and
// chronikd recover restores it, again and again, with every record.
func TestAClusterOfFewVotersKeepsTheCopyOfItsMetadata(t *testing.T) {
	const dirs, at = "log.dirs=/two", "/two/metadata.copy"
	mem := vfs.Memory()
	alone := start(t, mem, dirs, "node.id=1")
	must.OK(t, errors.Join(produce(t, alone, "alone"), alone.Close()))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	set := []string{dirs, "cluster.name=test", "node.id=1",
		fmt.Sprintf("cluster.seeds=%s,127.0.0.1:1,127.0.0.1:2", l.Addr())} // nothing listens at the others
	flags := here()
	flags[config.KeyListen] = l.Addr().String()
	must.OK(t, l.Close())
	for round, topic := range []string{"first", "second"} {
		b, err := tryStart(t, mem, set, flags)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if err := produce(t, b, "alone"); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		must.OK(t, errors.Join(produce(t, b, topic), b.Close(), mem.RemoveAll("/data")))
		if c, err := copies.Check(mem, at); err != nil || !c.Used {
			t.Fatalf("round %d: there is no copy: %v", round, err)
		}
		must.OK(t, mem.MkdirAll("/data"))
		var out bytes.Buffer
		args := []string{"recover", "--from", at, "--lost", "1"}
		for _, s := range set {
			args = append(args, "--set", s)
		}
		for name, value := range flags {
			args = append(args, "--"+config.FlagName(name), value)
		}
		if code := Main(t.Context(), Process{Args: args, Out: &out, Err: &out, FS: mem}); code != 0 {
			t.Fatalf("round %d: exit code %d: %s", round, code, out.String())
		}
	}
}

// recover does not create metadata as root that the user of the broker could not open.
func TestRecoverLocksOutNoBroker(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root only can give a directory away")
	}
	dir := t.TempDir()
	run := func() (code int, errs string) {
		code, _, errs = chronikd(t, nil, "recover", "--data-dir", dir, "--listen", "127.0.0.1:1", "--set", "cluster.name=c",
			"--set", "node.id=1", "--set", "cluster.seeds=127.0.0.1:1")
		return code, errs
	}
	if code, errs := run(); code == exit.OK || strings.Contains(errs, "sudo") {
		t.Errorf("one's own directory: %d, %s", code, errs)
	}
	if err := os.Chown(dir, 1234, 1234); err != nil {
		t.Skip(err)
	}
	if code, errs := run(); code != exit.Usage || !strings.Contains(errs, "sudo -u '#1234' chronikd recover") {
		t.Errorf("another's directory: %d, %s", code, errs)
	}
}
