package configdef

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/chronik-io/chronik/internal/sorts"
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
	// Listeners are the limits of listeners, by the name in lower case; only of listeners that have
	// some.
	Listeners map[string]ListenerConnections
}

// ListenerConnections has the limits of one listener, which count in addition to those of all.
// math.MaxInt32 means no limit.
type ListenerConnections struct {
	Most int32
	Rate int32 // new connections, a second
}

// Listener returns the limits of a listener.
func (c *Connections) Listener(name string) ListenerConnections {
	if l, ok := c.Listeners[strings.ToLower(name)]; ok {
		return l
	}
	return ListenerConnections{Most: math.MaxInt32, Rate: math.MaxInt32}
}

func connectionDefs() []*Def {
	return []*Def{
		brokerDef(maxConnections, Int, "2147483647",
			"The maximum number of connections to the broker. By default, the limit depends on how many file descriptors the segments leave "+
				"free, and idle connections, of 24 KiB each, take at most a quarter of the memory. A single listener has its own: max-connections in `listeners:` of the file, or dynamically "+
				"listener.name.NAME."+maxConnections+" with its name in lower case.",
			dynamic(), atLeast(1)),
		brokerDef(maxConnectionsPerIP, Int, "2147483647",
			"The maximum number of connections from one address. With 0, only the addresses in "+connectionOverrides+" may connect.",
			dynamic(), atLeast(0)),
		brokerDef(connectionOverrides, String, "",
			"Other values of max.connections.per.ip for single addresses: ADDRESS:NUMBER, comma-separated. Names of hosts are not resolved.",
			dynamic(), bounded("addresses with numbers of at least 0, such as 10.0.0.7:100,2001:db8::7:20", overrides)),
		brokerDef(maxConnectionRate, Int, "2147483647",
			"The number of new connections that the broker accepts in a second, except those of other brokers; further ones wait. "+
				"A single listener has its own: max-connection-creation-rate in `listeners:` of the file, "+
				"or dynamically listener.name.NAME."+maxConnectionRate+" with its name in lower case.",
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
		if c.Listeners == nil {
			c.Listeners = map[string]ListenerConnections{}
		}
		n, err := strconv.ParseInt(f.r.resolve(d, f.l).Value, 10, 32)
		if err != nil {
			f.fail(err)
		}
		parts := listenerName.FindStringSubmatch(d.Name)
		l := c.Listener(parts[1])
		if parts[2] == maxConnections {
			l.Most = int32(n)
		} else {
			l.Rate = int32(n)
		}
		c.Listeners[parts[1]] = l
	}
	return c
}

// checkPerIP refuses, as Kafka does, to let no address connect. The overrides must be in the same
// set: without those of another one, no client could change it back.
func (r *Registry) checkPerIP(set map[string]string) error {
	if r.broker[maxConnectionsPerIP].Canonical(set[maxConnectionsPerIP]) == "0" && strings.Trim(set[connectionOverrides], " ,") == "" {
		return &Error{maxConnectionsPerIP, maxConnectionsPerIP + " can be set to zero only if " + connectionOverrides + " property is set."}
	}
	return nil
}

// listenerName matches a limit of one listener. As in Kafka, its name is in lower case.
var listenerName = regexp.MustCompile(`^listener\.name\.([a-z0-9_-]{1,32})\.(max\.connections|max\.connection\.creation\.rate)$`)

// ListenerMostName returns the name of the config for the number of connections of a listener.
func ListenerMostName(listener string) string { return listenerConfig(listener, maxConnections) }

// ListenerRateName returns the name of the config for the rate of new connections of a listener.
func ListenerRateName(listener string) string { return listenerConfig(listener, maxConnectionRate) }

func listenerConfig(listener, name string) string {
	return "listener.name." + strings.ToLower(listener) + "." + name
}

// listenerDef returns the definition of a config of one listener; nil for other names.
func (r *Registry) listenerDef(name string) *Def {
	parts := listenerName.FindStringSubmatch(name)
	if parts == nil {
		return nil
	}
	d := *r.broker[parts[2]]
	d.Name, d.Doc = name, "The number of new connections of one listener that the broker accepts in a second; further ones wait."
	if parts[2] == maxConnections {
		d.Doc = "The maximum number of connections to one listener."
	}
	d.Synonyms = []Synonym{{name, 1}} // not the limit of all, which counts as well
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
	return sorts.Sorted(maps.Values(found), func(a, b *Def) int { return cmp.Compare(a.Name, b.Name) })
}
