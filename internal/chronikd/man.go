package chronikd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/exit"
)

// Manual returns chronikd's manual pages: the command and its configuration file. Their texts are
// those of --help and config print-defaults.
func Manual(version string) ([]cli.ManPage, error) {
	cfg, err := resolve.Load(config.Input{})
	if err != nil {
		return nil, err
	}
	root := command(Process{Version: version}, new(signals))
	see := cli.ManSection{Title: "SEE ALSO", Text: "chronikd(8), chronikd.yaml(5), chronikctl(1), chronik-bench(1)"}
	settings := cli.ManSection{
		Title: "SETTINGS",
		Text:  "The file holds settings as name: value. A setting that is not in the file has its default.",
	}
	for _, d := range slices.Concat(config.Own(), resolve.Settings(resolve.Registry(cfg.Durability))) {
		if config.InListeners(d.Name) {
			continue // in the file they belong to an entry of listeners
		}
		settings.Items = append(settings.Items, cli.ManItem{Term: d.Name, Text: settingText(&d)})
	}
	return []cli.ManPage{
		{
			Name:    "chronikd",
			Section: 8,
			Version: version,
			Short:   "log broker that speaks the Kafka protocol",
			Command: root,
			Sections: []cli.ManSection{
				{Title: "ENVIRONMENT", Items: []cli.ManItem{
					{Term: config.EnvFile, Text: "The configuration file, if --config is not given."},
					{
						Term: "CHRONIK_*",
						Text: "Any setting: its name in capitals, _ for every dot, as in CHRONIK_NUM_PARTITIONS for num.partitions.",
					},
					{
						Term: "GOMEMLIMIT",
						Text: "Limit of the Go heap in bytes. In a container with a memory limit the default is 80 % of that.",
					},
					{Term: "NOTIFY_SOCKET, WATCHDOG_USEC", Text: "Set by systemd: the destination of readiness, status and keep-alives."},
				}},
				{Title: "SIGNALS", Items: []cli.ManItem{
					{
						Term: "SIGHUP",
						Text: "With TLS: read changed certificates at once, and cluster.principals in the configuration. The log names other settings that have changed and need a restart. Without TLS it is like SIGTERM.",
					},
					{
						Term: "SIGTERM, SIGINT",
						Text: "Drain: answer accepted requests, mark the data directory clean, end. A broker that is still starting or recovering ends, and the next start recovers. Further signals within two seconds mean the same. A later signal ends the process at once: in-flight requests are not answered, and the next start recovers; no record that was acknowledged as synced is lost.",
					},
				}},
				{Title: "EXIT STATUS", Items: []cli.ManItem{
					{Term: fmt.Sprint(exit.OK), Text: "Stopped as requested, also before it was ready."},
					{Term: fmt.Sprint(exit.Failed), Text: "Failed while running."},
					{Term: fmt.Sprint(exit.Usage), Text: "The command line or the configuration is wrong; nothing was touched."},
					{
						Term: fmt.Sprint(exit.Data),
						Text: "A directory is in use, not writable, damaged, of a newer format or another broker's.",
					},
					{Term: fmt.Sprint(exit.Address), Text: "An address cannot be bound; nothing was touched."},
					{Term: fmt.Sprint(exit.Cut), Text: "Another signal ended the process before it had drained; the next start recovers."},
				}},
				{Title: "FILES", Items: []cli.ManItem{
					{Term: "/etc/chronik/chronikd.yaml", Text: "The configuration of the service, if a package installed it."},
					{Term: "/var/lib/chronik", Text: "Its data."},
				}}, see},
		},
		{Name: "chronikd.yaml", Section: 5, Version: version, Short: "configuration of chronikd", Sections: []cli.ManSection{
			{
				Title: "DESCRIPTION",
				Text: "A YAML file with one key for every setting that differs from its default. Every setting can also be given as a variable, " +
					"with --set name=value or, if it has one, by a flag; a later source overrides an earlier one.\n\n" +
					"chronikd config check --config FILE checks a file, and chronikd config print-defaults prints a file with all settings.",
			},
			{
				Title: "LISTENERS",
				Text: "The addresses for clients, and the address that is advertised to them if it differs from the one that they dialed:\n\n" +
					"  listeners:\n    - listen: " + config.DefaultListen +
					"\n    - name: public\n      listen: :9093\n      advertise: broker.example.com:9093",
			},
			{Title: "PROFILES", Text: "Custom durability profiles, in addition to the built-in ones:\n\n" +
				"  profiles:\n    patient:\n      ack: synced\n      sync: group\n      max_wait: 20ms\n      max_records: 5000\n      max_bytes: 20MB"},
			settings, see}},
	}, nil
}

// settingText returns the manual's text about one setting.
func settingText(d *config.Def) string {
	facts := d.Facts()
	if d.Default != "" {
		facts = append(facts, "default "+d.Default)
	}
	return d.Doc + "\n(" + strings.Join(facts, "; ") + ")"
}
