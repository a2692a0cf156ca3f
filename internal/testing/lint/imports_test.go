package lint

import "maps"

// importRule states what one package may import.
type importRule struct {
	// may lists the packages of this module that it may import, without the module path;
	// "x/..." stands for x and everything below it. TestImportRulesAreUsed rejects unused entries.
	may []string
	// common lists further packages of this module that all packages of a group may import, whether
	// each of them does or not.
	common []string
	// never lists packages of other modules that it must not import.
	never []string
	// because is the reason that a failing test prints.
	because string
}

// Packages of other modules that only some packages may import.
const (
	kmsgPkg  = "github.com/twmb/franz-go/..."
	osPkg    = "os"
	unixPkg  = "golang.org/x/sys/unix"
	netPkg   = "net"
	cobraPkg = "github.com/spf13/cobra"
	yamlPkg  = "go.yaml.in/yaml/..."
)

var (
	noDisk     = []string{osPkg, unixPkg, cobraPkg, yamlPkg}
	noProtocol = []string{osPkg, unixPkg, cobraPkg, yamlPkg, kmsgPkg, netPkg}
)

const (
	leafReason    = "a leaf package knows nothing of the packages above it"
	storageReason = "storage knows neither acks nor ISR nor kmsg, and reaches the disk through vfs only"
	replicaReason = "replica stands on storage and metadata and does not know its callers"
	clusterReason = "the controller and the coordinators change metadata; requests and connections are above them"
	machineReason = "a state machine takes events and the time and returns records and answers: no I/O, no goroutines, no clock"
	streamReason  = "streams copy logs over connections that the daemon provides, and know neither metadata nor sockets"
	coreReason    = "the core of replication is pure, so that the simulation can run it: ends and records in, decisions out"
	ctlReason     = "chronikctl talks to any broker over the protocol, and to chronik's admin port, and must not know this one's insides"
	benchReason   = "a load generator speaks the protocol from outside and must not know the broker that it measures; record builds its batches"
	serviceReason = "a service connects the coordinator runtime to partitions and metadata; requests are above it"
	wireReason    = "protocol and network carry requests and know neither logs nor topics"
	checkReason   = "a check turns facts into findings and reads nothing, so that a test can describe any machine"
	brokerReason  = "a handler maps a request to the packages below it; it opens no files and starts no components"
)

// ground lists the leaf packages of this module that every package may import, as it may import the
// standard library.
var ground = []string{"internal/breakrules", "internal/bytesio", "internal/few", "internal/label", "internal/pattern", "internal/pause",
	"internal/series", "internal/share", "internal/sorts"}

// importRules returns the rule of every package, by its path without the module path. Add a new
// package here and to docs/architecture.md in the same commit.
func importRules() map[string]importRule {
	leaf := func(may ...string) importRule { return importRule{may: may, never: noProtocol, because: leafReason} }
	all := map[string]importRule{
		"pkg/durability": leaf(),
		"internal/vfs": {may: []string{"internal/vfs/ram"}, never: []string{cobraPkg, yamlPkg, kmsgPkg},
			because: "vfs is the only way to the disk and knows no other package"},
		"internal/vfs/ram": leaf(),
		"internal/record": {may: []string{"internal/bufpool"}, never: noProtocol,
			because: "record is bytes in, bytes out: no files, no requests, so that it can be fuzzed and reused anywhere"},
		"internal/bufpool":     {never: []string{osPkg, cobraPkg, yamlPkg, kmsgPkg, netPkg}, because: leafReason}, // it maps memory
		"internal/groupcommit": leaf(),
		"internal/breakrules":  leaf(), "internal/bytesio": leaf(), "internal/few": leaf(),
		"internal/label":   leaf(),
		"internal/pause":   leaf(),
		"internal/series":  leaf(),
		"internal/pattern": leaf(),
		"internal/share":   leaf(),
		"internal/states":  leaf(),
		"internal/metrics": {may: []string{"internal/view"}, never: append([]string{kmsgPkg, cobraPkg, yamlPkg}, osPkg),
			because: leafReason},
		"internal/configdef": leaf("pkg/durability", "internal/objects"),
		"internal/memory": {may: []string{"internal/configdef", "internal/protocol", "internal/vfs"}, never: noProtocol,
			because: "it computes sizes: who counts against them knows what they are for"},

		"internal/inspect": {may: []string{"internal/text", "internal/statelog", "internal/storage/...", "internal/storage",
			"internal/coordinator/group/format", "internal/coordinator/sharestate/format", "internal/sharegroup/window", "internal/health",
			"internal/metadata", "internal/metadata/copies", "internal/metadata/raftstore", "internal/record", "internal/vfs"},
			never:   noProtocol,
			because: "an offline inspection uses storage's own code, reaches the disk through vfs, and knows no command line"},

		"internal/purgatory": {never: noProtocol, because: "purgatory delays operations without knowing their kinds"},
		"internal/replica": {may: []string{"internal/storage/...", "internal/purgatory", "internal/metadata", "internal/record",
			"internal/configdef", "internal/groupcommit", "internal/replica/progress", "internal/view", "pkg/durability"},
			never: noProtocol, because: replicaReason},
		"internal/replica/stream": {may: []string{"internal/replica", "internal/replica/progress", "internal/storage", "internal/record",
			"internal/bufpool", "internal/groupcommit", "internal/link/frame", "internal/view"},
			never: append([]string{netPkg}, noProtocol...), because: streamReason},

		"internal/controller": {may: []string{"internal/controller/election", "internal/metadata", "internal/configdef",
			"internal/security/acl", "internal/security/quota", "internal/security/secret"},
			never: noProtocol, because: clusterReason},

		"internal/protocol":         {never: noDisk, because: wireReason},
		"internal/network/connlife": leaf("internal/states"),
		"internal/network": {
			may: []string{"internal/protocol", "internal/bufpool", "internal/groupcommit", "internal/network/connlife", "internal/states",
				"internal/security/origin", "internal/security/quota", "internal/view"},
			never: []string{cobraPkg, yamlPkg}, because: wireReason},
		"internal/forward": {may: []string{"internal/network", "internal/protocol", "internal/bufpool", "internal/view"},
			never: []string{cobraPkg, yamlPkg, kmsgPkg}, because: wireReason},
		"internal/broker": {may: []string{"internal/network", "internal/forward", "internal/protocol", "internal/controller",
			"internal/text", "internal/replica", "internal/coordinator", "internal/coordinator/errcode", "internal/coordinator/group",
			"internal/coordinator/service", "internal/coordinator/sharestate/...", "internal/coordinator/txn/...",
			"internal/sharegroup/window", "internal/shareleader", "internal/metadata", "internal/purgatory", "internal/storage",
			"internal/storage/producers", "internal/storage/txnindex", "internal/record", "internal/bufpool", "internal/configdef",
			"internal/audit", "internal/health", "internal/login", "internal/security/...", "internal/telemetry", "internal/view"},
			never: noDisk, because: brokerReason},

		"internal/telemetry": {may: []string{"internal/configdef", "internal/metadata", "internal/security/origin", "internal/view"},
			never:   append([]string{kmsgPkg}, noDisk...),
			because: "it keeps what clients push, and knows neither requests nor how metrics are shown"},

		"internal/config": {may: []string{"internal/text", "internal/configdef", "pkg/durability"},
			never:   []string{kmsgPkg},
			because: "the loader knows names, units and bounds; only the daemon knows which component gets a value"},
		"internal/config/resolve": {may: []string{"internal/config", "internal/configdef", "pkg/durability"},
			never:   []string{osPkg, unixPkg, cobraPkg, yamlPkg, kmsgPkg},
			because: "chronikd and chronikctl log read the same configs from a file; it opens none that a setting names"},
		"internal/slogcore":           leaf(),
		"cmd/chronikd":                {may: []string{"internal/chronikd"}, because: "a main of at most 40 lines"},
		"cmd/chronikctl":              {may: []string{"internal/tools/ctl"}, because: "a main of at most 40 lines"},
		"cmd/chronik-bench":           {may: []string{"internal/tools/bench/command"}, because: "a main of at most 40 lines"},
		"scripts/clients/secure/keys": {because: "makes certificates and tokens as others do, without the broker's code"},
		"internal/cli": {may: []string{"internal/text"}, never: []string{yamlPkg, kmsgPkg},
			because: "it holds the parts that three command lines share and knows no command"},
		"internal/text": {never: append([]string{kmsgPkg}, noDisk...),
			because: "a leaf: it formats texts without interpreting them"},
		"internal/logtail": {never: noProtocol, because: "a leaf: lines of a log are bytes to it"},
		"scripts/man": {may: []string{"internal/chronikd", "internal/tools/ctl/...", "internal/tools/bench/command", "internal/cli/..."},
			because: "it collects the texts of the tools and adds none of its own"},
		"scripts/pauses": {because: "it runs any tests"}, "scripts/platforms": {because: "it reads chronik's sources as data"},
		"scripts/sbom": {because: "it reads programs as data"},
	}
	for _, client := range []string{"groups", "kgo", "secure/kgo", "telemetry/kgo", "share/kgo", "txn/kgo"} {
		all["scripts/clients/"+client] = importRule{because: "a client test speaks the protocol from outside"}
	}
	maps.Copy(all, pureRules())
	maps.Copy(all, testRules())
	maps.Copy(all, metadataRules())
	maps.Copy(all, storageRules())
	maps.Copy(all, linkRules())
	maps.Copy(all, benchRules())
	maps.Copy(all, healthRules())
	maps.Copy(all, ctlRules())
	maps.Copy(all, daemonRules())
	maps.Copy(all, clusterRules())
	maps.Copy(all, coordinatorRules())
	maps.Copy(all, securityRules())
	return all
}

// securityRules returns the rules of the packages that decide who a client is and what it may do.
func securityRules() map[string]importRule {
	return map[string]importRule{
		"internal/security/acl": {never: noProtocol,
			because: "rules are data and decisions are pure; the broker joins them with sessions, and the daemon with metadata"},
		"internal/security/origin": {never: []string{osPkg, unixPkg, cobraPkg, yamlPkg, kmsgPkg},
			because: "a leaf: it counts addresses and connections by their origins, and knows nothing that they carry"},
		"internal/security/refusals": {may: []string{"internal/text", "internal/view"}, never: noProtocol,
			because: "it counts what others refuse, and knows neither requests nor connections"},
		"internal/security/quota": {may: []string{"internal/security/origin", "internal/security/refusals", "internal/view"},
			never:   noProtocol,
			because: "quotas are data and balances are pure, with the time given; the broker joins them with sessions"},
		"internal/security/secret": {never: noProtocol, because: leafReason},
		"internal/audit": {may: []string{"internal/security/origin", "internal/text", "internal/vfs"},
			never:   []string{unixPkg, cobraPkg, yamlPkg, kmsgPkg, netPkg},
			because: "a leaf: it counts and writes events, and does not know where they come from"},
		"internal/audit/changes": {may: []string{"internal/metadata", "internal/security/acl", "internal/audit"},
			never:   noProtocol,
			because: "it stands between the controller and a metadata store, and knows no requests"},
		"internal/security/files": {may: []string{"internal/vfs"}, never: []string{cobraPkg, yamlPkg, kmsgPkg, netPkg},
			because: "a leaf: it reads secrets and certificates and does not know what they contain"},
		"internal/security/certs": {may: []string{"internal/security/files"}, never: []string{osPkg, unixPkg, cobraPkg, yamlPkg, kmsgPkg},
			because: "it checks and makes certificates; connections are above it"},
		"internal/secureinit": {may: []string{"internal/cli/contexts", "internal/config", "internal/login", "internal/metadata",
			"internal/security/certs", "internal/security/files", "internal/security/secret", "internal/vfs"}, never: []string{kmsgPkg},
			because: "it makes files before there is a broker"},
		"internal/login": {may: []string{"internal/metadata", "internal/security/origin", "internal/security/secret"},
			never:   []string{osPkg, unixPkg, cobraPkg, yamlPkg, kmsgPkg, netPkg},
			because: "a login is a state machine: bytes in, bytes out; connections are above it, and it knows no rights"},
	}
}

// testRules returns the rules of the packages that only tests use. No program contains one:
// TestClosedFolders.
func testRules() map[string]importRule {
	return map[string]importRule{
		"internal/testing/crashfs": {may: []string{"internal/vfs", "internal/vfs/ram"}, never: noProtocol, because: leafReason},
		"internal/testing/errfs":   {may: []string{"internal/vfs"}, never: noProtocol, because: leafReason},
		"internal/testing/vfstest": {may: []string{"internal/vfs"}, never: noProtocol, because: leafReason},
		"internal/testing/statestest": {may: []string{"internal/states"}, never: noProtocol,
			because: "it compares tables of states with their drawings"},
		"internal/testing/objecttest": {may: []string{"internal/objects", "internal/testing/must"}, never: noProtocol,
			because: "it checks the contract of objects.Store and knows no store"},
		"internal/testing/faultstore": {may: []string{"internal/objects", "internal/objects/dirstore", "internal/testing/crashfs",
			"internal/testing/errfs", "internal/testing/must", "internal/testing/race"}, never: noProtocol, because: leafReason},
		"internal/testing/fakebroker": {because: "it speaks the protocol for any test and knows no component"},
		"internal/testing/storetest": {may: []string{"internal/metadata", "internal/metadata/kv"}, never: noProtocol,
			because: "it checks the contract of metadata.Store and knows no back end"},
		"internal/testing/solestore": {may: []string{"internal/metadata", "internal/metadata/raftstore"}, never: noProtocol,
			because: "tests of the packages above need metadata without a start of a broker"},
		"internal/testing/sharetest": {may: []string{"internal/coordinator/...", "internal/storage/epochs"}, never: noDisk,
			because: leafReason},
		"internal/testing/replicatest": {may: []string{"internal/replica", "internal/replica/progress"}, never: noProtocol,
			because: "tests of the packages above give partitions a role without metadata"},
		"internal/testing/simnet": {never: noProtocol, because: leafReason},
		"internal/testing/sim":    {because: "no code of its own: its tests simulate a cluster around the pure cores"},
		"internal/testing/check":  {never: noProtocol, because: leafReason},
		"internal/testing/shareload": {may: []string{"internal/record", "internal/testing/check"}, never: noDisk,
			because: "its members use brokers over the protocol and must not know their insides"},
		"internal/testing/removed": {because: "no code of its own: its tests remove rules from other packages"},
		"internal/testing/txncases": {never: []string{osPkg, unixPkg, cobraPkg, yamlPkg},
			because: "the cases ask a broker over the protocol and must not know its insides: they also run against Kafka"},
		"internal/testing/brokers": {because: "no code of its own: its tests run whole brokers and clients under virtual time"},
		"internal/testing/simtcp": {never: []string{unixPkg, cobraPkg, yamlPkg, kmsgPkg},
			because: "a leaf: connections in memory, which know nothing of the bytes"},
		"internal/testing/race": {never: noProtocol, because: "a leaf: it knows how this process was built"},
		"internal/testing/tries": {may: []string{"internal/testing/race"}, never: []string{cobraPkg, unixPkg, yamlPkg, kmsgPkg, netPkg},
			because: "it knows the environment, the clock and the race detector"},
		"internal/testing/must": {never: noProtocol, because: leafReason},
		"internal/testing/ports": {never: []string{osPkg, cobraPkg, unixPkg, yamlPkg, kmsgPkg},
			because: "a leaf: it knows ports of this machine"},
		"internal/testing/names": {never: []string{osPkg, cobraPkg, unixPkg, yamlPkg, kmsgPkg},
			because: "a leaf: it knows how names are looked up"},
		"internal/testing/golden": {never: []string{cobraPkg, unixPkg, yamlPkg, kmsgPkg, netPkg},
			because: "a leaf: it compares the output of tests with files"},
		"internal/testing/hostile": {may: []string{"internal/record"}, never: []string{unixPkg, cobraPkg, yamlPkg},
			because: "an attack speaks the protocol from outside and must not know its target; record builds its batches"},
		"internal/testing/lint":   {because: "no code of its own: its tests read the tree"},
		"internal/testing/system": {because: "no code of its own: its tests run the programs"},
	}
}

// metadataRules returns the rules of the packages that hold the cluster's metadata.
func metadataRules() map[string]importRule {
	backEnd := func(may ...string) importRule {
		may = append(may, "internal/metadata", "internal/metadata/kv", "internal/statelog", "internal/vfs")
		return importRule{may: may, never: noProtocol,
			because: "a back end implements metadata.Store and does not interpret the records that it stores"}
	}
	return map[string]importRule{
		"internal/metadata": {may: []string{"internal/security/acl", "internal/security/quota", "internal/security/secret",
			"internal/view"},
			never: noProtocol, because: "the Image is data; components that act on it subscribe"},
		"internal/metadata/kv": {may: []string{"internal/metadata"}, never: noProtocol,
			because: "it decides transactions in memory; a back end stores them"},
		"internal/metadata/copies":    backEnd(),
		"internal/metadata/raftstore": backEnd(),
	}
}

// pureRules returns the rules of the decisions of replication and of share groups.
func pureRules() map[string]importRule {
	return map[string]importRule{
		"internal/replica/progress":    {never: noProtocol, because: coreReason},
		"internal/controller/election": {may: []string{"internal/metadata"}, never: noProtocol, because: coreReason},
		"internal/sharegroup/window":   {never: noProtocol, because: machineReason},
		"internal/sorts":               {never: noProtocol, because: leafReason},
	}
}

// storageRules returns the rules of the packages that write logs to disk.
func storageRules() map[string]importRule {
	store := func(may ...string) importRule { return importRule{may: may, never: noProtocol, because: storageReason} }
	all := map[string]importRule{
		"internal/statelog": {may: []string{"internal/vfs"}, never: noProtocol,
			because: "a record is bytes to it: it knows neither metadata nor logs"},

		"internal/storage/journal": store("internal/vfs", "internal/groupcommit", "pkg/durability"),
		"internal/storage/segment": store("internal/vfs", "internal/record", "internal/bufpool", "internal/storage/statefile",
			"internal/storage/txnindex", "internal/storage/epochs"),
		"internal/storage/producers": store("internal/record", "internal/storage/txnindex"),
		"internal/storage/checkpoint": store("internal/statelog", "internal/storage/epochs", "internal/storage/journal",
			"internal/storage/txnindex", "internal/vfs"),
		"internal/storage/epochs":    store(),
		"internal/storage/txnindex":  store(),
		"internal/storage/statefile": store("internal/vfs"),
		"internal/storage/cleaner":   store("internal/record"),
		"internal/storage/diskguard": store("internal/text"),
		"internal/storage/loglife":   store("internal/states"),
		"internal/storage": store("internal/storage/...", "internal/states",
			"internal/statelog", "internal/vfs", "internal/record", "internal/bufpool",
			"internal/metrics", "internal/groupcommit", "pkg/durability"),
	}
	maps.Copy(all, archiveRules())
	return all
}

// archiveRules returns the rules of what stores copies outside of the log directories.
func archiveRules() map[string]importRule {
	return map[string]importRule{
		"internal/objects": {never: noProtocol, because: "an object is bytes to it: it knows neither logs nor the stores"},
		"internal/archive/format": {may: []string{"internal/objects", "internal/record", "internal/storage/epochs",
			"internal/storage/txnindex"}, never: noProtocol,
			because: "objects are bytes in, values out, so that they can be fuzzed: no log, no metadata, no snapshot in progress"},
		"internal/archive/cut": {may: []string{"internal/metadata", "internal/replica"}, never: noProtocol,
			because: "it decides from images and answers of brokers; the daemon connects it to links and to the metadata"},
		"internal/archive/restore": {may: []string{"internal/archive/format", "internal/archive/upload", "internal/configdef",
			"internal/controller", "internal/datadir", "internal/exit", "internal/label", "internal/metadata",
			"internal/metadata/raftstore", "internal/objects", "internal/pause", "internal/record", "internal/replica", "internal/storage",
			"internal/text", "internal/vfs", "pkg/durability"},
			never: noProtocol, because: "it turns objects into the directories of a broker, and knows no flags"},
		"internal/archive/access": {may: []string{"internal/configdef", "internal/objects", "internal/objects/dirstore",
			"internal/objects/s3store", "internal/security/certs", "internal/security/files", "internal/security/secret", "internal/vfs"},
			because: "it opens the store that the settings name, and knows nothing of what is in it"},
		"internal/archive/snapshots": {may: []string{"internal/archive/cut", "internal/archive/format", "internal/archive/restore",
			"internal/archive/writer", "internal/configdef", "internal/controller", "internal/metadata", "internal/objects",
			"internal/replica", "internal/text", "internal/view"}, never: noProtocol,
			because: "it works on the metadata leader, and reaches other brokers through functions that the daemon provides"},
		"internal/archive/upload": {may: []string{"internal/archive/format", "internal/objects", "internal/record", "internal/storage",
			"internal/storage/epochs", "internal/storage/txnindex"}, never: noProtocol,
			because: "it moves batches from a log to a store, and knows neither leaders nor metadata"},
		"internal/archive/tierread": {may: []string{"internal/archive/format", "internal/bufpool", "internal/objects", "internal/record",
			"internal/storage", "internal/storage/txnindex"}, never: noProtocol,
			because: "it reads what a copy names from a store, and knows neither partitions nor metadata"},
		"internal/archive/tier": {may: []string{"internal/archive/format", "internal/archive/tierread", "internal/archive/upload",
			"internal/configdef", "internal/label", "internal/metadata", "internal/objects", "internal/pause", "internal/replica",
			"internal/storage", "internal/storage/cleaner", "internal/storage/epochs", "internal/storage/txnindex",
			"internal/view"}, never: noProtocol,
			because: "it copies what a broker leads; the daemon connects it to the controller, to settings and to the store"},
		"internal/archive/writer": {may: []string{"internal/archive/format", "internal/archive/upload", "internal/metadata",
			"internal/objects", "internal/replica", "internal/storage", "internal/storage/epochs"}, never: noProtocol,
			because: "it uploads what a broker leads for a job; the daemon connects it to links, to settings and to the store"},
		"internal/objects/s3store": {may: []string{"internal/objects", "internal/security/secret"},
			never:   []string{osPkg, unixPkg, cobraPkg, yamlPkg, kmsgPkg},
			because: "a store of objects does not know what an object contains, or where its keys come from"},
		"internal/objects/dirstore": {may: []string{"internal/objects", "internal/vfs"}, never: noProtocol,
			because: "a store of objects reaches the disk through vfs and does not know what an object contains"},
	}
}

// daemonRules returns the rules of what starts, connects and stops the components.
func daemonRules() map[string]importRule {
	return map[string]importRule{
		"internal/daemon/archiving": {may: []string{"internal/archive/access", "internal/archive/format", "internal/archive/snapshots",
			"internal/archive/tier", "internal/archive/tierread", "internal/archive/writer", "internal/bufpool", "internal/cluster",
			"internal/configdef", "internal/controller", "internal/health/checks", "internal/metadata", "internal/metrics",
			"internal/objects", "internal/record", "internal/replica", "internal/vfs", "internal/view"},
			never:   []string{unixPkg, cobraPkg, yamlPkg, kmsgPkg},
			because: "it connects what takes snapshots, and what copies and reads old records; requests are above it"},
		"internal/daemon": {may: []string{"internal/admin", "internal/broker", "internal/config",
			"internal/config/resolve", "internal/configdef", "internal/controller", "internal/cluster",
			"internal/daemon/archiving", "internal/daemon/coordinators", "internal/datadir",
			"internal/exit", "internal/guard", "internal/observe",
			"internal/health", "internal/health/checks", "internal/logtail", "internal/memory", "internal/metadata", "internal/metrics",
			"internal/network", "internal/replica", "internal/storage", "internal/vfs", "internal/view"},
			never:   []string{unixPkg, cobraPkg, yamlPkg, kmsgPkg},
			because: "the daemon connects the components; what a program does from outside is none of them"},
		"pkg/chronik": {may: []string{"internal/config", "internal/config/resolve", "internal/daemon", "internal/datadir",
			"internal/exit", "internal/health", "internal/slogcore", "internal/vfs", "pkg/durability"},
			because: "a program that embeds a broker gets the daemon's wiring, not one of its own"},
		"internal/chronikd": {may: []string{"internal/archive/access", "internal/archive/restore", "internal/chronikd/supervise",
			"internal/cli",
			"internal/cli/contexts", "internal/config", "internal/config/resolve", "internal/configdef", "internal/daemon",
			"internal/cluster", "internal/datadir", "internal/exit", "internal/guard", "internal/login", "internal/membership",
			"internal/memory", "internal/metadata", "internal/secureinit",
			"internal/security/certs", "internal/security/files", "internal/security/secret", "internal/text", "internal/vfs"},
			because: "a command line starts the broker, or does what a broker that is stopped needs; no component knows it"},
		"internal/chronikd/supervise": {may: []string{"internal/text"},
			never:   []string{unixPkg, cobraPkg, yamlPkg},
			because: "it sees the broker from outside, so that a test can show it any"},
		"internal/guard": {may: []string{"internal/audit", "internal/audit/changes",
			"internal/config", "internal/configdef", "internal/controller", "internal/exit",
			"internal/observe", "internal/health", "internal/health/checks", "internal/link", "internal/login",
			"internal/metadata", "internal/metrics", "internal/network", "internal/security/acl", "internal/security/certs",
			"internal/security/files", "internal/security/quota", "internal/security/refusals", "internal/security/secret", "internal/vfs",
			"internal/view"},
			never:   []string{unixPkg, cobraPkg, yamlPkg, kmsgPkg},
			because: "it connects what decides about clients with the configuration and the metadata; the daemon starts it"},
		"internal/datadir": {may: []string{"internal/config", "internal/config/resolve", "internal/configdef",
			"internal/exit", "internal/observe", "internal/health", "internal/health/checks",
			"internal/health/host", "internal/metadata", "internal/metadata/copies", "internal/metadata/raftstore",
			"internal/statelog", "internal/storage", "internal/storage/checkpoint", "internal/storage/journal",
			"internal/storage/statefile", "internal/text", "internal/vfs"},
			never:   []string{unixPkg, cobraPkg, yamlPkg, kmsgPkg},
			because: "it judges directories before storage and the metadata open them; the daemon knows what to start"},
		"internal/daemon/coordinators": {may: []string{"internal/configdef", "internal/controller",
			"internal/coordinator/group", "internal/coordinator/service", "internal/coordinator/sharestate",
			"internal/coordinator/sharestate/desk", "internal/coordinator/txn/exchange", "internal/coordinator/txn/gate",
			"internal/observe", "internal/health/checks", "internal/metadata", "internal/metrics", "internal/replica",
			"internal/shareleader/deadletter", "internal/view"},
			never:   []string{osPkg, unixPkg, cobraPkg, yamlPkg, kmsgPkg, netPkg},
			because: "it connects coordinators with the broker that the daemon opened, and decides nothing"},
		"internal/exit": {never: []string{osPkg, unixPkg, cobraPkg, yamlPkg, kmsgPkg},
			because: "whatever finds a reason not to start says it with an exit code, so that the codes know none of them"},
	}
}

// clusterRules returns the rules of the packages that make brokers a cluster.
func clusterRules() map[string]importRule {
	return map[string]importRule{
		"internal/cluster": {may: []string{"internal/configdef", "internal/controller", "internal/controller/election",
			"internal/health", "internal/link", "internal/membership", "internal/metadata", "internal/metadata/copies",
			"internal/metadata/raftstore", "internal/network", "internal/replica", "internal/replica/stream",
			"internal/security/secret", "internal/storage", "internal/storage/checkpoint", "internal/vfs", "internal/view"},
			never:   []string{osPkg, unixPkg, cobraPkg, yamlPkg, kmsgPkg},
			because: "it connects the parts of a cluster's member, and decides nothing"},
		"internal/membership": {may: []string{"internal/controller", "internal/metadata"}, never: noProtocol,
			because: "it decides from answers of other brokers; the daemon connects it to links and to the metadata"},
	}
}

// coordinatorRules returns the rules of the coordinators and of what connects them with logs.
func coordinatorRules() map[string]importRule {
	return map[string]importRule{
		"internal/coordinator": {may: []string{"internal/groupcommit"}, never: noProtocol,
			because: "the runtime runs state machines over logs; it knows neither their meaning nor how a log is stored"},
		"internal/coordinator/group": {may: []string{"internal/coordinator", "internal/coordinator/group/...", "internal/protocol",
			"internal/record", "internal/storage/producers", "internal/text"},
			never: noDisk, because: machineReason},
		"internal/coordinator/txn": {may: []string{"internal/coordinator", "internal/view"}, never: append([]string{netPkg}, noDisk...),
			because: machineReason},
		"internal/coordinator/txn/gate": {may: []string{"internal/coordinator/txn", "internal/replica", "internal/storage",
			"internal/storage/producers", "internal/groupcommit", "internal/view"}, never: append([]string{netPkg}, noDisk...),
			because: serviceReason},
		"internal/coordinator/outbound": {never: append([]string{kmsgPkg, netPkg}, noDisk...),
			because: "a queue knows neither connections nor what its items mean"},
		"internal/coordinator/errcode": {may: []string{"internal/configdef", "internal/controller", "internal/coordinator",
			"internal/metadata", "internal/record", "internal/replica", "internal/storage"}, never: append([]string{netPkg}, noDisk...),
			because: "it maps errors to Kafka's, and knows no request"},
		"internal/coordinator/txn/exchange": {may: []string{"internal/coordinator", "internal/coordinator/errcode",
			"internal/coordinator/outbound",
			"internal/coordinator/txn", "internal/coordinator/txn/gate", "internal/metadata", "internal/replica", "internal/storage",
			"internal/storage/producers", "internal/record", "internal/groupcommit"},
			never:   append([]string{netPkg}, noDisk...),
			because: "it connects coordinators and partitions; the daemon provides the calls between brokers"},
		"internal/coordinator/service": {may: []string{"internal/coordinator", "internal/coordinator/group",
			"internal/coordinator/sharestate", "internal/coordinator/sharestate/format", "internal/coordinator/txn",
			"internal/controller", "internal/metadata",
			"internal/replica", "internal/configdef", "internal/groupcommit", "internal/protocol", "internal/purgatory",
			"internal/record", "internal/storage", "internal/view", "pkg/durability"},
			never: append([]string{netPkg}, noDisk...), because: serviceReason},
		"internal/coordinator/group/assign": {never: append([]string{kmsgPkg}, noDisk...), because: machineReason},
		"internal/coordinator/group/topology": {may: []string{"internal/coordinator/group/format"},
			never: append([]string{kmsgPkg}, noDisk...), because: machineReason},
		"internal/coordinator/group/format": {never: noDisk, because: machineReason},
		"internal/coordinator/sharestate": {may: []string{"internal/coordinator", "internal/coordinator/sharestate/format",
			"internal/sharegroup/window", "internal/storage/epochs"}, never: append([]string{netPkg}, noDisk...), because: machineReason},
		"internal/coordinator/sharestate/desk": {may: []string{"internal/coordinator/errcode", "internal/coordinator/outbound",
			"internal/coordinator/sharestate", "internal/coordinator/sharestate/format", "internal/metadata",
			"internal/sharegroup/window", "internal/storage/epochs"}, never: append([]string{netPkg}, noDisk...),
			because: "it takes requests to coordinators; the daemon provides the calls between brokers"},
		"internal/coordinator/sharestate/format": {may: []string{"internal/storage/epochs"}, never: noProtocol, because: machineReason},
		"internal/shareleader": {may: []string{"internal/coordinator", "internal/coordinator/sharestate",
			"internal/coordinator/sharestate/format", "internal/purgatory", "internal/replica", "internal/sharegroup/window",
			"internal/storage", "internal/storage/epochs"}, never: append([]string{netPkg}, noDisk...), because: serviceReason},
		"internal/shareleader/deadletter": {may: []string{"internal/groupcommit", "internal/metadata", "internal/record",
			"internal/replica", "internal/sharegroup/window", "internal/shareleader", "internal/storage", "internal/storage/epochs"},
			never: append([]string{netPkg, kmsgPkg}, noDisk...), because: serviceReason},
	}
}

// benchRules returns the rules of the load generator.
func benchRules() map[string]importRule {
	bench := func(may ...string) importRule {
		return importRule{may: may, never: []string{yamlPkg}, because: benchReason}
	}
	return map[string]importRule{
		"internal/tools/bench/wire":     bench("internal/record"),
		"internal/tools/bench/meter":    bench(),
		"internal/tools/bench/load":     bench("internal/tools/bench/wire", "internal/tools/bench/meter"),
		"internal/tools/bench/settings": bench("internal/cli"),
		"internal/tools/bench": bench("internal/cli", "internal/cli/seeds", "internal/tools/bench/load", "internal/tools/bench/wire",
			"internal/tools/bench/meter", "internal/tools/bench/settings", "internal/security/certs"),
		"internal/tools/bench/results": bench("internal/tools/bench", "internal/text"),
		"internal/tools/bench/frame": bench("internal/cli", "internal/tools/bench", "internal/tools/bench/meter",
			"internal/tools/bench/results", "internal/tools/bench/settings"),
		"internal/tools/bench/limits": bench("internal/cli", "internal/tools/bench", "internal/tools/bench/frame",
			"internal/tools/bench/load", "internal/tools/bench/wire", "internal/tools/bench/meter", "internal/tools/bench/results",
			"internal/tools/bench/settings"),
		"internal/tools/bench/compare": bench("internal/cli", "internal/tools/bench", "internal/tools/bench/frame",
			"internal/tools/bench/limits", "internal/tools/bench/results", "internal/tools/bench/settings"),
		"internal/tools/bench/grouping": bench("internal/tools/bench/load", "internal/cli", "internal/tools/bench",
			"internal/tools/bench/wire",
			"internal/tools/bench/meter", "internal/tools/bench/results", "internal/tools/bench/frame",
			"internal/tools/bench/settings"),
		"internal/tools/bench/transact": bench("internal/tools/bench/load", "internal/tools/bench",
			"internal/tools/bench/wire",
			"internal/tools/bench/meter", "internal/tools/bench/results", "internal/tools/bench/frame",
			"internal/tools/bench/settings"),
		"internal/tools/bench/sharing": bench("internal/tools/bench/load", "internal/tools/bench",
			"internal/tools/bench/wire",
			"internal/tools/bench/meter", "internal/tools/bench/results", "internal/tools/bench/frame",
			"internal/tools/bench/settings"),
		"internal/tools/bench/connections": bench("internal/tools/bench/load", "internal/cli", "internal/tools/bench",
			"internal/tools/bench/wire",
			"internal/tools/bench/meter", "internal/tools/bench/results", "internal/tools/bench/frame",
			"internal/tools/bench/settings"),
		"internal/tools/bench/command": bench("internal/tools/bench/...", "internal/cli"),
	}
}

// linkRules returns the rules of the connections between brokers.
func linkRules() map[string]importRule {
	return map[string]importRule{
		"internal/link/frame": {never: noProtocol, because: "a leaf: bytes in, values out, so that it can be fuzzed"},
		"internal/link": {may: []string{"internal/link/frame", "internal/protocol", "internal/bufpool", "internal/security/certs",
			"internal/security/origin", "internal/security/secret"},
			never:   []string{cobraPkg, yamlPkg, kmsgPkg},
			because: "a connection carries frames between brokers, and knows neither records nor metadata"},
	}
}

// healthRules returns the rules of the packages that show an operator the broker's state.
func healthRules() map[string]importRule {
	return map[string]importRule{
		"internal/health": {may: []string{"internal/text"}, never: noProtocol,
			because: "a leaf: the broker and chronikctl share its vocabulary"},
		"internal/observe": {may: []string{"internal/broker", "internal/config", "internal/config/resolve",
			"internal/configdef", "internal/coordinator", "internal/coordinator/service",
			"internal/coordinator/txn", "internal/coordinator/txn/exchange", "internal/coordinator/txn/gate", "internal/health",
			"internal/health/checks", "internal/health/host", "internal/login", "internal/metadata", "internal/metrics",
			"internal/network", "internal/protocol", "internal/replica", "internal/security/acl", "internal/security/files",
			"internal/security/origin", "internal/security/quota", "internal/security/refusals", "internal/storage", "internal/text",
			"internal/vfs", "internal/view", "pkg/durability"},
			never:   []string{osPkg, unixPkg, cobraPkg, yamlPkg, netPkg},
			because: "it reads the components that the daemon opened, and opens none"},
		"internal/health/checks": {may: []string{"internal/health", "internal/text", "internal/view"}, never: noProtocol,
			because: checkReason},
		"internal/health/host": {may: []string{"internal/health/checks", "internal/vfs", "internal/view"},
			never:   []string{cobraPkg, yamlPkg, kmsgPkg, netPkg},
			because: "it reads the machine and knows nothing of the broker"},
		"internal/admin/page": {may: []string{"internal/health", "internal/metrics", "internal/text", "internal/view"},
			never:   []string{osPkg, unixPkg, cobraPkg, yamlPkg, kmsgPkg},
			because: "the page shows what its Source returns, so that a test shows it any broker"},
		"internal/view": {may: []string{"internal/text", "pkg/durability"}, never: noProtocol,
			because: "it has values only: the broker and chronikctl share its types"},
		"internal/admin": {may: []string{"internal/view", "internal/admin/page", "internal/audit", "internal/bufpool",
			"internal/health", "internal/logtail", "internal/metadata", "internal/metrics", "internal/network",
			"internal/record", "internal/replica", "internal/security/certs", "internal/security/origin",
			"internal/text", "internal/configdef"},
			never:   []string{unixPkg, cobraPkg, yamlPkg, kmsgPkg},
			because: "the admin port shows the components that the daemon passes to it"},
	}
}

// ctlRules returns the rules of chronikctl: a package for each group of commands, and those that
// all of them share.
func ctlRules() map[string]importRule {
	ctl := func(may ...string) importRule {
		return importRule{may: may, because: ctlReason}
	}
	command := func(may ...string) importRule {
		shared := []string{"internal/tools/ctl/app", "internal/tools/ctl/output", "internal/tools/ctl/parse", "internal/cli",
			"internal/text"}
		return importRule{may: may, common: shared, because: ctlReason}
	}
	return map[string]importRule{
		"internal/tools/ctl": ctl("internal/tools/ctl/...", "internal/cli/...", "internal/text"),
		"internal/cli/seeds": ctl(),
		"internal/cli/contexts": ctl("internal/cli", "internal/security/certs", "internal/security/files", "internal/security/secret",
			"internal/text", "internal/vfs"),
		"internal/tools/ctl/output": ctl("internal/text"),
		"internal/tools/ctl/parse":  ctl("internal/cli"),
		"internal/tools/ctl/app": ctl("internal/view", "internal/cli/contexts", "internal/tools/ctl/output", "internal/tools/ctl/parse",
			"internal/cli", "internal/cli/seeds", "internal/health", "internal/security/certs", "internal/security/secret",
			"internal/text"),
		"internal/tools/ctl/topic": command("internal/view", "internal/tools/ctl/config", "internal/tools/ctl/move"),
		"internal/tools/ctl/move":  ctl("internal/cli", "internal/tools/ctl/app", "internal/tools/ctl/parse", "internal/text"),
		"internal/tools/ctl/config": ctl("internal/configdef", "internal/tools/ctl/app", "internal/tools/ctl/output",
			"internal/tools/ctl/parse", "internal/text"),
		"internal/tools/ctl/group":    command("internal/view"),
		"internal/tools/ctl/txn":      command("internal/health"),
		"internal/tools/ctl/user":     command("internal/cli/contexts", "internal/security/files"),
		"internal/tools/ctl/cert":     command("internal/security/certs", "internal/security/files"),
		"internal/tools/ctl/acl":      command("internal/view", "internal/security/acl"),
		"internal/tools/ctl/quota":    command("internal/security/quota"),
		"internal/tools/ctl/snapshot": command("internal/view"),
		"internal/tools/ctl/records":  command("internal/health"),
		"internal/tools/ctl/cluster": command("internal/view",
			"internal/tools/ctl/config", "internal/cli/contexts", "internal/tools/ctl/group", "internal/tools/ctl/move",
			"internal/tools/ctl/txn",
			"internal/health", "internal/security/secret", "pkg/durability"),
		"internal/tools/ctl/top": command("internal/health", "internal/view", "internal/tools/ctl/group", "internal/tools/ctl/topic"),
		"internal/tools/ctl/logs": {may: []string{"internal/tools/ctl/app", "internal/tools/ctl/output", "internal/cli", "internal/text",
			"internal/inspect", "internal/health",
			"internal/storage", "internal/vfs", "internal/config", "internal/config/resolve"}, never: []string{yamlPkg, kmsgPkg},
			because: "chronikctl log works on files without a broker, and finds them through chronikd's settings; internal/inspect knows the formats"},
	}
}
