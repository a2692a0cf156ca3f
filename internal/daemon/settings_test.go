package daemon

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/security/quota"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
)

// Kafka's tools change the limits of connections while a broker runs. The next connection counts
// with the new ones.
func TestLimitsOfConnectionsAreAlteredWhileTheBrokerRuns(t *testing.T) {
	b, _ := startHere(t, vfs.Memory(), "max.connections.per.ip=50")
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	must.OK(t, err)
	defer client.Close()
	admin := kadm.NewClient(client)
	alter := func(op kadm.IncrementalOp, name, value string, of ...int32) {
		t.Helper()
		answers, err := admin.AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{{Op: op, Name: name, Value: &value}}, of...)
		if err != nil || answers[0].Err != nil {
			t.Fatalf("%s=%s: %v, %v", name, value, err, answers)
		}
	}
	self := b.components.conf.NodeID
	listener := configdef.ListenerRateName(b.cfg.Listeners[0].Name)
	alter(kadm.SetConfig, "max.connections", "3")                     // of all brokers
	alter(kadm.SetConfig, "max.connections", "500", self)             // of this one
	alter(kadm.SetConfig, "max.connection.creation.rate", "77", self) // as kafka-configs does
	alter(kadm.SetConfig, listener, "33", self)
	alter(kadm.SetConfig, "max.connections.per.ip.overrides", "10.0.0.7:9,[::1]:8", self)
	c := b.limits.now.Load()
	if c.Most != 500 || c.PerIP != 50 || c.Rate != 77 || c.Listener(b.cfg.Listeners[0].Name).Rate != 33 || len(c.PerIPOf) != 2 {
		t.Errorf("limits: %+v", c)
	}
	described, err := admin.DescribeBrokerConfigs(t.Context(), self)
	must.OK(t, err)
	want := map[string]string{"max.connections": "500 2", "max.connections.per.ip": "50 4", "max.connection.creation.rate": "77 2",
		listener: "33 2", "max.connections.per.ip.overrides": "10.0.0.7:9,[::1]:8 2"}
	for _, x := range described[0].Configs {
		if w, ok := want[x.Key]; ok && x.Value != nil && *x.Value+" "+string('0'+rune(x.Source)) == w {
			delete(want, x.Key)
		}
	}
	if len(want) > 0 {
		t.Errorf("not described with these values and sources: %v", want)
	}
	if !answered(t, b) {
		t.Error("a connection within the limits is not served")
	}
	alter(kadm.SetConfig, "max.connections.per.ip.overrides", "127.0.0.1:0", self)
	if answered(t, b) {
		t.Error("a connection of an address that may have none is served")
	}
	alter(kadm.DeleteConfig, "max.connections.per.ip.overrides", "", self)
	if !answered(t, b) {
		t.Error("a connection is refused after the limit was removed")
	}
	// The client has one or more connections. From its machine, which is the broker's, some are
	// served above max.connections and the limit of a listener.
	for _, limit := range []string{"max.connections.per.ip", "max.connections"} {
		former := map[string]string{"max.connections.per.ip": "50", "max.connections": "500"}[limit]
		alter(kadm.SetConfig, limit, "1", self)
		if got, want := answered(t, b), limit == "max.connections"; got != want {
			t.Errorf("a local connection beyond %s is served: %v", limit, got)
		}
		alter(kadm.SetConfig, limit, former, self)
		if !answered(t, b) {
			t.Errorf("a connection within %s=%s is refused", limit, former)
		}
	}
	alter(kadm.DeleteConfig, "max.connections.per.ip", "", self)
	most := configdef.ListenerMostName(b.cfg.Listeners[0].Name)
	alter(kadm.SetConfig, most, "1", self)
	local := make([]net.Conn, localPlaces)
	for i := range local {
		c, err := net.Dial("tcp", b.Addrs()[0])
		must.OK(t, err)
		local[i] = c
	}
	if answered(t, b) {
		t.Error("a connection beyond the limit of its listener, and beyond the local places, is served")
	}
	for _, c := range local {
		must.OK(t, c.Close())
	}
	showsRefused(t, b, most, 1)
	alter(kadm.DeleteConfig, most, "", self)
	zero, only := "0", "10.0.0.7:9"
	if _, err := admin.AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{{Name: "max.connections.per.ip", Value: &zero},
		{Name: "max.connections.per.ip.overrides", Value: &only}}, self); err != nil {
		t.Fatal(err)
	}
	if answered(t, b) {
		t.Error("a connection of an address that the overrides do not name is served")
	}
	rates := b.limits.rates // last: what is taken delays all connections that follow
	for of, r := range map[string]*quota.Rate{"the broker": rates.All, "the listener": rates.Each[b.cfg.Listeners[0].Name]} {
		for range 1000 {
			r.Take()
		}
		if r.Take() <= 0 {
			t.Errorf("the new rate of %s is not used", of)
		}
	}
}

// showsRefused checks that a connection from this machine that a limit refused becomes a fact of
// the checks, with the value of the limit. A client may see the end of its connection before.
func showsRefused(t *testing.T, b *Broker, limit string, value int) {
	t.Helper()
	eventually(t, "a refused connection, with the limit "+limit, func() bool {
		var shown checks.Facts
		b.showRefusals(b.components)(&shown)
		return slices.ContainsFunc(shown.Refused, func(x view.Refused) bool {
			return x.Kind == view.RefusedConnection && x.Cause == limit && x.Who.Address == "127.0.0.1"
		}) && shown.ConnectionLimits[limit] == value && shown.ConnectionLimits[checks.LimitTotal] == 500
	})
}

// answered reports whether the broker answers ApiVersions on a new connection.
func answered(t *testing.T, b *Broker) bool {
	t.Helper()
	c, err := net.Dial("tcp", b.Addrs()[0])
	must.OK(t, err)
	defer func() { _ = c.Close() }()
	versions := []byte{0, 0, 0, 10, 0, byte(kmsg.ApiVersions), 0, 0, 0, 0, 0, 1, 0xff, 0xff}
	_, err = c.Write(versions)
	if err == nil {
		_, err = io.ReadFull(c, make([]byte, 4))
	}
	return err == nil
}

// A move of a log that would end at once does not end after its rate was changed to a byte per
// second, and then ends at once after another change, or if the broker stops.
func TestTheRateOfMovesIsAlteredWhileTheBrokerRuns(t *testing.T) {
	t.Run("a stop", func(t *testing.T) { moveSlowly(t, false) })
	t.Run("another rate", func(t *testing.T) { moveSlowly(t, true) })
}

func moveSlowly(t *testing.T, other bool) {
	t.Helper()
	b, _ := startHere(t, vfs.Memory(), "log.dirs=/one,/two")
	fill(t, b, "t", 1, 3)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	must.OK(t, err)
	defer client.Close()
	admin, rate := kadm.NewClient(client), "1"
	alter := func() {
		answers, err := admin.AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig,
			Name: "replica.alter.log.dirs.io.max.bytes.per.second", Value: &rate}})
		if err != nil || answers[0].Err != nil {
			t.Fatal(err, answers)
		}
	}
	alter()
	from := whereIs(t, admin, "t", 0)[0]
	must.OK(t, moveAll(t, admin, map[string]string{"/one": "/two", "/two": "/one"}[from], "t", 0)[0])
	for range 20 {
		if dirs := whereIs(t, admin, "t", 0); !slices.Contains(dirs, from) {
			t.Fatalf("the log has moved to %v", dirs)
		}
	}
	if other { // the move continues at the new rate
		rate = "1000000"
		alter()
		eventually(t, "the log has moved", func() bool { dirs := whereIs(t, admin, "t", 0); return len(dirs) == 1 && dirs[0] != from })
	} // otherwise the broker stops although the copy would wait for minutes
}

// unchanged are settings that can change while a broker runs, and need no test that changes them.
var unchanged = map[string]string{
	"transaction.partition.verification.enable": "it has one value",
}

// TestEverySettingThatCanChangeIsChangedInATest checks that a test of the packages that apply a
// setting of brokers names it. Those that are defaults of topics have tests of their own.
func TestEverySettingThatCanChangeIsChangedInATest(t *testing.T) {
	var tests strings.Builder
	for _, dir := range []string{".", "../broker", "../controller", "../replica", "../testing/system"} {
		files, err := filepath.Glob(dir + "/*_test.go")
		must.OK(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			must.OK(t, err)
			tests.Write(text)
		}
	}
	configs, ofTopics, seen := configdef.New(configdef.Options{}), map[string]bool{}, 0
	for _, d := range configs.Topics() {
		for _, s := range d.Synonyms {
			ofTopics[s.Name] = true
		}
	}
	for _, d := range configs.Brokers() {
		if d.Update == configdef.ReadOnly || ofTopics[d.Name] || unchanged[d.Name] != "" {
			continue
		}
		seen++
		if !regexp.MustCompile(`"` + regexp.QuoteMeta(d.Name) + `"(, "[^"]*"(, \w+)?\)|: +"|, Value|,\n)`).MatchString(tests.String()) {
			t.Errorf("no test changes %s while the broker runs", d.Name)
		}
	}
	if seen < 12 {
		t.Errorf("%d settings can change", seen)
	}
}
