package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/pkg/durability"
)

// DefaultAdminListen is the default address of metrics and health.
const DefaultAdminListen = "127.0.0.1:9644"

// Localhost as the host of a listener means all loopback addresses of the machine.
const Localhost = "localhost"

// DefaultListen is the default address for clients.
const DefaultListen = Localhost + ":9092"

// Off is the value of admin.listen that disables the admin port.
const Off = "off"

// Own returns the daemon's own settings in reading order.
func Own() []Def { return append(generalDefs(), securityDefs()...) }

func generalDefs() []Def {
	return []Def{
		{Name: KeyDataDir, Default: "data", Type: "string", Check: notEmpty,
			Doc: "Directory of the metadata and, without log.dirs, of the log directory. The broker creates it if it is missing; only one broker at a time may use it. Without log.dirs, its name cannot have a comma."},
		{Name: KeyListen, Default: DefaultListen, Type: "string", Bounds: "HOST:PORT", Check: bindAddress, Broker: "listeners",
			Doc: "Address for clients. localhost means 127.0.0.1 and ::1, an empty host every address. In the file, it also is the `listen` of the first entry of `listeners:`."},
		{Name: KeyAdvertise, Default: "", Type: "string", Bounds: "HOST:PORT", Check: dialAddress, Broker: "advertised.listeners",
			Doc: "Address that the first listener advertises to clients. Empty means the address that the client dialed. Set it if clients reach the broker through address translation, as with a container's published port."},
		{Name: KeyAdminListen, Default: DefaultAdminListen, Type: "string", Bounds: "HOST:PORT or off", Check: adminAddress,
			Doc: "Address of /metrics, /healthz, /readyz, /loglevel and /debug/pprof. Every machine that reaches it can read from it, unless admin.token-file or admin.client-ca is set, or authorization is acl."},
		{Name: KeyAdminHosts, Default: "", Type: "list", Bounds: "names of hosts, comma-separated", Check: hostNames,
			Doc: "Further host names under which the admin port serves requests. It always accepts IP addresses, localhost, the machine's own name and advertised names. It refuses requests with any other host name, because they may come from a web page of another site."},
		{Name: KeyAdminRemote, Default: "false", Type: "boolean", Bounds: "true, false", Check: oneOf([]string{"true", "false"}),
			Doc: "Whether other machines may change the log level, start measurements of the disks, take profiles, and read records, the log and traces. It says nothing of machines that may not read from the port at all; see admin.listen. If false, only this machine may, and who sends the token of admin.token-file or shows a certificate of admin.client-ca."},
		{Name: KeyWALProfile, Default: "sync", Type: "string", Bounds: profiles(), Check: notEmpty,
			Broker: configdef.DurabilityProfile, Live: LiveByClients,
			Doc: "Durability profile of topics that set no chronik.durability.profile of their own. See docs/durability.md."},
		{
			Name:    KeyProduceProfile,
			Default: "balanced",
			Type:    "string",
			Bounds:  "low-latency, balanced, high-throughput, extreme",
			Check:   produceProfile,
			Broker:  configdef.ProduceProfileConfig,
			Doc:     "Limits on the bytes of produce requests that wait in the broker, in total and for each connection. Above a limit, the broker stops reading from the producing connections. The profile also limits the requests that one connection may have in flight.",
		},
		{Name: KeyMetricsPartitions, Default: "true", Type: "boolean", Bounds: "true, false", Check: oneOf([]string{"true", "false"}),
			Doc: "Whether /metrics has series for each partition: sizes, offsets, group lag. If false, it has only sums for the broker, and the lag by group and topic; /v1/logs still has the sizes and offsets of each partition."},
		{
			Name:    KeyLogLevel,
			Default: "info",
			Type:    "string",
			Bounds:  strings.Join(levels(), ", "),
			Check:   oneOf(levels()),
			Live:    "PUT /loglevel",
			Doc:     "Minimum severity of the messages that are logged. The admin port changes it while the broker runs.",
		},
		{Name: KeyLogFormat, Default: "auto", Type: "string", Bounds: strings.Join(formats(), ", "), Check: oneOf(formats()),
			Doc: "Format of messages on standard error: console lines or JSON. auto means console on a terminal and JSON otherwise."},
	}
}

// hostNames accepts names without ports, or nothing.
func hostNames(v string) error {
	for name := range strings.SplitSeq(v, ",") {
		if name = strings.TrimSpace(name); v != "" && (name == "" || strings.ContainsAny(name, ":/ \t")) {
			return fmt.Errorf("%q is not a host name; write names without ports, such as broker.example.com, separated by commas", name)
		}
	}
	return nil
}

// profiles describes the names of durability profiles.
func profiles() string {
	var names []string
	for _, p := range durability.Builtin() {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ") + ", or one of the file"
}

func levels() []string  { return []string{"debug", "info", "warn", "error"} }
func formats() []string { return []string{"auto", "console", "json"} }

func notEmpty(v string) error {
	if strings.TrimSpace(v) == "" {
		return errors.New("is empty; leave out the key for the default")
	}
	return nil
}

func oneOf(known []string) func(string) error {
	return func(v string) error {
		if slices.Contains(known, v) {
			return nil
		}
		return fmt.Errorf("%q is not valid; use one of %s", v, strings.Join(known, ", "))
	}
}

func produceProfile(v string) error {
	_, err := configdef.LookupProduceProfile(v)
	return err
}
