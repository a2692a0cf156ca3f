package daemon

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// Whatever stops the broker must give it the time for which leaderships may move, requests may be
// answered, and log directories may be closed.
func TestServiceManagersWaitForAStop(t *testing.T) {
	cfg, err := resolve.Load(config.Input{})
	must.OK(t, err)
	conf, err := resolve.Registry(cfg.Durability).ResolveBroker(map[string]string{})
	must.OK(t, err)
	stop := stopTimes()
	least := conf.Cluster.DrainTime + stop.drain + stop.disk + 2*stop.grace
	for file, pattern := range map[string]string{
		"deploy/systemd/chronikd.service": `(?m)^TimeoutStopSec=(\d+m)in$`,
		"deploy/docker/compose.yaml":      `(?m)^ +stop_grace_period: (\d+m)$`,
		"deploy/docker/cluster.yaml":      `(?m)^ +stop_grace_period: (\d+m)$`,
		"docs/operations.md":              `--stop-timeout (\d+)`,
	} {
		text, err := os.ReadFile("../../" + file)
		must.OK(t, err)
		found := regexp.MustCompile(pattern).FindSubmatch(text)
		if found == nil {
			t.Errorf("%s sets no limit that matches %s", file, pattern)
			continue
		}
		limit := string(found[1])
		if limit[len(limit)-1] != 'm' {
			limit += "s"
		}
		if got, err := time.ParseDuration(limit); err != nil || got < least {
			t.Errorf("%s: a stop may take %v, it is killed after %s (%v)", file, least, limit, err)
		}
	}
}

// The sandbox of the unit does not hide the files of /proc that belong to no process: the boot id
// is one. scripts/packages-test.sh inspects the broker in it.
func TestTheSandboxShowsTheBootID(t *testing.T) {
	text, err := os.ReadFile("../../deploy/systemd/chronikd.service")
	must.OK(t, err)
	if set := regexp.MustCompile(`(?m)^(ProcSubset|InaccessiblePaths|TemporaryFileSystem)=.*`).Find(text); set != nil {
		t.Errorf("%s: a crash of the process may count as a loss of power", set)
	}
}

// The brokers of the compose file with a cluster accept its variables and their files, and find
// each other.
func TestTheComposeFileOfAClusterIsAccepted(t *testing.T) {
	text, err := os.ReadFile("../../deploy/docker/cluster.yaml")
	must.OK(t, err)
	var shared []string // set by all
	own := map[int32][]string{}
	for _, m := range regexp.MustCompile(`(?m)^ +(CHRONIK_\w+): "?([^"\n]+)"?$`).FindAllStringSubmatch(string(text), -1) {
		if m[1] == "CHRONIK_NODE_ID" || m[1] == "CHRONIK_ADVERTISE" { // one of each for a broker, in order
			id := int32(1)
			for slices.ContainsFunc(own[id], func(kv string) bool { return strings.HasPrefix(kv, m[1]+"=") }) {
				id++
			}
			own[id] = append(own[id], m[1]+"="+m[2])
			continue
		}
		shared = append(shared, m[1]+"="+m[2])
	}
	if len(own) != 3 {
		t.Fatalf("found the brokers %v", own)
	}
	for id, env := range own {
		cfg, err := resolve.Load(config.Input{File: fmt.Sprintf("../../deploy/docker/cluster/%d.yaml", id), ReadFile: os.ReadFile,
			Environ: append(append(env, shared...), "CHRONIK_LISTEN=:9092")})
		if err != nil {
			t.Errorf("broker %d: %v", id, err)
			continue
		}
		conf, err := resolve.Registry(cfg.Durability).ResolveBroker(resolve.Static(cfg))
		must.OK(t, err)
		seed := fmt.Sprintf("chronik-%d:19092", id)
		var at string
		for _, l := range cfg.Listeners {
			if l.Name == resolve.InterListener(cfg, &conf) {
				at = l.Advertise
			}
		}
		if conf.NodeID != id || conf.Cluster.Name == "" || !slices.Contains(conf.Cluster.Seeds, seed) || at != seed ||
			len(cfg.Warnings) > 0 {
			t.Errorf("broker %d: node.id %d, cluster %+v, advertises %s to brokers, warnings %q", id, conf.NodeID,
				conf.Cluster, at, cfg.Warnings)
		}
	}
}
