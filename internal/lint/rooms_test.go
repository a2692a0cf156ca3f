package lint

import "maps"

// room says what a package may import of this module and of others.
type room struct {
	// may lists the packages of this module that it may import, without the
	// module's path. "x/..." stands for x and everything below it.
	may []string
	// never lists packages from elsewhere that it must not import.
	never []string
	// because is told to whoever breaks the rule.
	because string
}

// Packages that only some rooms may touch.
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
	leafReason    = "leaves know nothing of the rooms above them"
	storageReason = "storage knows neither acks nor ISR nor kmsg, and reaches the disk through vfs only"
	replicaReason = "replica stands on storage and metadata; who asks it is none of its business"
	clusterReason = "the controller and the coordinators change metadata; requests and connections are above them"
	machineReason = "a state machine takes events and the time and returns records and answers: no I/O, no goroutines, no clock"
	ctlReason     = "chronikctl talks to any broker over the protocol, and to chronik's admin port, and must not know this one's insides"
	benchReason   = "a load generator speaks the protocol from outside and must not know what it measures; record builds its batches"
	serviceReason = "a service connects the coordinator runtime to partitions and metadata; requests are above it"
	wireReason    = "protocol and network carry requests and know neither logs nor topics"
	checkReason   = "a check takes facts and adds findings; it reads nothing, so that a test can give it any machine"
	brokerReason  = "a handler maps a request to the rooms below it; it opens no files and starts no rooms"
)

// rooms is the direction of imports. A new package is added here and in
// docs/architecture.md in the same commit.
func rooms() map[string]room {
	leaf := func(may ...string) room { return room{may: may, never: noProtocol, because: leafReason} }
	bench := func(may ...string) room { return room{may: may, never: []string{koanfPkg}, because: benchReason} }
	all := map[string]room{
		"pkg/durability": leaf(),
		"internal/vfs": {may: []string{"internal/vfs/ram"}, never: []string{cobraPkg, koanfPkg, kmsgPkg},
			because: "vfs is the door to the disk and knows no room"},
		"internal/vfs/ram":     leaf(),
		"internal/vfs/crashfs": leaf("internal/vfs", "internal/vfs/ram"),
		"internal/vfs/errfs":   leaf("internal/vfs"),
		"internal/vfs/vfstest": leaf("internal/vfs"),
		"internal/record": {may: []string{"internal/bufpool"}, never: noProtocol,
			because: "record is bytes in, bytes out: no files, no requests, so that it can be fuzzed and reused anywhere"},
		"internal/bufpool":     leaf(),
		"internal/groupcommit": leaf(),
		"internal/metrics":     {never: append([]string{kmsgPkg, cobraPkg, koanfPkg}, osPkg), because: leafReason},
		"internal/configdef":   leaf("internal/record", "pkg/durability"),

		"internal/inspect": {may: []string{"internal/statelog", "internal/storage/...", "internal/storage", "internal/metadata", "internal/metadata/filestore", "internal/record", "internal/vfs"},
			never: noProtocol, because: "a look from outside uses storage's own code, reaches the disk through vfs, and knows no command line"},

		"internal/purgatory": {never: noProtocol, because: "purgatory delays operations and does not know what they are"},
		"internal/metadata": {may: []string{"internal/configdef"}, never: noProtocol,
			because: "the Image is data; whoever acts on it subscribes"},
		"internal/metadata/filestore": {may: []string{"internal/metadata", "internal/statelog", "internal/vfs"}, never: noProtocol,
			because: "a back end implements metadata.Store and knows nothing of what is stored"},
		"internal/replica": {may: []string{"internal/storage/...", "internal/purgatory", "internal/metadata", "internal/record",
			"internal/bufpool", "internal/metrics", "internal/configdef", "internal/groupcommit", "internal/vfs", "pkg/durability"},
			never: noProtocol, because: replicaReason},

		"internal/coordinator": {never: noProtocol,
			because: "the runtime runs machines over logs that it is given; it knows neither what they mean nor how a log is kept"},
		"internal/coordinator/group": {may: []string{"internal/coordinator", "internal/coordinator/group/...", "internal/protocol"},
			never: noDisk, because: machineReason},
		"internal/coordinator/service": {may: []string{"internal/coordinator", "internal/coordinator/group", "internal/controller", "internal/metadata",
			"internal/metadata/filestore", "internal/replica", "internal/configdef", "internal/protocol", "internal/purgatory", "internal/record",
			"internal/storage", "internal/storage/segment", "internal/vfs", "pkg/durability"},
			never: append([]string{netPkg}, noDisk...), because: serviceReason},
		"internal/coordinator/group/assign": {never: append([]string{kmsgPkg}, noDisk...), because: machineReason},
		"internal/coordinator/group/format": {never: noDisk, because: machineReason},

		"internal/controller": {may: []string{"internal/metadata", "internal/configdef", "internal/metrics"},
			never: noProtocol, because: clusterReason},

		"internal/protocol": {may: []string{"internal/bufpool"}, never: noDisk, because: wireReason},
		"internal/network": {may: []string{"internal/protocol", "internal/wrongport", "internal/bufpool", "internal/metrics", "internal/groupcommit"},
			never: []string{cobraPkg, koanfPkg}, because: wireReason},
		"internal/broker": {may: []string{"internal/network", "internal/protocol", "internal/controller", "internal/replica",
			"internal/coordinator", "internal/coordinator/group", "internal/coordinator/service", "internal/metadata", "internal/purgatory", "internal/storage", "internal/record", "internal/bufpool",
			"internal/metrics", "internal/configdef", "pkg/durability"},
			never: noDisk, because: brokerReason},

		"internal/daemon/config": {may: []string{"internal/nearest", "internal/wrap", "internal/configdef", "pkg/durability", "internal/vfs"},
			never: []string{kmsgPkg}, because: "the loader knows names, units and bounds; only the daemon knows who gets them"},
		"internal/daemon":         {may: []string{"internal/...", "pkg/durability"}},
		"internal/bench/wire":     bench("internal/record"),
		"internal/bench/meter":    bench(),
		"internal/bench/load":     bench("internal/bench/wire", "internal/bench/meter"),
		"internal/bench":          bench("internal/cmdline", "internal/wrongport", "internal/bench/load", "internal/bench/wire", "internal/bench/meter"),
		"internal/bench/report":   bench("internal/bench"),
		"internal/bench/limits":   bench("internal/cmdline", "internal/bench", "internal/bench/wire", "internal/bench/meter", "internal/bench/report"),
		"internal/bench/compare":  bench("internal/cmdline", "internal/bench", "internal/bench/limits", "internal/bench/report"),
		"internal/bench/grouping": bench("internal/cmdline", "internal/bench", "internal/bench/wire", "internal/bench/meter", "internal/bench/report"),
		"internal/bench/command":  bench("internal/bench/...", "internal/cmdline", "internal/terminal"),
		"internal/lint":           {},
		"pkg/chronik": {may: []string{"internal/daemon/...", "internal/vfs", "pkg/durability"},
			because: "a program that embeds a broker gets the daemon's wiring, not one of its own"},
		"cmd/chronikd":           {may: []string{"internal/daemon/..."}, because: "a main of at most 40 lines"},
		"cmd/chronikctl":         {may: []string{"internal/ctl"}, because: "a main of at most 40 lines"},
		"cmd/chronik-bench":      {may: []string{"internal/bench/command"}, because: "a main of at most 40 lines"},
		"scripts/clients/kgo":    {because: "a client test speaks the protocol from outside"},
		"scripts/clients/groups": {because: "a client test speaks the protocol from outside"},
		"internal/wrongport":     {never: []string{koanfPkg}, because: "it asks an address one question, and knows no command"},
		"internal/cmdline": {may: []string{"internal/nearest"}, never: []string{osPkg, unixPkg, koanfPkg, kmsgPkg, netPkg},
			because: "it words what is wrong with a command line, whichever it is"},
		"internal/terminal": {never: []string{cobraPkg, koanfPkg, kmsgPkg, netPkg}, because: "a leaf: it asks what a stream is and not what is written"},
		"internal/wrap":     {never: append([]string{kmsgPkg}, noDisk...), because: "a leaf: texts are words to it"},
		"internal/logtail":  {never: noProtocol, because: "a leaf: lines of a log are bytes to it"},
		"internal/golden":   {never: []string{cobraPkg, unixPkg, koanfPkg, kmsgPkg, netPkg}, because: "a leaf: it holds what tests print against a file"},
		"internal/hostile": {may: []string{"internal/record"}, never: []string{unixPkg, cobraPkg, koanfPkg},
			because: "an attack speaks the protocol from outside and must not know what it attacks; record builds its batches"},
		"internal/nearest": {because: "a leaf: names are strings to it"},
		"internal/manpage": {never: []string{osPkg, unixPkg, koanfPkg, kmsgPkg, netPkg}, because: "a manual page is made of the texts of a command line, whichever it is"},
		"scripts/man":      {may: []string{"internal/daemon", "internal/ctl/...", "internal/bench/command", "internal/manpage"}, because: "it collects the texts of the tools and has none of its own"},
	}
	maps.Copy(all, storageRooms())
	maps.Copy(all, healthRooms())
	maps.Copy(all, ctlRooms())
	return all
}

// storageRooms are those of what the disk holds of logs.
func storageRooms() map[string]room {
	store := func(may ...string) room { return room{may: may, never: noProtocol, because: storageReason} }
	return map[string]room{
		"internal/statelog": {may: []string{"internal/vfs"}, never: noProtocol,
			because: "a record is bytes to it: it knows neither metadata nor logs"},

		"internal/storage/journal":    store("internal/vfs", "internal/groupcommit", "pkg/durability"),
		"internal/storage/segment":    store("internal/vfs", "internal/record", "internal/bufpool", "internal/metrics"),
		"internal/storage/producers":  store("internal/vfs", "internal/record", "internal/storage/statefile"),
		"internal/storage/checkpoint": store("internal/statelog", "internal/storage/epochs", "internal/storage/journal", "internal/vfs"),
		"internal/storage/epochs":     store("internal/vfs", "internal/storage/statefile"),
		"internal/storage/statefile":  store("internal/vfs"),
		"internal/storage/cleaner":    store("internal/storage/segment", "internal/record"),
		"internal/storage/diskguard":  store(),
		"internal/storage/loglife":    store(),
		"internal/storage": store("internal/storage/...", "internal/statelog", "internal/vfs", "internal/record", "internal/bufpool",
			"internal/metrics", "internal/configdef", "internal/groupcommit", "pkg/durability"),
	}
}

// healthRooms are those of what an operator sees of a broker.
func healthRooms() map[string]room {
	return map[string]room{
		"internal/health": {never: noProtocol, because: "a leaf: the broker and chronikctl share its words"},
		"internal/daemon/observe": {may: []string{"internal/broker", "internal/coordinator/group", "internal/coordinator/service", "internal/health", "internal/health/...", "internal/metadata", "internal/metrics",
			"internal/network", "internal/protocol", "internal/replica", "internal/storage", "internal/storage/diskguard", "internal/vfs", "pkg/durability"},
			never: []string{osPkg, unixPkg, cobraPkg, koanfPkg, netPkg}, because: "it reads the components that the daemon opened, and opens none"},
		"internal/health/checks": {may: []string{"internal/health"}, never: noProtocol, because: checkReason},
		"internal/health/host": {may: []string{"internal/health/checks", "internal/vfs"}, never: []string{cobraPkg, koanfPkg, kmsgPkg, netPkg},
			because: "it reads the machine and knows nothing of the broker"},
		"internal/admin/page": {may: []string{"internal/health", "internal/metrics"}, never: []string{osPkg, unixPkg, cobraPkg, koanfPkg, kmsgPkg},
			because: "the page shows what its Source returns, so that a test shows it any broker"},
		"internal/admin": {may: []string{"internal/admin/page", "internal/coordinator/service", "internal/health", "internal/logtail", "internal/metadata", "internal/metrics", "internal/network",
			"internal/record", "internal/replica", "internal/storage", "internal/configdef", "pkg/durability"},
			never: []string{unixPkg, cobraPkg, koanfPkg, kmsgPkg}, because: "the admin port shows what it is given; the daemon builds it"},
	}
}

// ctlRooms are chronikctl's: each subject has one, and knows only what all share.
func ctlRooms() map[string]room {
	ctl := func(may ...string) room { return room{may: may, never: []string{koanfPkg}, because: ctlReason} }
	return map[string]room{
		"internal/ctl":           ctl("internal/ctl/...", "internal/cmdline", "internal/wrap"),
		"internal/ctl/cli":       ctl("internal/ctl/contexts", "internal/ctl/output", "internal/ctl/parse", "internal/cmdline", "internal/wrongport", "internal/terminal", "internal/nearest"),
		"internal/ctl/contexts":  ctl("internal/nearest"),
		"internal/ctl/output":    ctl(),
		"internal/ctl/parse":     ctl(),
		"internal/ctl/progress":  ctl(),
		"internal/ctl/records":   ctl(),
		"internal/ctl/offsets":   ctl("internal/ctl/cli", "internal/ctl/parse"),
		"internal/ctl/adminport": ctl("internal/ctl/cli", "internal/ctl/contexts", "internal/health", "pkg/durability"),
		"internal/ctl/topic":     ctl("internal/cmdline", "internal/ctl/adminport", "internal/ctl/cli", "internal/ctl/output", "internal/ctl/parse", "internal/ctl/offsets", "internal/ctl/config"),
		"internal/ctl/config":    ctl("internal/ctl/cli", "internal/ctl/output", "internal/ctl/parse", "internal/wrap", "internal/nearest"),
		"internal/ctl/group":     ctl("internal/cmdline", "internal/ctl/cli", "internal/ctl/output", "internal/ctl/parse", "internal/ctl/offsets"),
		"internal/ctl/produce":   ctl("internal/ctl/cli", "internal/ctl/parse", "internal/ctl/progress", "internal/ctl/records", "internal/terminal"),
		"internal/ctl/consume": ctl("internal/cmdline", "internal/ctl/cli", "internal/ctl/output", "internal/ctl/parse", "internal/ctl/offsets", "internal/ctl/progress",
			"internal/ctl/records", "internal/health", "internal/terminal"),
		"internal/ctl/bundle": ctl("internal/ctl/adminport", "internal/ctl/cli", "internal/ctl/contexts", "internal/ctl/parse", "internal/terminal"),
		"internal/ctl/top": ctl("internal/ctl/adminport", "internal/ctl/cli", "internal/ctl/group", "internal/ctl/output", "internal/ctl/parse", "internal/ctl/topic",
			"internal/terminal"),
		"internal/ctl/cluster": ctl("internal/cmdline", "internal/ctl/cli", "internal/ctl/output", "internal/ctl/adminport", "internal/health", "internal/wrap"),
		"internal/ctl/doctor":  ctl("internal/ctl/cli", "internal/ctl/adminport", "internal/ctl/cluster", "internal/ctl/config", "internal/ctl/group", "internal/health"),
		"internal/ctl/logs": {may: []string{"internal/health", "internal/ctl/cli", "internal/ctl/records", "internal/ctl/output", "internal/ctl/progress", "internal/inspect", "internal/storage", "internal/terminal",
			"internal/vfs", "internal/daemon/config", "internal/configdef", "pkg/durability"}, never: []string{koanfPkg, kmsgPkg},
			because: "chronikctl log works on files without a broker, and finds them where chronikd's settings say; what they mean internal/inspect knows"},
		"internal/ctl/profile": ctl("internal/ctl/cli", "internal/ctl/output", "internal/ctl/adminport", "pkg/durability"),
	}
}
