package lint

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// deployment holds the content of deploy/docker for one compose file, read once, and its faults.
type deployment struct {
	root   string
	file   string // name of the compose file
	image  dockerfile
	stack  compose
	faults []string
	// brokers are the services that run the image.
	brokers []string
	// neighbours are the services that neighbours.yaml adds to stack.
	neighbours []string
}

// compose is the part of a compose file that refers to other files or services.
type compose struct {
	Services map[string]service
	Volumes  map[string]any
}

type service struct {
	Image       string
	Build       struct{ Context, Dockerfile string }
	Command     []string
	Ports       []string
	Volumes     []string
	Environment map[string]string
	Ulimits     map[string]any
}

// dockerfile holds the settings of the last stage of deploy/docker/Dockerfile, and the files that
// all stages copy from the build's context.
type dockerfile struct {
	from, copied []string
	env          map[string]string
	exposed      []string
	user, volume string
	text         string
}

// stackDir is the directory of the compose files, to which their paths are relative. stackFile is
// the one with a single broker, and clusterFile that with three.
const (
	stackDir    = "deploy/docker"
	stackFile   = "compose.yaml"
	clusterFile = "cluster.yaml"
)

func readDeployment(root, file string) (*deployment, error) {
	d := &deployment{root: root, file: file}
	text, err := os.ReadFile(filepath.Join(root, stackDir, "Dockerfile"))
	if err != nil {
		return nil, err
	}
	d.image = parseDockerfile(string(text))
	if err := readYAML(filepath.Join(root, stackDir, file), &d.stack); err != nil {
		return nil, err
	}
	for name, s := range d.stack.Services {
		if s.Build.Context != "" {
			d.brokers = append(d.brokers, name)
		}
	}
	slices.Sort(d.brokers)
	if file != stackFile {
		return d, nil
	}
	// They are started together with the stack, so their names and ports must not conflict with it.
	var beside compose
	if err := readYAML(filepath.Join(root, stackDir, "neighbours.yaml"), &beside); err != nil {
		return nil, err
	}
	for name, s := range beside.Services {
		if _, ok := d.stack.Services[name]; ok {
			d.fault("neighbours.yaml: %s is a service of compose.yaml, too", name)
		}
		d.stack.Services[name] = s
		d.neighbours = append(d.neighbours, name)
	}
	return d, nil
}

func readYAML(file string, into any) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

func (d *deployment) fault(format string, args ...any) {
	d.faults = append(d.faults, fmt.Sprintf(format, args...))
}

// exists reports whether a path of the repository exists.
func (d *deployment) exists(p string) bool {
	_, err := os.Stat(filepath.Join(d.root, p))
	return err == nil
}

// isDir reports whether a path of the repository is a directory.
func (d *deployment) isDir(p string) bool {
	info, err := os.Stat(filepath.Join(d.root, p))
	return err == nil && info.IsDir()
}

func parseDockerfile(text string) dockerfile {
	f := dockerfile{env: map[string]string{}, text: text}
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		words := strings.Fields(line)
		if len(words) < 2 || strings.HasPrefix(words[0], "#") {
			continue
		}
		switch args := words[1:]; words[0] {
		case "ARG":
			if image, ok := strings.CutPrefix(args[0], "GO_IMAGE="); ok {
				f.from = append(f.from, image)
			}
		case "FROM":
			f.env, f.exposed, f.user, f.volume = map[string]string{}, nil, "", ""
		case "COPY":
			if !strings.HasPrefix(args[0], "--from=") {
				f.copied = append(f.copied, args[:len(args)-1]...)
			}
		case "ENV":
			for _, arg := range args {
				name, value, _ := strings.Cut(arg, "=")
				f.env[name] = value
			}
		case "EXPOSE":
			f.exposed = append(f.exposed, args...)
		case "USER":
			f.user = args[0]
		case "VOLUME":
			f.volume = strings.Trim(args[0], `[]"`)
		}
	}
	return f
}

// mount is one entry of a service's volumes. The source of a bound mount is a path of the
// repository, that of any other the name of a volume.
type mount struct {
	source, target  string
	bound, readonly bool
}

func (s service) mounts() []mount {
	var all []mount
	for _, v := range s.Volumes {
		parts := strings.Split(v, ":")
		if len(parts) < 2 {
			all = append(all, mount{source: v})
			continue
		}
		m := mount{source: parts[0], target: parts[1], readonly: len(parts) > 2 && parts[2] == "ro"}
		if strings.HasPrefix(m.source, ".") || strings.HasPrefix(m.source, "/") {
			m.source, m.bound = path.Join(stackDir, m.source), true
		}
		all = append(all, m)
	}
	return all
}

// below returns the part of a path in a container below a mount.
func (m mount) below(p string) (string, bool) {
	if p == m.target {
		return "", true
	}
	return strings.CutPrefix(p, m.target+"/")
}

// inside returns the file of the repository that a path in the service's container refers to, by
// the longest mount that covers it.
func (s service) inside(p string) (string, bool) {
	all := s.mounts()
	slices.SortFunc(all, func(a, b mount) int { return len(b.target) - len(a.target) })
	for _, m := range all {
		if rest, ok := m.below(p); ok {
			return path.Join(m.source, rest), m.bound
		}
	}
	return "", false
}

// flag returns the value of a flag of the service's command, as --name=value or as two words.
func (s service) flag(name string) string {
	for i, arg := range s.Command {
		if value, ok := strings.CutPrefix(arg, name+"="); ok {
			return value
		}
		if arg == name && i+1 < len(s.Command) {
			return s.Command[i+1]
		}
	}
	return ""
}

// published returns the pairs of host address and container port.
func (s service) published() map[string]string {
	all := map[string]string{}
	for _, p := range s.Ports {
		at := strings.LastIndex(p, ":")
		all[p[:max(at, 0)]] = p[at+1:]
	}
	return all
}

// checkCluster checks that the brokers of a file name each other as seeds, and differ where they
// must.
func (d *deployment) checkCluster() {
	if len(d.brokers) == 1 {
		return
	}
	ids, names, lists := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, name := range d.brokers {
		env := d.stack.Services[name].Environment
		ids[env["CHRONIK_NODE_ID"]], names[env["CHRONIK_CLUSTER_NAME"]], lists[env["CHRONIK_CLUSTER_SEEDS"]] = true, true, true
		seed, file := "", "cluster/"+strings.TrimPrefix(name, "chronik-")+".yaml"
		var config struct {
			Listeners []struct{ Name, Advertise string }
		}
		if err := readYAML(filepath.Join(d.root, stackDir, file), &config); err != nil {
			d.fault("%v", err)
		}
		for _, l := range config.Listeners {
			if l.Name == env["CHRONIK_INTER_BROKER_LISTENER_NAME"] {
				seed = l.Advertise
			}
		}
		if seeds := strings.Split(env["CHRONIK_CLUSTER_SEEDS"], ","); !slices.Contains(seeds, seed) || len(seeds) != len(d.brokers) {
			d.fault("%s: the seeds of %s are %q, without its own address for brokers, %q", d.file, name, seeds, seed)
		}
	}
	if len(ids) != len(d.brokers) || ids[""] || len(names) != 1 || names[""] || len(lists) != 1 {
		d.fault("%s: node ids %v, cluster names %v, seeds %v", d.file, ids, names, lists)
	}
}
