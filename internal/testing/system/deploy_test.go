package system

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/ports"
)

// The variables of the image, or the command of the unit, and the three settings of a cluster as
// variables are enough to start a member.
func TestImageAndUnitStartAMember(t *testing.T) {
	t.Parallel()
	text := func(file string) string {
		b, err := os.ReadFile(filepath.Join("..", "..", "..", file))
		must.OK(t, err)
		return string(b)
	}
	dockerfile := text("deploy/docker/Dockerfile")
	_, last, _ := strings.Cut(dockerfile, "FROM scratch")
	if !strings.Contains(last, `ENTRYPOINT ["/usr/bin/chronikd"]`) {
		t.Fatal("the image does not start chronikd")
	}
	var image []string
	for _, m := range regexp.MustCompile(`(CHRONIK_\w+)=(\S+)`).FindAllStringSubmatch(last, -1) {
		if m[1] != "CHRONIK_ADVERTISE" || strings.HasPrefix(m[2], "localhost:") {
			image = append(image, m[0])
		}
	}
	unit := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/chronikd (.*)$`).FindStringSubmatch(text("deploy/systemd/chronikd.service"))
	if len(image) < 4 || unit == nil ||
		!strings.Contains(text("deploy/systemd/chronikd.service"), "EnvironmentFile=-/etc/default/chronikd") {
		t.Fatalf("image: %q, unit: %q", image, unit)
	}
	for name, x := range map[string]struct{ env, args []string }{"image": {env: image}, "unit": {args: strings.Fields(unit[1])}} {
		dir := t.TempDir()
		seed, err := ports.Loopback()
		must.OK(t, err)
		admin, err := ports.Loopback()
		must.OK(t, err)
		for i, arg := range x.args {
			if strings.HasPrefix(arg, "/etc/") {
				x.args[i] = filepath.Join(dir, "chronikd.yaml")
				must.OK(t, os.WriteFile(x.args[i], []byte("data.dir: "+filepath.Join(dir, "d")+"\n"), 0o600))
			}
		}
		// The later value of a variable counts; these would not fit this machine.
		env := append(slices.Clone(x.env), "CHRONIK_LISTEN="+seed, "CHRONIK_ADVERTISE="+seed, "CHRONIK_ADMIN_LISTEN="+admin,
			"CHRONIK_CLUSTER_NAME=test", "CHRONIK_NODE_ID=7", "CHRONIK_CLUSTER_SEEDS="+seed)
		if x.args == nil {
			env = append(env, "CHRONIK_DATA_DIR="+filepath.Join(dir, "d"))
		}
		p, err := start(dir, env, x.args...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "d", "metadata")); err != nil {
			t.Errorf("%s: started alone: %v", name, err)
		}
		if err := p.end(syscall.SIGTERM); err != nil {
			t.Errorf("%s: %v\n%s", name, err, p.logged())
		}
	}
}
