package daemon

import (
	"net/http/httptest"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// BenchmarkScrapeOfABrokerWith10000Partitions measures what Prometheus costs a broker with many
// partitions, as CPU time of the process, its garbage collector included.
func BenchmarkScrapeOfABrokerWith10000Partitions(b *testing.B) {
	cfg, err := resolve.Load(config.Input{Flags: map[string]string{config.KeyDataDir: "/data", config.KeyListen: "127.0.0.1:0"},
		Set: []string{"admin.listen=off"}})
	must.OK(b, err)
	broker, err := Start(b.Context(), Options{Config: cfg, FS: vfs.Memory(), Log: zap.NewNop(), Level: zap.NewAtomicLevel(),
		Version: "test", JournalFileSize: 1 << 20, JournalBytes: 16 << 20})
	must.OK(b, err)
	b.Cleanup(func() { _ = broker.Close() })
	c, err := kgo.NewClient(kgo.SeedBrokers(broker.Addrs()...))
	must.OK(b, err)
	b.Cleanup(c.Close)
	for i := range 10 {
		if _, err := kadm.NewClient(c).CreateTopic(b.Context(), 1000, 1, nil, "topic-"+strconv.Itoa(i)); err != nil {
			b.Fatal(err)
		}
	}
	h := promhttp.HandlerFor(broker.reg, promhttp.HandlerOpts{})
	begin := processorTime(b)
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		b.ReportMetric(float64(w.Body.Len()), "bytes")
	}
	b.ReportMetric((processorTime(b)-begin).Seconds()*1000/float64(b.N), "cpu-ms/op")
}

// processorTime returns the CPU time of the process.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must.OK(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
