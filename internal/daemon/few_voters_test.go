package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/metadata/copies"
	"github.com/chronik-io/chronik/internal/vfs"
)

// While a cluster has fewer than three voters, the loss of one disk must not be the loss of the
// metadata: the copy outlives the first start with cluster.name, has what was changed since, and
// chronikd recover restores it, again and again, with every record.
func TestAClusterOfFewVotersKeepsTheCopyOfItsMetadata(t *testing.T) {
	const dirs, at = "log.dirs=/two", "/two/metadata.copy"
	mem := vfs.Memory()
	alone, _ := startHere(t, mem, dirs, "node.id=1")
	fill(t, alone, "alone", 1, 1)
	if err := alone.Close(); err != nil {
		t.Fatal(err)
	}
	port := freePorts(t)
	in := config.Input{
		Set: []string{dirs, "cluster.name=test", "node.id=1",
			fmt.Sprintf("cluster.seeds=127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", port, port+1, port+2)},
		Flags: map[string]string{config.KeyDataDir: "/data", config.KeyListen: fmt.Sprint("127.0.0.1:", port),
			config.KeyAdminListen: "off"},
	}
	for round, topic := range []string{"first", "second"} {
		cfg, err := resolve.Load(in)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Start(t.Context(), Options{
			Config: cfg, FS: mem, Log: zap.NewNop(), Version: "test", JournalFileSize: 1 << 20, JournalBytes: 16 << 20,
		})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if err := again(t, b, "alone"); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		fill(t, b, topic, 1, 1)
		if err := errors.Join(b.Close(), mem.RemoveAll("/data")); err != nil {
			t.Fatal(err)
		}
		if c, err := copies.Check(mem, at); err != nil || !c.Used {
			t.Fatalf("round %d: there is no copy: %v", round, err)
		}
		if err := mem.MkdirAll("/data"); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		args := []string{"recover", "--from", at, "--lost", "1"}
		for _, s := range in.Set {
			args = append(args, "--set", s)
		}
		for name, value := range in.Flags {
			args = append(args, "--"+config.FlagName(name), value)
		}
		if code := Main(t.Context(), Process{Args: args, Out: &out, Err: &out, FS: mem}); code != 0 {
			t.Fatalf("round %d: exit code %d: %s", round, code, out.String())
		}
	}
}

// again appends a record to a topic that a former metadata directory had.
func again(t *testing.T, b *Broker, topic string) error {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	if err != nil {
		return err
	}
	defer c.Close()
	return c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr()
}
