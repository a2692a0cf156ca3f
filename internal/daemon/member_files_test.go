package daemon

import (
	"context"
	"errors"
	"math"
	"net"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/memory"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// memberConfig returns the configuration of a member of a cluster whose others do not answer.
func memberConfig(t *testing.T, set ...string) *config.Config {
	t.Helper()
	cfg, err := resolve.Load(config.Input{
		Set: append(set, "cluster.name=test", "node.id=1", "cluster.seeds=127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"),
		Flags: map[string]string{config.KeyDataDir: "/data", config.KeyListen: "127.0.0.1:0", config.KeyAdvertise: "127.0.0.1:1",
			config.KeyAdminListen: "off"},
	})
	must.OK(t, err)
	return cfg
}

// A broker without a cluster whose metadata is not there does not become a member of one: its logs
// would belong to no topic. It starts if they are put back, whatever it tried before.
func TestLogsWithoutTheirMetadataJoinNoCluster(t *testing.T) {
	mem := vfs.Memory()
	single := func() *Broker {
		b, _ := startHere(t, mem)
		return b
	}
	b := single()
	fill(t, b, "t", 1, 3)
	must.OK(t, errors.Join(b.Close(), mem.Rename("/data/metadata", "/data/moved")))
	cfg := memberConfig(t)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		b, err := Start(ctx, Options{
			Config: cfg, FS: mem, Log: zap.NewNop(), Version: "test", JournalFileSize: 1 << 20, JournalBytes: 16 << 20,
		})
		cancel()
		if err == nil {
			t.Fatal("it has joined", b.Close())
		}
		if e := (*exit.Error)(nil); !errors.As(err, &e) || e.Code != exit.Data || !strings.Contains(err.Error(), "/data/logs") ||
			!strings.Contains(err.Error(), "/data/metadata") {
			t.Fatal(err)
		}
	}
	must.OK(t, mem.Rename("/data/moved", "/data/metadata"))
	single()
}

// What fails while a broker starts ends its start with the cause: the start may wait for what has
// failed, for example for the heartbeats of a process that another one has replaced.
func TestAFailureEndsTheStart(t *testing.T) {
	cause := errors.New("it cannot stay a member")
	ctx, cancel := context.WithTimeout(t.Context(), patience/6)
	defer cancel()
	_, err := Start(ctx, Options{
		Config: memberConfig(t), FS: vfs.Memory(), Log: zap.NewNop(), Version: "test", JournalFileSize: 1 << 20, JournalBytes: 16 << 20,
		Begun: func(b *Broker) { b.fail(cause) },
	})
	if !errors.Is(err, cause) || ctx.Err() != nil {
		t.Errorf("the start ends with %v", err)
	}
}

// The connection limit holds while a member of a cluster starts, which may take long: connections
// must not take the files that the recovery of the logs needs.
func TestConnectionsAreLimitedDuringTheStart(t *testing.T) {
	cfg := memberConfig(t, "max.connections=2")
	begun, ended := make(chan *Broker, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := Start(ctx, Options{
			Config: cfg, FS: vfs.Memory(), Log: zap.NewNop(), Version: "test", JournalFileSize: 1 << 20, JournalBytes: 16 << 20,
			Begun: func(b *Broker) { begun <- b },
		})
		ended <- err
	}()
	b := <-begun
	var last net.Conn
	for range 2 + localPlaces + 1 {
		c, err := net.Dial("tcp", b.Addrs()[0])
		must.OK(t, err)
		t.Cleanup(func() { _ = c.Close() })
		last = c
	}
	versions := []byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff} // ApiVersions, answered at once
	if _, err := last.Write(versions); err != nil {
		t.Fatal(err)
	}
	if n, err := last.Read(make([]byte, 1)); err == nil {
		t.Errorf("the third connection is served: %d bytes", n)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}

	disk := &Broker{fs: vfs.OS()}
	if n := disk.maxConnections(&components{}, math.MaxInt32); n <= 0 || n > vfs.Descriptors()/2 {
		t.Errorf("%d connections of %d files before the logs are open", n, vfs.Descriptors())
	}
	disk.memory = 1 << 20
	if n := disk.maxConnections(&components{}, math.MaxInt32); n != int(memory.Connections(1<<20)) {
		t.Errorf("%d connections with a MiB of memory", n)
	}
}
