package configdef

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Names of the limits of connections.
const (
	maxConnections      = "max.connections"
	maxConnectionsPerIP = "max.connections.per.ip"
	connectionOverrides = "max.connections.per.ip.overrides"
	maxConnectionRate   = "max.connection.creation.rate"
)

// Connections has the limits of connections, which can change while a broker runs. math.MaxInt32
// means no limit.
type Connections struct {
	Most  int32
	PerIP int32
	// PerIPOf are limits of single addresses instead of PerIP. It must not be modified.
	PerIPOf map[netip.Addr]int32
	Rate    int32 // new connections of all listeners, a second
	// ListenerRates are those of listeners, by the name in lower case; only of listeners that have
	// one.
	ListenerRates map[string]int32
}

// ListenerRate returns how many new connections of a listener are served in a second.
func (c *Connections) ListenerRate(listener string) int32 {
	if rate, ok := c.ListenerRates[strings.ToLower(listener)]; ok {
		return rate
	}
	return math.MaxInt32
}

func connectionDefs() []*Def {
	return []*Def{
		brokerDef(maxConnections, Int, "2147483647",
			"The maximum number of connections to the broker. By default, the limit depends on how many file descriptors the segments leave free.",
			dynamic(), atLeast(1)),
		brokerDef(maxConnectionsPerIP, Int, "2147483647", "The maximum number of connections from one address.", dynamic(), atLeast(1)),
		brokerDef(connectionOverrides, String, "",
			"Other values of max.connections.per.ip for single addresses: ADDRESS:NUMBER, comma-separated. Names of hosts are not resolved.",
			dynamic(), bounded("addresses with numbers of at least 0, such as 10.0.0.7:100,2001:db8::7:20", overrides)),
		brokerDef(maxConnectionRate, Int, "2147483647",
			"The number of new connections that the broker accepts in a second, except those of other brokers; further ones wait. "+
				"A single listener has its own: max-connection-creation-rate in `listeners:` of the file, "+
				"or dynamically "+ListenerRateName("NAME")+" with its name in lower case.",
			dynamic(), atLeast(1)),
	}
}

func overrides(d *Def, v value) error {
	_, err := parseOverrides(v.s)
	if err != nil {
		return d.invalid(v.s, err.Error())
	}
	return nil
}

// parseOverrides parses ADDRESS:NUMBER,… with an address of IPv6 in brackets or without, as Kafka
// does.
func parseOverrides(s string) (map[netip.Addr]int32, error) {
	var all map[netip.Addr]int32
	for entry := range strings.SplitSeq(s, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		i := strings.LastIndexByte(entry, ':')
		if i < 0 {
			return nil, fmt.Errorf("%q is not ADDRESS:NUMBER", entry)
		}
		host := strings.TrimSuffix(strings.TrimPrefix(entry[:i], "["), "]")
		ip, err := netip.ParseAddr(host)
		if err != nil || ip.Zone() != "" {
			return nil, fmt.Errorf("%q is not an address; names of hosts are not resolved, write their addresses", host)
		}
		n, err := strconv.ParseInt(entry[i+1:], 10, 32)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is not a number from 0 to 2147483647", entry[i+1:])
		}
		if all == nil {
			all = map[netip.Addr]int32{}
		}
		all[ip.Unmap()] = int32(n)
	}
	return all, nil
}

// connections returns the limits of connections in all layers of f.
func (f *reader) connections() Connections {
	c := Connections{
		Most:  int32(f.value(maxConnections).n),
		PerIP: int32(f.value(maxConnectionsPerIP).n),
		Rate:  int32(f.value(maxConnectionRate).n),
	}
	var err error
	if c.PerIPOf, err = parseOverrides(f.value(connectionOverrides).s); err != nil {
		f.fail(err)
	}
	for _, d := range f.r.listenerDefs(f.l.Broker, f.l.All, f.l.Static) {
		if c.ListenerRates == nil {
			c.ListenerRates = map[string]int32{}
		}
		n, err := strconv.ParseInt(f.r.resolve(d, f.l).Value, 10, 32)
		if err != nil {
			f.fail(err)
		}
		c.ListenerRates[listenerName.FindStringSubmatch(d.Name)[1]] = int32(n)
	}
	return c
}

// listenerName matches the rate of one listener. As in Kafka, its name is in lower case.
var listenerName = regexp.MustCompile(`^listener\.name\.([a-z0-9_-]{1,32})\.max\.connection\.creation\.rate$`)

// ListenerRateName returns the name of the config for the rate of new connections of a listener.
func ListenerRateName(listener string) string {
	return "listener.name." + strings.ToLower(listener) + "." + maxConnectionRate
}

// listenerDef returns the definition of a config of one listener; nil for other names.
func (r *Registry) listenerDef(name string) *Def {
	if !listenerName.MatchString(name) {
		return nil
	}
	d := *r.broker[maxConnectionRate]
	d.Name, d.Doc = name, "The number of new connections of one listener that the broker accepts in a second; further ones wait."
	d.Synonyms = []Synonym{{name, 1}} // not the rate of all, which counts as well
	noDefault(&d)
	return &d
}

// listenerDefs returns the configs of single listeners that are set in any of some layers, sorted
// by name.
func (r *Registry) listenerDefs(layers ...map[string]string) []*Def {
	found := map[string]*Def{}
	for _, set := range layers {
		for name := range set {
			if d := r.listenerDef(name); d != nil {
				found[name] = d
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *Def) int { return cmp.Compare(a.Name, b.Name) })
}
