package configdef

import (
	"strings"
	"testing"
	"time"
)

// A list of seeds that could never agree on a majority, or that no broker could dial, is refused
// with what to write instead.
func TestClusterConfigsThatAreRefused(t *testing.T) {
	r := registry()
	for _, c := range []struct{ name, value, want string }{
		{"cluster.name", "my cluster", "letters, digits"},
		{"cluster.name", strings.Repeat("a", 65), "letters, digits"},
		{"cluster.seeds", "a:1,b:2", "write 1, 3 or 5"},
		{"cluster.seeds", "a:1,b:2,a:1", "2 different"},
		{"cluster.seeds", "a:1,b:2,c", "HOST:PORT"},
		{"cluster.seeds", "a:1,b:2,:3", "HOST:PORT"},
		{"cluster.seeds", "a:1,b:2,c:0", "port"},
		{"cluster.seeds", "a:1,b:2,c:65536", "port"},
		{"broker.session.timeout.ms", "499", "499"},
		{"replica.lag.time.max.ms", "999", "999"},
		{"replica.stall.time.max.ms", "499", "499"},
		{"replica.window.bytes", "1048575", "1048575"},
		{"replica.follow.bytes", "1048575", "1048575"},
		{"replica.catchup.bytes.per.second", "-1", "-1"},
	} {
		if err := r.CheckStatic(map[string]string{c.name: c.value}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v, want an error with %q", c.name, c.value, err, c.want)
		}
	}
	for _, ok := range []string{"a:1", "a:1,b:2,c:3", "[::1]:9092,10.0.0.1:9092,host:9092", "a:1,b:2,c:3,d:4,e:5"} {
		if err := r.CheckStatic(map[string]string{"cluster.seeds": ok}); err != nil {
			t.Errorf("%s: %v", ok, err)
		}
	}
}

// The settings of replication have the defaults of the design, and units.
func TestReplicaConfigs(t *testing.T) {
	r := registry()
	b, err := r.ResolveBroker(nil)
	want := Replica{Lag: 3 * time.Second, Stall: 1500 * time.Millisecond, Window: 8 << 20, Follow: 16 << 20}
	if err != nil || b.Cluster.Replica != want {
		t.Errorf("by default %+v (%v), want %+v", b.Cluster.Replica, err, want)
	}
	b, err = r.ResolveBroker(map[string]string{"replica.lag.time.max.ms": "10000", "replica.stall.time.max.ms": "2500",
		"replica.window.bytes": "2097152", "replica.follow.bytes": "4194304", "replica.catchup.bytes.per.second": "1000000"})
	want = Replica{Lag: 10 * time.Second, Stall: 2500 * time.Millisecond, Window: 2 << 20, Follow: 4 << 20, CatchUpRate: 1e6}
	if err != nil || b.Cluster.Replica != want {
		t.Errorf("got %+v (%v), want %+v", b.Cluster.Replica, err, want)
	}
}

// Whether a broker takes replicas is one of the cluster's metadata, of one broker each.
func TestOnlyTheMetadataSayWhetherABrokerTakesReplicas(t *testing.T) {
	r, set := registry(), map[string]string{TakesReplicas: "false"}
	if err := r.CheckStatic(set); err == nil || !strings.Contains(err.Error(), "chronikctl broker drain") {
		t.Errorf("in a file: %v", err)
	}
	if err := r.CheckDynamic(set, true); err == nil {
		t.Error("all brokers are drained at once")
	}
	if err := r.CheckDynamic(set, false); err != nil {
		t.Error(err)
	}
}
