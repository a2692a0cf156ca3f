package lint

import (
	"encoding/json"
	"maps"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// The files in deploy refer to each other: paths on both sides of a mount, ports, names in a
// network. These tests find references that do not match without a container engine.

// taggers are the files, other than compose.yaml, that build or run the image.
var taggers = []string{"deploy/docker/Dockerfile", "scripts/image.sh", "docs/quickstart.md", "docs/operations.md", "Makefile"}

func TestDeploymentFitsTogether(t *testing.T) {
	for _, fault := range deployFaults(t, "../../..") {
		t.Error(fault)
	}
}

func TestWhatDoesNotFitIsFound(t *testing.T) {
	const (
		composeFile    = "deploy/docker/compose.yaml"
		clusterCompose = "deploy/docker/cluster.yaml"
		imageFile      = "deploy/docker/Dockerfile"
		neighboursFile = "deploy/docker/neighbours.yaml"
	)
	root := t.TempDir()
	must.OK(t, os.CopyFS(filepath.Join(root, "deploy"), os.DirFS("../../../deploy")))
	for _, dir := range []string{"cmd/chronikd", "cmd/chronikctl", "internal", "pkg", "scripts", "docs"} {
		must.OK(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	for _, name := range append([]string{".dockerignore", "go.mod", "go.sum"}, taggers...) {
		rewrite(t, "../../../"+name, filepath.Join(root, name), "", "")
	}
	sound := func() {
		if faults := deployFaults(t, root); len(faults) > 0 {
			t.Fatalf("the copy has faults of its own: %q", faults)
		}
	}
	sound()
	for _, c := range []struct{ file, was, is, fault string }{
		{imageFile, "COPY pkg pkg", "COPY pkgs pkg", "pkgs, which does not exist"},
		{imageFile, "COPY pkg pkg", "COPY deploy pkg", "which .dockerignore leaves out"},
		{imageFile, "golang:1.26", "golang:1.20", "go.mod asks for"},
		{imageFile, "USER 65532", "USER 1000", "its passwd does not have"},
		{imageFile, "CHRONIK_DATA_DIR=/var/lib/chronik", "CHRONIK_DATA_DIR=/data", "its data directory /data"},
		{imageFile, "EXPOSE 9092 9644", "EXPOSE 9092", "does not expose it"},
		{imageFile, "./cmd/chronikctl", "./cmd/ctl", "builds ./cmd/ctl"},
		{imageFile, "CHRONIK_LISTEN=:9092", "CHRONIK_LISTEN=:9093", "first listener"},
		{imageFile, "CHRONIK_ADMIN_LISTEN=:9644", "CHRONIK_ADMIN_LISTEN=:9092", "which is not a service's admin port"},
		{imageFile, "docker.io/library/golang", "golang", "go.mod asks for"},
		{composeFile, "docker.io/prom/", "prom/", "without its registry"},
		{neighboursFile, "chronik:19092", "chronik:9092", "where no service listens for containers"},
		{neighboursFile, "http://karapace:8081", "http://registry:8081", "where no service listens for containers"},
		{neighboursFile, "http://karapace:8081", "http://karapace:80", "where no service listens for containers"},
		{neighboursFile, "127.0.0.1:8080:8080", "127.0.0.1:3000:8080", "both published at"},
		{neighboursFile, "  kafbat:", "  grafana:", "is a service of compose.yaml, too"},
		{neighboursFile, "ghcr.io/kafbat/", "kafbat/", "without its registry"},
		{composeFile, "image: chronik", "image: broker", "Dockerfile names the image chronik, compose broker"},
		{"docs/quickstart.md", "-t chronik", "-t broker", "quickstart.md names the image broker"},
		{"docs/operations.md", "--stop-timeout 120 chronik", "--stop-timeout 120 broker", "operations.md names the image broker"},
		{"scripts/image.sh", "chronik:dev", "broker:dev", "image.sh names the image broker:dev"},
		{composeFile, "- data:/var", "- dat:/var", "which is not a volume"},
		{composeFile, "- data:/var", "- prometheus:/var", "no service mounts the volume data"},
		{composeFile, "./chronikd.yaml:", "./chronik.yaml:", "chronik.yaml, which does not exist"},
		{composeFile, "/etc/prometheus/targets.yml:ro", "/etc/prometheus/hosts.yml:ro", "no hosts.yml as its mount point"},
		{composeFile, "context: ../..", "context: ..", "is built from"},
		{composeFile, "127.0.0.1:3000:3000", "3000:3000", "not on loopback"},
		{composeFile, "127.0.0.1:3000:3000", "127.0.0.1:9090:3000", "both published at"},
		{composeFile, "[--config, /etc/chronik/chronikd.yaml]", "[--config, /etc/chronikd.yaml]", "which nothing mounts"},
		{composeFile, "127.0.0.1:9092:9092", "127.0.0.1:9094:9092", "which compose does not publish"},
		{composeFile, "../prometheus/targets-compose.yml", "../prometheus/targets.yml", "which is not a service's admin port"},
		{composeFile, "--config.file=/etc/prometheus/", "--config.file=/prometheus/", "prometheus reads /prometheus/"},
		{composeFile, "dashboards:/var/lib/grafana/dashboards", "dashboards:/dashboards", "looks for dashboards in"},
		{composeFile, "dashboards/overview.json", "dashboards/home.json", "grafana's home"},
		{composeFile, "CHRONIK_ADVERTISE: 127.0.0.1:9092", "CHRONIK_ADVERTISE: 127.0.0.1:9094", "first listener"},
		{composeFile, "read_only: true", "ulimits: {nofile: 1048576}", "which not every engine may give"},
		{clusterCompose, `CHRONIK_NODE_ID: "2"`, `CHRONIK_NODE_ID: "1"`, "cluster.yaml: node ids"},
		{clusterCompose, "SEEDS: chronik-1:19092,chronik-2", "SEEDS: chronik-1:19092,chronik-4", "the seeds of chronik-2 are"},
		{clusterCompose, "LISTENER_NAME: containers", "LISTENER_NAME: host", "without its own address for brokers"},
		{clusterCompose, "127.0.0.1:9093:9092", "127.0.0.1:9092:9092", "both published at"},
		{clusterCompose, "data-2:/var/lib", "data-1:/var/lib", "no service mounts the volume data-2"},
		{clusterCompose, "./cluster/2.yaml:", "./cluster/3.yaml:", "which is another service than chronik-2"},
		{"deploy/prometheus/targets-cluster.yml", "chronik-3:9644", "chronik-3:9092", "which is not a service's admin port"},
		{"deploy/docker/chronikd.yaml", "127.0.0.1:9092", "localhost:9092", "which may be ::1"},
		{"deploy/docker/chronikd.yaml", "chronik:19092", "broker:19092", "which is not a service"},
		{"deploy/docker/chronikd.yaml", "chronik:19092", "chronik:19093", "and it listens on"},
		{"deploy/prometheus/prometheus.yml", "- rules.yml", "- alerts.yml", "names alerts.yml"},
		{"deploy/prometheus/prometheus.yml", "[targets.yml]", "[]", "scrapes nothing"},
		{"deploy/prometheus/targets-compose.yml", "chronik:9644", "localhost:9644", "which is not a service's admin port"},
		{"deploy/grafana/provisioning/datasources/prometheus.yml", "prometheus:9090", "prometheus:9091", "where no service listens"},
		{"deploy/grafana/dashboards/topics.json", `"uid": "chronik-topics"`, `"uid": "chronik-groups"`, "has the id"},
		{"deploy/grafana/dashboards/topics.json", `"uid": "${datasource}"`, `"uid": "P1809F7CD0C75ACF3"`, "only its author has"},
		{"deploy/grafana/dashboards/topics.json", `"min": 0`, `"min": null`, "leave it out"},
	} {
		file := filepath.Join(root, c.file)
		sane, err := os.ReadFile(file)
		must.OK(t, err)
		rewrite(t, file, file, c.was, c.is)
		if faults := deployFaults(t, root); !strings.Contains(strings.Join(faults, "\n"), c.fault) {
			t.Errorf("%s with %q for %q: faults %q, none says %q", c.file, c.is, c.was, faults, c.fault)
		}
		must.OK(t, os.WriteFile(file, sane, 0o644))
	}
	sound()
}

// rewrite copies a file and replaces every was with is.
func rewrite(t *testing.T, from, to, was, is string) {
	t.Helper()
	b, err := os.ReadFile(from)
	must.OK(t, err)
	if !strings.Contains(string(b), was) {
		t.Fatalf("%s has no %q", from, was)
	}
	if was != "" {
		b = []byte(strings.ReplaceAll(string(b), was, is))
	}
	must.OK(t, os.WriteFile(to, b, 0o644))
}

func deployFaults(t *testing.T, root string) []string {
	t.Helper()
	var faults []string
	for _, file := range []string{stackFile, clusterFile} {
		d, err := readDeployment(root, file)
		must.OK(t, err)
		d.checkImage()
		d.checkTag()
		d.checkMounts()
		d.checkPorts()
		for _, name := range d.brokers {
			d.checkBroker(name)
		}
		d.checkCluster()
		d.checkPrometheus()
		d.checkGrafana()
		d.checkNeighbours()
		faults = append(faults, d.faults...)
	}
	return faults
}

// checkImage checks that the files that the Dockerfile copies exist and are not ignored, and that
// its declarations agree with its settings.
func (d *deployment) checkImage() {
	ignore, err := os.ReadFile(filepath.Join(d.root, ".dockerignore"))
	if err != nil {
		d.fault("%v", err)
	}
	for _, source := range d.image.copied {
		if !d.exists(source) {
			d.fault("Dockerfile copies %s, which does not exist", source)
		}
		if !strings.Contains("\n"+string(ignore)+"\n", "\n!"+source+"\n") {
			d.fault("Dockerfile copies %s, which .dockerignore leaves out", source)
		}
	}
	mod, err := os.ReadFile(filepath.Join(d.root, "go.mod"))
	if err != nil {
		d.fault("%v", err)
	}
	wanted := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	if len(d.image.from) != 1 || wanted == nil || d.image.from[0] != "docker.io/library/golang:"+string(wanted[1]) {
		d.fault("Dockerfile builds with %v, go.mod asks for %s", d.image.from, wanted)
	}
	uid, _, _ := strings.Cut(d.image.user, ":")
	const users = "deploy/docker/passwd"
	passwd, err := os.ReadFile(filepath.Join(d.root, users))
	if err != nil {
		d.fault("%v", err)
	}
	if !strings.Contains(d.image.text, "COPY "+users+" ") {
		d.fault("Dockerfile does not copy %s", users)
	}
	if uid == "" || uid == "0" || !strings.Contains(string(passwd), ":x:"+uid+":") {
		d.fault("Dockerfile runs as %q, which its passwd does not have", d.image.user)
	}
	if dir := d.image.env["CHRONIK_DATA_DIR"]; dir != d.image.volume {
		d.fault("the image's volume is %s and its data directory %s", d.image.volume, dir)
	}
	for _, name := range []string{"CHRONIK_LISTEN", "CHRONIK_ADMIN_LISTEN"} {
		if port := portOf(d.image.env[name]); !slices.Contains(d.image.exposed, port) {
			d.fault("the image listens on %s=%s and does not expose it", name, d.image.env[name])
		}
	}
	for _, program := range regexp.MustCompile(`\./cmd/[a-z-]+`).FindAllString(d.image.text, -1) {
		if !d.isDir(program) {
			d.fault("Dockerfile builds %s, which does not exist", program)
		}
	}
}

// tagged matches an image's name where it is built and where it is run.
var tagged = regexp.MustCompile(`(?m)docker build .*-t (\S+)|docker run .* (\S+)$|tag="\$\{1:-([^}]+)\}|scripts/image\.sh (chronik\S*)`)

// checkTag checks that the image has the same name where it is built and where it is run.
func (d *deployment) checkTag() {
	wanted, _, _ := strings.Cut(d.stack.Services[d.brokers[0]].Image, ":")
	for _, file := range taggers {
		text, err := os.ReadFile(filepath.Join(d.root, file))
		if err != nil {
			d.fault("%v", err)
		}
		found := tagged.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			d.fault("%s names no image", file)
		}
		for _, m := range found {
			tag := strings.Join(m[1:], "")
			if name, _, _ := strings.Cut(tag, ":"); name != wanted {
				d.fault("%s names the image %s, compose %s", file, tag, wanted)
			}
		}
	}
}

// checkMounts checks that mounted files exist, that volumes are declared and used, and that a mount
// inside a read-only mount has a mount point.
func (d *deployment) checkMounts() {
	used := map[string]bool{}
	for name, s := range d.stack.Services {
		// Podman resolves no short names unless it is configured to.
		if host, _, slash := strings.Cut(s.Image, "/"); s.Build.Context == "" && (!slash || !strings.Contains(host, ".")) {
			d.fault("compose: %s is the image %s, without its registry", name, s.Image)
		}
		for _, m := range s.mounts() {
			if _, declared := d.stack.Volumes[m.source]; !m.bound && !declared {
				d.fault("compose: %s mounts %s, which is not a volume of the file", name, m.source)
			}
			used[m.source] = true
			if m.bound && !d.exists(m.source) {
				d.fault("compose: %s mounts %s, which does not exist", name, m.source)
			}
			for _, outer := range s.mounts() {
				rest, ok := outer.below(m.target)
				if place := path.Join(outer.source, rest); ok && rest != "" && outer.bound && outer.readonly && !d.exists(place) {
					d.fault(
						"compose: %s mounts %s in the read-only %s, which has no %s as its mount point",
						name,
						m.target,
						outer.source,
						rest,
					)
				}
			}
		}
		if s.Build.Context != "" && !d.exists(path.Join(stackDir, s.Build.Context, s.Build.Dockerfile)) {
			d.fault("compose: %s is built from %s in %s, which does not exist", name, s.Build.Dockerfile, s.Build.Context)
		}
	}
	for name := range d.stack.Volumes {
		if !used[name] {
			d.fault("compose: no service mounts the volume %s", name)
		}
	}
}

// checkPorts checks that every port is published on loopback, because nothing here has
// authentication, and that no two services publish the same port.
func (d *deployment) checkPorts() {
	taken := map[string]string{}
	for name, s := range d.stack.Services {
		for at := range s.published() {
			if host, _, err := net.SplitHostPort(at); err != nil || host != "127.0.0.1" {
				d.fault("compose: %s is published at %q and not on loopback", name, at)
			}
			if other := taken[at]; other != "" {
				d.fault("compose: %s and %s are both published at %s", name, other, at)
			}
			taken[at] = name
		}
	}
}

// checkBroker checks that the broker's file is where its command expects it, and that the
// advertised addresses lead to it, from the host and from containers.
func (d *deployment) checkBroker(name string) {
	s := d.stack.Services[name]
	// An engine without root may not exceed its own limits, and then starts nothing.
	if len(s.Ulimits) > 0 {
		d.fault("compose: %s asks for limits of its own, which not every engine may give", name)
	}
	file, ok := s.inside(s.flag("--config"))
	if !ok || !d.exists(file) {
		d.fault("compose: %s reads %s, which nothing mounts", name, s.flag("--config"))
		return
	}
	var config struct {
		Listeners []struct{ Listen, Advertise string }
	}
	if err := readYAML(filepath.Join(d.root, file), &config); err != nil {
		d.fault("%v", err)
		return
	}
	env := maps.Clone(d.image.env)
	maps.Copy(env, s.Environment)
	if len(config.Listeners) == 0 || config.Listeners[0].Listen != env["CHRONIK_LISTEN"] ||
		config.Listeners[0].Advertise != env["CHRONIK_ADVERTISE"] {
		d.fault("%s: the first listener is not that of the variables", file)
	}
	for _, l := range config.Listeners {
		host, port, err := net.SplitHostPort(l.Advertise)
		switch _, known := d.stack.Services[host]; {
		case err != nil:
			d.fault("%s: advertise: %v", file, err)
		case host == "127.0.0.1" && s.published()[l.Advertise] != portOf(l.Listen):
			d.fault("%s: clients on the host receive %s, which compose does not publish", file, l.Advertise)
		case host == "localhost":
			d.fault("%s: clients on the host receive %s, which may be ::1, where nothing is published", file, l.Advertise)
		case host != "127.0.0.1" && !known:
			d.fault("%s: clients receive %s, which is not a service", file, l.Advertise)
		case host != "127.0.0.1" && host != name:
			d.fault("%s: clients receive %s, which is another service than %s", file, l.Advertise, name)
		case host != "127.0.0.1" && port != portOf(l.Listen):
			d.fault("%s: clients receive %s, and it listens on %s", file, l.Advertise, l.Listen)
		}
	}
}

// checkPrometheus checks that its files are where others expect them, on this machine and in the
// container, and that it scrapes the broker's admin port there.
func (d *deployment) checkPrometheus() {
	s := d.stack.Services["prometheus"]
	inside := s.flag("--config.file")
	file, ok := s.inside(inside)
	var config struct {
		RuleFiles     []string `yaml:"rule_files"`
		ScrapeConfigs []struct {
			Files []struct{ Files []string } `yaml:"file_sd_configs"`
		} `yaml:"scrape_configs"`
	}
	if err := readYAML(filepath.Join(d.root, file), &config); !ok || err != nil {
		d.fault("compose: prometheus reads %s, which nothing mounts: %v", inside, err)
		return
	}
	named := config.RuleFiles
	var targets []string
	for _, c := range config.ScrapeConfigs {
		for _, f := range c.Files {
			targets = append(targets, f.Files...)
		}
	}
	for _, name := range append(named, targets...) {
		if _, ok := s.inside(path.Join(path.Dir(inside), name)); !ok || !d.exists(path.Join(path.Dir(file), name)) {
			d.fault("%s names %s, which is not in the same directory", file, name)
		}
	}
	if len(targets) == 0 {
		d.fault("%s scrapes nothing", file)
	}
	for _, name := range targets {
		d.checkTargets(s, path.Join(path.Dir(inside), name))
	}
}

func (d *deployment) checkTargets(s service, inside string) {
	file, _ := s.inside(inside)
	var groups []struct{ Targets []string }
	if err := readYAML(filepath.Join(d.root, file), &groups); err != nil {
		d.fault("%v", err)
	}
	for _, g := range groups {
		for _, target := range g.Targets {
			host, port, _ := net.SplitHostPort(target)
			if _, known := d.stack.Services[host]; !known || port != portOf(d.image.env["CHRONIK_ADMIN_LISTEN"]) {
				d.fault("compose: prometheus scrapes %s of %s, which is not a service's admin port", target, file)
			}
		}
	}
}

// checkGrafana checks that it finds its provisioning, the dashboards of the provisioning, and
// Prometheus.
func (d *deployment) checkGrafana() {
	s := d.stack.Services["grafana"]
	base, _ := s.inside("/etc/grafana/provisioning")
	var providers struct {
		Providers []struct{ Options struct{ Path string } }
	}
	var sources struct {
		Datasources []struct{ URL string }
	}
	if err := readYAML(filepath.Join(d.root, base, "dashboards", "chronik.yml"), &providers); err != nil {
		d.fault("compose: grafana: %v", err)
	}
	if err := readYAML(filepath.Join(d.root, base, "datasources", "prometheus.yml"), &sources); err != nil {
		d.fault("compose: grafana: %v", err)
	}
	for _, p := range providers.Providers {
		dir, ok := s.inside(p.Options.Path)
		if found, _ := filepath.Glob(filepath.Join(d.root, dir, "*.json")); !ok || len(found) == 0 {
			d.fault("compose: grafana looks for dashboards in %s, where nothing is mounted", p.Options.Path)
		}
	}
	home := s.Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
	if file, ok := s.inside(home); !ok || !d.exists(file) {
		d.fault("compose: grafana's home is %s, which nothing mounts", home)
	}
	for _, source := range sources.Datasources {
		u, err := url.Parse(source.URL)
		if err != nil {
			d.fault("grafana's data source: %v", err)
			continue
		}
		target := d.stack.Services[u.Hostname()]
		if !slices.Contains(slices.Collect(maps.Values(target.published())), u.Port()) {
			d.fault("grafana queries %s, where no service listens", source.URL)
		}
	}
	d.checkDashboards()
}

// checkNeighbours checks that each address in the environment of a neighbour leads to a service: to
// a listener of the broker that advertises that address, or to a port that another service
// publishes.
func (d *deployment) checkNeighbours() {
	listeners, err := os.ReadFile(filepath.Join(d.root, stackDir, "chronikd.yaml"))
	if err != nil {
		d.fault("%v", err)
	}
	for _, name := range d.neighbours {
		addresses := 0
		for key, value := range d.stack.Services[name].Environment {
			for _, m := range regexp.MustCompile(`([a-z]+):(\d+)`).FindAllStringSubmatch(value, -1) {
				addresses++
				target, known := d.stack.Services[m[1]]
				listens := slices.Contains(slices.Collect(maps.Values(target.published())), m[2])
				if m[1] == "chronik" { // whose clients dial what it advertises
					listens = strings.Contains(string(listeners), "advertise: "+m[0]+"\n")
				}
				if !known || !listens {
					d.fault("neighbours.yaml: %s of %s is %s, where no service listens for containers", key, name, value)
				}
			}
		}
		if addresses == 0 {
			d.fault("neighbours.yaml: %s is connected to nothing", name)
		}
	}
}

// checkDashboards checks that each dashboard has its own id and uses the selected data source
// instead of its author's.
func (d *deployment) checkDashboards() {
	files, _ := filepath.Glob(filepath.Join(d.root, "deploy", "grafana", "dashboards", "*.json"))
	ids := map[string]string{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			d.fault("%v", err)
			continue
		}
		var dashboard struct{ UID string }
		if err := json.Unmarshal(b, &dashboard); err != nil {
			d.fault("%s: %v", file, err)
		}
		if other := ids[dashboard.UID]; dashboard.UID == "" || other != "" {
			d.fault("%s has the id %q, as %s has", file, dashboard.UID, other)
		}
		ids[dashboard.UID] = file
		for _, m := range regexp.MustCompile(`"datasource":\s*\{[^}]*"uid":\s*"([^"]*)"`).FindAllSubmatch(b, -1) {
			if uid := string(m[1]); uid != "${datasource}" && uid != "-- Grafana --" {
				d.fault("%s asks the data source %q, which only its author has", file, uid)
			}
		}
		// Old versions of Grafana accepted null for "automatic"; its schema knows numbers only.
		if m := regexp.MustCompile(`"(?:min|max|decimals)":\s*null`).Find(b); m != nil {
			d.fault("%s has %s: leave it out", file, m)
		}
	}
}

// portOf returns the port of a HOST:PORT whose host may be missing.
func portOf(address string) string { return address[strings.LastIndex(address, ":")+1:] }
