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
	koanfPkg = "github.com/knadh/koanf/..."
)

var (
	noDisk     = []string{osPkg, unixPkg, cobraPkg, koanfPkg}
	noProtocol = []string{osPkg, unixPkg, cobraPkg, koanfPkg, kmsgPkg, netPkg}
)

const (
	leafReason    = "a leaf package knows nothing of the packages above it"
	storageReason = "storage knows neither acks nor ISR nor kmsg, and reaches the disk through vfs only"
	replicaReason = "replica stands on storage and metadata and does not know its callers"
	clusterReason = "the controller and the coordinators change metadata; requests and connections are above them"
	machineReason = "a state machine takes events and the time and returns records and answers: no I/O, no goroutines, no clock"
	ctlReason     = "chronikctl talks to any broker over the protocol, and to chronik's admin port, and must not know this one's insides"
	benchReason   = "a load generator speaks the protocol from outside and must not know the broker that it measures; record builds its batches"
	serviceReason = "a service connects the coordinator runtime to partitions and metadata; requests are above it"
	wireReason    = "protocol and network carry requests and know neither logs nor topics"
	checkReason   = "a check turns facts into findings and reads nothing, so that a test can describe any machine"
	brokerReason  = "a handler maps a request to the packages below it; it opens no files and starts no components"
)

// importRules returns the rule of every package, by its path without the module path. Add a new
// package here and to docs/architecture.md in the same commit.
func importRules() map[string]importRule {
	leaf := func(may ...string) importRule { return importRule{may: may, never: noProtocol, because: leafReason} }
	bench := func(may ...string) importRule {
		return importRule{may: may, never: []string{koanfPkg}, because: benchReason}
	}
	all := map[string]importRule{
		"pkg/durability": leaf(),
		"internal/vfs": {may: []string{"internal/vfs/ram"}, never: []string{cobraPkg, koanfPkg, kmsgPkg},
			because: "vfs is the only way to the disk and knows no other package"},
		"internal/vfs/ram":     leaf(),
		"internal/vfs/crashfs": leaf("internal/vfs", "internal/vfs/ram"),
		"internal/vfs/errfs":   leaf("internal/vfs"),
		"internal/vfs/vfstest": leaf("internal/vfs"),
		"internal/record": {may: []string{"internal/bufpool"}, never: noProtocol,
			because: "record is bytes in, bytes out: no files, no requests, so that it can be fuzzed and reused anywhere"},
		"internal/bufpool":     leaf(),
		"internal/groupcommit": leaf(),
		"internal/metrics":     {never: append([]string{kmsgPkg, cobraPkg, koanfPkg}, osPkg), because: leafReason},
		"internal/configdef":   leaf("pkg/durability"),

		"internal/inspect": {may: []string{"internal/text", "internal/statelog", "internal/storage/...", "internal/storage",
			"internal/metadata", "internal/metadata/filestore", "internal/record", "internal/vfs"},
			never:   noProtocol,
			because: "an offline inspection uses storage's own code, reaches the disk through vfs, and knows no command line"},

		"internal/purgatory": {never: noProtocol, because: "purgatory delays operations without knowing their kinds"},
		"internal/metadata": {never: noProtocol,
			because: "the Image is data; components that act on it subscribe"},
		"internal/metadata/filestore": {may: []string{"internal/metadata", "internal/statelog", "internal/vfs"}, never: noProtocol,
			because: "a back end implements metadata.Store and does not interpret the records that it stores"},
		"internal/replica": {may: []string{"internal/storage/...", "internal/purgatory", "internal/metadata", "internal/record",
			"internal/configdef", "internal/groupcommit"},
			never: noProtocol, because: replicaReason},

		"internal/coordinator": {never: noProtocol,
			because: "the runtime runs state machines over logs; it knows neither their meaning nor how a log is stored"},
		"internal/coordinator/group": {may: []string{"internal/coordinator", "internal/coordinator/group/...", "internal/protocol"},
			never: noDisk, because: machineReason},
		"internal/coordinator/service": {may: []string{"internal/coordinator", "internal/coordinator/group",
			"internal/controller", "internal/metadata",
			"internal/replica", "internal/configdef", "internal/protocol", "internal/purgatory", "internal/record",
			"pkg/durability"},
			never: append([]string{netPkg}, noDisk...), because: serviceReason},
		"internal/coordinator/group/assign": {never: append([]string{kmsgPkg}, noDisk...), because: machineReason},
		"internal/coordinator/group/format": {never: noDisk, because: machineReason},

		"internal/controller": {may: []string{"internal/metadata", "internal/configdef"},
			never: noProtocol, because: clusterReason},

		"internal/protocol": {never: noDisk, because: wireReason},
		"internal/network": {may: []string{"internal/protocol", "internal/bufpool", "internal/groupcommit"},
			never: []string{cobraPkg, koanfPkg}, because: wireReason},
		"internal/broker": {may: []string{"internal/network", "internal/protocol", "internal/controller", "internal/replica",
			"internal/coordinator", "internal/coordinator/group", "internal/coordinator/service", "internal/metadata",
			"internal/purgatory", "internal/storage", "internal/record", "internal/bufpool",
			"internal/configdef"},
			never: noDisk, because: brokerReason},

		"internal/daemon/config": {may: []string{"internal/text", "internal/configdef", "pkg/durability"},
			never:   []string{kmsgPkg},
			because: "the loader knows names, units and bounds; only the daemon knows which component gets a value"},
		"internal/daemon":       {may: []string{"internal/...", "pkg/durability"}},
		"internal/bench/wire":   bench("internal/record"),
		"internal/bench/meter":  bench(),
		"internal/bench/load":   bench("internal/bench/wire", "internal/bench/meter"),
		"internal/bench":        bench("internal/cli", "internal/bench/load", "internal/bench/wire", "internal/bench/meter"),
		"internal/bench/report": bench("internal/bench", "internal/text"),
		"internal/bench/limits": bench("internal/cli", "internal/bench", "internal/bench/wire", "internal/bench/meter",
			"internal/bench/report"),
		"internal/bench/compare": bench("internal/bench/meter", "internal/cli", "internal/bench", "internal/bench/limits",
			"internal/bench/report"),
		"internal/bench/grouping": bench("internal/bench/load", "internal/cli", "internal/bench", "internal/bench/wire",
			"internal/bench/meter", "internal/bench/report"),
		"internal/bench/command": bench("internal/bench/...", "internal/cli"),
		"internal/lint":          {},
		"pkg/chronik": {may: []string{"internal/daemon/...", "internal/vfs", "pkg/durability"},
			because: "a program that embeds a broker gets the daemon's wiring, not one of its own"},
		"cmd/chronikd":           {may: []string{"internal/daemon/..."}, because: "a main of at most 40 lines"},
		"cmd/chronikctl":         {may: []string{"internal/ctl"}, because: "a main of at most 40 lines"},
		"cmd/chronik-bench":      {may: []string{"internal/bench/command"}, because: "a main of at most 40 lines"},
		"scripts/clients/kgo":    {because: "a client test speaks the protocol from outside"},
		"scripts/clients/groups": {because: "a client test speaks the protocol from outside"},
		"internal/cli": {may: []string{"internal/text"}, never: []string{koanfPkg, kmsgPkg},
			because: "it holds the parts that three command lines share and knows no command"},
		"internal/text": {never: append([]string{kmsgPkg}, noDisk...),
			because: "a leaf: it formats texts without interpreting them"},
		"internal/logtail": {never: noProtocol, because: "a leaf: lines of a log are bytes to it"},
		"internal/golden": {never: []string{cobraPkg, unixPkg, koanfPkg, kmsgPkg, netPkg},
			because: "a leaf: it compares the output of tests with files"},
		"internal/hostile": {may: []string{"internal/record"}, never: []string{unixPkg, cobraPkg, koanfPkg},
			because: "an attack speaks the protocol from outside and must not know its target; record builds its batches"},
		"scripts/man": {may: []string{"internal/daemon", "internal/ctl/...", "internal/bench/command", "internal/cli"},
			because: "it collects the texts of the tools and adds none of its own"},
	}
	maps.Copy(all, storageRules())
	maps.Copy(all, healthRules())
	maps.Copy(all, ctlRules())
	return all
}

// storageRules returns the rules of the packages that write logs to disk.
func storageRules() map[string]importRule {
	store := func(may ...string) importRule { return importRule{may: may, never: noProtocol, because: storageReason} }
	return map[string]importRule{
		"internal/statelog": {may: []string{"internal/vfs"}, never: noProtocol,
			because: "a record is bytes to it: it knows neither metadata nor logs"},

		"internal/storage/journal":    store("internal/vfs", "internal/groupcommit", "pkg/durability"),
		"internal/storage/segment":    store("internal/vfs", "internal/record", "internal/bufpool"),
		"internal/storage/producers":  store("internal/record"),
		"internal/storage/checkpoint": store("internal/statelog", "internal/storage/epochs", "internal/storage/journal", "internal/vfs"),
		"internal/storage/epochs":     store(),
		"internal/storage/statefile":  store("internal/vfs"),
		"internal/storage/cleaner":    store("internal/record"),
		"internal/storage/diskguard":  store("internal/text"),
		"internal/storage/loglife":    store(),
		"internal/storage": store("internal/storage/...", "internal/statelog", "internal/vfs", "internal/record", "internal/bufpool",
			"internal/metrics", "internal/groupcommit", "pkg/durability"),
	}
}

// healthRules returns the rules of the packages that show an operator the broker's state.
func healthRules() map[string]importRule {
	return map[string]importRule{
		"internal/health": {never: noProtocol, because: "a leaf: the broker and chronikctl share its vocabulary"},
		"internal/daemon/observe": {may: []string{"internal/broker", "internal/coordinator/group",
			"internal/coordinator/service", "internal/health", "internal/health/...", "internal/metadata", "internal/metrics",
			"internal/network", "internal/protocol", "internal/replica", "internal/storage", "internal/storage/diskguard",
			"internal/vfs", "pkg/durability"},
			never:   []string{osPkg, unixPkg, cobraPkg, koanfPkg, netPkg},
			because: "it reads the components that the daemon opened, and opens none"},
		"internal/health/checks": {may: []string{"internal/health", "internal/text"}, never: noProtocol, because: checkReason},
		"internal/health/host": {may: []string{"internal/health/checks", "internal/vfs"},
			never:   []string{cobraPkg, koanfPkg, kmsgPkg, netPkg},
			because: "it reads the machine and knows nothing of the broker"},
		"internal/admin/page": {may: []string{"internal/health", "internal/metrics", "internal/text"},
			never:   []string{osPkg, unixPkg, cobraPkg, koanfPkg, kmsgPkg},
			because: "the page shows what its Source returns, so that a test shows it any broker"},
		"internal/admin/api": {never: noProtocol, because: "a leaf: the broker and chronikctl share its types"},
		"internal/admin": {may: []string{"internal/admin/api", "internal/admin/page", "internal/coordinator/service",
			"internal/health", "internal/logtail", "internal/metadata", "internal/metrics", "internal/network",
			"internal/record", "internal/replica", "internal/storage", "internal/configdef", "internal/text", "pkg/durability"},
			never:   []string{unixPkg, cobraPkg, koanfPkg, kmsgPkg},
			because: "the admin port shows the components that the daemon passes to it"},
	}
}

// ctlRules returns the rules of chronikctl: a package for each group of commands, and those that
// all of them share.
func ctlRules() map[string]importRule {
	ctl := func(may ...string) importRule {
		return importRule{may: may, never: []string{koanfPkg}, because: ctlReason}
	}
	command := func(may ...string) importRule {
		shared := []string{"internal/ctl/app", "internal/ctl/output", "internal/ctl/parse", "internal/cli", "internal/text"}
		return importRule{may: may, common: shared, never: []string{koanfPkg}, because: ctlReason}
	}
	return map[string]importRule{
		"internal/ctl":          ctl("internal/ctl/...", "internal/cli", "internal/text"),
		"internal/ctl/contexts": ctl("internal/text"),
		"internal/ctl/output":   ctl(),
		"internal/ctl/parse":    ctl(),
		"internal/ctl/app": ctl("internal/admin/api", "internal/ctl/contexts", "internal/ctl/output", "internal/ctl/parse",
			"internal/cli", "internal/health",
			"internal/text", "pkg/durability"),
		"internal/ctl/topic":   command("internal/admin/api", "internal/ctl/config"),
		"internal/ctl/config":  ctl("internal/ctl/app", "internal/ctl/output", "internal/ctl/parse", "internal/text"),
		"internal/ctl/group":   command(),
		"internal/ctl/records": command("internal/health"),
		"internal/ctl/cluster": command("internal/ctl/config", "internal/ctl/contexts", "internal/ctl/group", "internal/health",
			"pkg/durability"),
		"internal/ctl/top": command("internal/admin/api", "internal/ctl/group", "internal/ctl/topic"),
		"internal/ctl/logs": {may: []string{"internal/ctl/app", "internal/ctl/output", "internal/cli", "internal/text",
			"internal/inspect", "internal/health",
			"internal/storage", "internal/vfs", "internal/daemon/config", "internal/configdef",
			"pkg/durability"}, never: []string{koanfPkg, kmsgPkg},
			because: "chronikctl log works on files without a broker, and finds them through chronikd's settings; internal/inspect knows the formats"},
	}
}
