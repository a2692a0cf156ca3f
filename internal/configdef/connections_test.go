package configdef

import (
	"math"
	"net/netip"
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// The limits of connections are dynamic as in Kafka 4.3, also the rate of one listener. What Kafka
// stores and cannot use, such as a host that is not resolved, is refused.
func TestLimitsOfConnectionsAreDynamic(t *testing.T) {
	r := registry()
	for _, c := range []struct{ name, value, want string }{
		{"max.connections", "0", "Invalid value 0 for configuration max.connections: Value must be at least 1"},
		{"max.connections", "9", ""},
		{"max.connections.per.ip", "-1", "Invalid value -1 for configuration max.connections.per.ip: Value must be at least 0"},
		{"max.connections.per.ip", "0",
			"max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."},
		{"listener.name.in.max.connections", "9", ""},
		{"listener.name.in.max.connections", "0",
			"Invalid value 0 for configuration listener.name.in.max.connections: Value must be at least 1"},
		{"listener.name.in.max.connections.per.ip", "9", "Unknown broker config name: listener.name.in.max.connections.per.ip"},
		{"max.connection.creation.rate", "9", ""},
		{"listener.name.in.max.connection.creation.rate", "9", ""},
		{"listener.name.in.max.connection.creation.rate", "0",
			"Invalid value 0 for configuration listener.name.in.max.connection.creation.rate: Value must be at least 1"},
		{"listener.name.IN.max.connection.creation.rate", "9",
			"Unknown broker config name: listener.name.IN.max.connection.creation.rate"},
		{"max.connections.per.ip.overrides", "", ""},
		{"max.connections.per.ip.overrides", "10.0.0.1:5, 2001:db8::1:6,[::1]:0", ""},
		{"max.connections.per.ip.overrides", "localhost:5",
			`Invalid value localhost:5 for configuration max.connections.per.ip.overrides: ` +
				`"localhost" is not an address; names of hosts are not resolved, write their addresses`},
		{"max.connections.per.ip.overrides", "10.0.0.1",
			`Invalid value 10.0.0.1 for configuration max.connections.per.ip.overrides: ` +
				`"10.0.0.1" is not ADDRESS:NUMBER`},
		{"max.connections.per.ip.overrides", "10.0.0.1:-5",
			`Invalid value 10.0.0.1:-5 for configuration max.connections.per.ip.overrides: ` +
				`"-5" is not a number from 0 to 2147483647`},
	} {
		for _, all := range []bool{true, false} {
			wantMsg(t, r.CheckDynamic(map[string]string{c.name: c.value}, all), c.want)
		}
	}
}

// With overrides, other addresses may have no connection, as in Kafka.
func TestNoConnectionsPerAddressButOverrides(t *testing.T) {
	r := registry()
	for overrides, ok := range map[string]bool{"10.0.0.1:5": true, "": false, ",": false} {
		set := map[string]string{"max.connections.per.ip": "0", "max.connections.per.ip.overrides": overrides}
		for _, err := range []error{r.CheckStatic(set), r.CheckDynamic(set, true), r.CheckDynamic(set, false)} {
			if (err == nil) != ok {
				t.Errorf("overrides %q: %v", overrides, err)
			}
		}
	}
}

// The strongest setting counts, also for the limits of one listener.
func TestLimitsOfConnections(t *testing.T) {
	r, in := registry(), ListenerRateName("In")
	l := Layers{
		Broker: map[string]string{in: "3", "max.connections": "7"},
		All:    map[string]string{in: "4", "max.connections": "8", "max.connection.creation.rate": "5"},
		Static: map[string]string{ListenerRateName("out"): "6", ListenerMostName("OUT"): "66", ListenerMostName("in"): "33",
			"max.connections.per.ip.overrides": "::ffff:10.0.0.1:5"},
	}
	live, err := r.ResolveLive(l)
	must.OK(t, err)
	c := live.Connections
	if c.Most != 7 || c.PerIP != math.MaxInt32 || c.Rate != 5 || c.Listener("In") != (ListenerConnections{33, 3}) ||
		c.Listener("out") != (ListenerConnections{66, 6}) ||
		c.Listener("other") != (ListenerConnections{math.MaxInt32, math.MaxInt32}) ||
		c.PerIPOf[netip.MustParseAddr("10.0.0.1")] != 5 {
		t.Errorf("%+v", c)
	}
	want := []Setting{{in, "3", SourceDynamicBroker}, {in, "4", SourceDynamicAll}}
	described := r.DescribeBroker(l)
	i := slices.IndexFunc(described, func(v Value) bool { return v.Def.Name == in })
	if i < 0 || described[i].Value != "3" || described[i].Source != SourceDynamicBroker || !slices.Equal(described[i].Settings, want) {
		t.Errorf("%+v", described[max(i, 0)])
	}
	if all := r.DescribeAll(l.All); len(all) != 3 || all[0].Def.Name != in || all[0].Value != "4" || all[2].Def.Name != "max.connections" {
		t.Errorf("of all brokers: %+v", all)
	}
}
