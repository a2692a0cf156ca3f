package daemon

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// The parts of a broker at work have their labels in the goroutine profile, with the directory or
// the listener that they work for.
func TestTheGoroutinesOfABrokerAreLabeled(t *testing.T) {
	b, _ := startHere(t, vfs.Memory())
	fill(t, b, "orders", 1, 1)
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.ConsumeTopics("orders"))
	must.OK(t, err)
	t.Cleanup(c.Close)
	var missing []string
	defer func() {
		if t.Failed() {
			t.Logf("missing: %v", missing)
		}
	}()
	eventually(t, "the goroutines have their labels", func() bool {
		_, profile := browse(t, b, "/debug/pprof/goroutine?debug=1")
		missing = slices.DeleteFunc([]string{
			`{"of":"default", "part":"network accept"}`, `{"of":"default", "part":"network read"}`,
			`{"of":"default", "part":"network write"}`,
			`{"of":"/data/logs", "part":"storage flush"}`, `{"of":"/data/logs", "part":"storage sweep"}`,
			`{"of":"/data/logs", "part":"storage memory"}`, `{"of":"/data/logs", "part":"storage checkpoint"}`,
			`{"of":"/data/logs", "part":"storage retention"}`, `{"of":"/data/logs", "part":"storage compaction"}`,
			`{"of":"/data/logs", "part":"storage scrub"}`,
			`{"of":"/data/logs/journal", "part":"journal write"}`, `{"of":"/data/logs/journal", "part":"journal notify"}`,
			`{"part":"replica upkeep"}`, `{"part":"metadata store"}`, `{"part":"metadata apply"}`, `{"part":"controller loop"}`,
			`{"part":"health check"}`, `{"part":"health watch"}`, `{"part":"health measure"}`, `{"part":"admin history"}`,
		}, func(label string) bool { return strings.Contains(profile, "# labels: "+label+"\n") })
		return len(missing) == 0
	})
}
