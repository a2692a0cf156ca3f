package lint

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// TestTheSecuredStackFits checks deploy/docker/secured.yaml against the stack that it changes: the
// broker's configuration is in a volume, where the command of the comment writes it, and clients
// reach the broker at the addresses of that command.
func TestTheSecuredStackFits(t *testing.T) {
	d, err := readDeployment("../../..", stackFile)
	must.OK(t, err)
	file := filepath.Join(d.root, stackDir, "secured.yaml")
	var secured compose
	must.OK(t, readYAML(file, &secured))
	// Prometheus shows the admin port's token.
	names := slices.DeleteFunc(slices.Collect(maps.Keys(secured.Services)), func(name string) bool { return name == "prometheus" })
	if !slices.Equal(names, d.brokers) {
		t.Fatalf("it changes %v, not the broker %v", names, d.brokers)
	}
	prometheus := secured.Services["prometheus"]
	if at := prometheus.flag("--config.file"); at != "/etc/prometheus/secured.yml" {
		t.Errorf("Prometheus reads %q", at)
	}
	text, err := os.ReadFile(file)
	must.OK(t, err)
	service := secured.Services[names[0]]
	config := service.flag("--config")
	made := regexp.MustCompile(`secure init (\S+)`).FindSubmatch(text)
	if len(made) != 2 || string(made[1])+"/chronikd.yaml" != config {
		t.Errorf("the broker reads %q, the command writes to %q", config, made)
	}
	if !strings.HasPrefix(config, d.image.volume+"/") {
		t.Errorf("%q is not in the image's volume %s", config, d.image.volume)
	}
	var open struct {
		Listeners []struct{ Advertise string }
	}
	must.OK(t, readYAML(filepath.Join(d.root, stackDir, "chronikd.yaml"), &open))
	advertised := regexp.MustCompile(`--advertise (\S+)`).FindAllSubmatch(text, -1)
	if len(advertised) != len(open.Listeners) {
		t.Fatalf("the command has %d addresses, chronikd.yaml %d listeners", len(advertised), len(open.Listeners))
	}
	for i, l := range open.Listeners {
		if string(advertised[i][1]) != l.Advertise {
			t.Errorf("the command advertises %s, chronikd.yaml %s", advertised[i][1], l.Advertise)
		}
	}
}
