package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/pkg/durability"
)

// DefaultAdminListen is where metrics and health are served unless told otherwise.
const DefaultAdminListen = "127.0.0.1:9644"

// Localhost as the host of a listener is all loopback addresses of the machine.
const Localhost = "localhost"

// DefaultListen is where clients connect unless told otherwise.
const DefaultListen = Localhost + ":9092"

// Off is the value of admin.listen that opens no admin port.
const Off = "off"

// Own returns the daemon's own settings, in the order in which people read them.
func Own() []Def {
	return []Def{
		{Name: KeyDataDir, Default: "data", Type: "string", Check: notEmpty,
			Doc: "Directory of the metadata file and the first log directory. Made where it is missing; one broker at a time may use it."},
		{Name: KeyListen, Default: DefaultListen, Type: "string", Bounds: "HOST:PORT", Check: bindAddress, Broker: "listeners",
			Doc: "Where clients connect. localhost is 127.0.0.1 and ::1, an empty host every address. The address of the first entry of the file's `listeners:`; in the file it is written there."},
		{Name: KeyAdvertise, Default: "", Type: "string", Bounds: "HOST:PORT", Check: dialAddress, Broker: "advertised.listeners",
			Doc: "The address that clients are told to dial, of the first listener. Empty: the one that the client dialled. Needed where clients reach the broker through address translation, as with a container's published port."},
		{Name: KeyAdminListen, Default: DefaultAdminListen, Type: "string", Bounds: "HOST:PORT or off", Check: adminAddress,
			Doc: "Where /metrics, /healthz, /readyz, /loglevel and /debug/pprof are served. There is no authentication on it: keep it on loopback or a private network."},
		{Name: KeyAdminHosts, Default: "", Type: "list", Bounds: "names of hosts, comma-separated", Check: hostNames,
			Doc: "Names under which the admin port may be asked for more than metrics and health, beside addresses, localhost, the machine's own name and the names that clients are told. A web page of any other name is refused."},
		{Name: KeyAdminRemote, Default: "false", Type: "boolean", Bounds: "true, false", Check: oneOf([]string{"true", "false"}),
			Doc: "Whether other machines may change the log level, have the disks measured and take profiles. Without it only this machine may; everybody who reaches the port reads metrics, health and the JSON."},
		{Name: KeyWALProfile, Default: "sync", Type: "string", Bounds: "the name of a durability profile", Check: notEmpty,
			Broker: configdef.DurabilityProfile, Live: LiveByClients,
			Doc: "Durability profile of topics that set no chronik.durability.profile of their own. See docs/durability.md."},
		{Name: KeyProduceProfile, Default: "balanced", Type: "string", Bounds: "low-latency, balanced, high-throughput, extreme", Check: producePreset, Broker: configdef.ProduceProfile,
			Doc: "How many bytes of produce requests may wait in the broker before producing connections are no longer read, and how many one connection may have in flight."},
		{Name: KeyMetricsEach, Default: "true", Type: "boolean", Bounds: "true, false", Check: oneOf([]string{"true", "false"}),
			Doc: "Whether /metrics has series of each partition: sizes, offsets, lag of groups. Without them there are sums by broker, and by group and topic; /v1/logs has the rest."},
		{Name: KeyLogLevel, Default: "info", Type: "string", Bounds: strings.Join(levels(), ", "), Check: oneOf(levels()), Live: "PUT /loglevel",
			Doc: "Least severe messages that are logged. While running it is changed on the admin port."},
		{Name: KeyLogFormat, Default: "auto", Type: "string", Bounds: strings.Join(formats(), ", "), Check: oneOf(formats()),
			Doc: "How messages are written to standard error: console lines or JSON. auto is console on a terminal and JSON otherwise."},
	}
}

// hostNames accepts names without ports, or nothing.
func hostNames(v string) error {
	for name := range strings.SplitSeq(v, ",") {
		if name = strings.TrimSpace(name); v != "" && (name == "" || strings.ContainsAny(name, ":/ \t")) {
			return fmt.Errorf("%q is no name of a host; write names without ports, such as broker.example.com, with commas between them", name)
		}
	}
	return nil
}

func levels() []string  { return []string{"debug", "info", "warn", "error"} }
func formats() []string { return []string{"auto", "console", "json"} }

func notEmpty(v string) error {
	if strings.TrimSpace(v) == "" {
		return errors.New("is empty; leave the key out for the default")
	}
	return nil
}

func oneOf(known []string) func(string) error {
	return func(v string) error {
		if slices.Contains(known, v) {
			return nil
		}
		return fmt.Errorf("%q is none of them; use one of %s", v, strings.Join(known, ", "))
	}
}

func producePreset(v string) error {
	_, err := durability.LookupPreset(v)
	return err
}
