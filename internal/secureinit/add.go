package secureinit

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/chronik-io/chronik/internal/cli/contexts"
	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/security/files"
)

// Addition is brokers that join a cluster which an Installation has made. They get its secret, its
// admin token and certificates of its authority, but no users: a cluster that exists has them.
type Addition struct {
	dir   string
	nodes []nodePlan
	// cluster is that of the node whose files were read.
	cluster cluster
	like    string   // the directory of that node
	present []string // the directories of all nodes that are there
	known   roster
	// rename and syncDir give the directories their names. Tests replace them.
	rename  func(from, to string) error
	syncDir func(dir string) error
	widened bool // ca.pem did not permit the names of the brokers, and was issued again
}

// Add makes brokers for the cluster in a directory, which must have the authority's key and the
// files of at least one node. nodes lists their HOST or HOST:PORT. They get the numbers from first
// on; if that is 0, those that follow the highest one. read returns the configuration in a file.
//
// If the authority's certificate does not permit their names, Add replaces it, in the directory and
// in those of the nodes that are there: with the same key and subject, and exactly these names
// more. An error has the remedy; after one, Add can be called again.
func Add(dir string, nodes []string, first int, read func(file string) (*config.Config, error), now time.Time) (*Addition, error) {
	return add(&Addition{dir: dir, rename: os.Rename, syncDir: syncDir}, nodes, first, read, now)
}

func add(x *Addition, nodes []string, first int, read func(file string) (*config.Config, error), now time.Time) (*Addition, error) {
	if len(nodes) == 0 {
		return nil, errors.New("--nodes names the brokers that join, as HOST or HOST:PORT; write for example --nodes d.example.com")
	}
	d, err := os.Open(x.dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }() // it ends the lock
	switch err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, errors.New("another secure add has the directory; wait for its end")
	case err != nil:
		return nil, fmt.Errorf("the directory cannot be locked: %w; copy it to a local disk", err)
	}
	if err := x.plan(nodes, first, read); err != nil {
		return nil, err
	}
	err = x.write(now)
	return x, err
}

// plan numbers the brokers, and changes no file. The directories of nodes may have been moved to
// their machines, so that their numbers and addresses are also those of cluster.seeds, which were
// numbered from 1 on, and of the roster, which has the brokers that were added later.
func (x *Addition) plan(nodes []string, first int, read func(file string) (*config.Config, error)) error {
	found, err := filepath.Glob(filepath.Join(x.dir, "node-*", "chronikd.yaml"))
	if err != nil {
		return err
	}
	if x.known, err = readRoster(x.dir); err != nil {
		return err
	}
	highest, last, used := 0, x.known.last(), x.known.used()
	for _, file := range found {
		cfg, err := read(file)
		if err != nil {
			return err
		}
		id, _ := strconv.Atoi(cfg.Broker["node.id"])
		number, _ := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(file)), "node-"))
		x.present = append(x.present, filepath.Dir(file))
		if number = max(number, id); number > highest {
			highest, x.like = number, filepath.Dir(file)
			x.cluster = cluster{name: cfg.Broker["cluster.name"], seeds: cfg.Broker["cluster.seeds"], exists: true}
		}
		seeds := strings.Split(cfg.Broker["cluster.seeds"], ",")
		last = max(last, number, len(seeds))
		for _, at := range append(seeds, ownAddresses(cfg)...) {
			used[strings.ToLower(strings.TrimSpace(at))] = true
		}
	}
	switch {
	case x.cluster.seeds == "":
		return fmt.Errorf("%s has no node-1 of a cluster, as `chronikd secure init --nodes` writes it; "+
			"copy the directory of one of its nodes there; a broker alone becomes the first of three as docs/cluster.md says "+
			"(Grow from one broker)", x.dir)
	case first == 0 && len(x.known) == 0:
		return fmt.Errorf("%s, with the numbers that were given, is missing or empty; put it back, or write --first-id with a number "+
			"that no broker ever had: `chronikctl broker list` shows those in use", rosterPath(x.dir))
	case first != 0 && first <= last:
		return fmt.Errorf("--first-id %d: the numbers up to %d are given; write %d or more", first, last, last+1)
	}
	x.nodes, err = planNodes(x.dir, nodes, max(first, last+1), used)
	if err != nil {
		return err
	}
	for i := range x.nodes {
		if _, err := os.Lstat(x.nodes[i].dir); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, fmt.Errorf("%s is there, and is no directory of a broker; remove it, or move it away", x.nodes[i].dir))
		}
	}
	return nil
}

// ownAddresses returns the addresses of a configuration that no other node may have.
func ownAddresses(cfg *config.Config) (all []string) {
	for _, l := range cfg.Listeners {
		all = append(all, l.Advertise)
		if host, _, err := net.SplitHostPort(l.Advertise); err == nil {
			_, port, _ := net.SplitHostPort(cfg.AdminListen)
			all = append(all, net.JoinHostPort(host, port))
		}
	}
	return all
}

// write makes the files. What may fail, such as for want of space, comes before the first change:
// all files are there under temporary names before ca.pem is replaced. The numbers are in the
// roster before a directory has its name, and can be moved away.
func (x *Addition) write(now time.Time) error {
	made, ca, err := x.files(now)
	if err != nil {
		return err
	}
	// The roster forgets the numbers of an attempt that failed before its directories, by which it
	// knows them, are removed.
	if _, err := os.Lstat(stage(x.dir)); err == nil {
		if err := x.known.save(x.dir); err != nil {
			return err
		}
		if err := os.RemoveAll(stage(x.dir)); err != nil {
			return err
		}
	}
	for name, text := range made {
		if err := writeNew(filepath.Join(stage(x.dir), name), text); err != nil {
			return errors.Join(err, os.RemoveAll(stage(x.dir)))
		}
	}
	for i := range x.nodes {
		if err := syncDir(x.staged(i)); err != nil {
			return err
		}
	}
	if err := errors.Join(syncDir(stage(x.dir)), syncDir(x.dir)); err != nil {
		return err
	}
	if err := slices.Concat(x.known, rosterOf(x.nodes)).save(x.dir); err != nil {
		return err
	}
	if x.widened {
		if err := x.replaceAuthority(ca); err != nil {
			return err
		}
	}
	return x.publish()
}

// files returns the files of the nodes, by their path below the directory, and the certificate of
// the authority.
func (x *Addition) files(now time.Time) (made map[string][]byte, certificate []byte, err error) {
	old, err := authority(x.dir)
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for i := range x.nodes {
		names = append(names, x.nodes[i].names()...)
	}
	ca, err := old.Widen(names, now)
	if err != nil {
		return nil, nil, err
	}
	x.widened = ca != old
	shared := make(map[string][]byte)
	for _, name := range []string{"cluster.secret", "admin.token"} {
		text, _, err := files.ReadSecret(filepath.Join(x.like, name))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", filepath.Join(x.like, name), err)
		}
		shared[name] = text
	}
	made = make(map[string][]byte)
	for i := range x.nodes {
		p := &x.nodes[i]
		leaf, err := ca.Leaf(BrokerSubject, p.names(), now)
		if err != nil {
			return nil, nil, err
		}
		at := func(name string) string { return filepath.Join(filepath.Base(p.dir), name) }
		for name, text := range shared {
			made[at(name)] = text
		}
		made[at("ca.pem")], made[at("server.pem")], made[at("server-key.pem")] = ca.CertificatePEM, leaf.Certificate, leaf.Key
		made[at("chronikd.yaml")] = []byte(p.configuration(x.cluster))
	}
	return made, ca.CertificatePEM, nil
}

// stage returns the directory in which those of new nodes are made. One that is still there has no
// other name, so that its number can be given again.
func stage(dir string) string { return filepath.Join(dir, ".adding") }

func (x *Addition) staged(i int) string {
	return filepath.Join(stage(x.dir), filepath.Base(x.nodes[i].dir))
}

// publish gives all directories of new nodes their names, durably, or none.
func (x *Addition) publish() (err error) {
	named := 0
	for ; named < len(x.nodes); named++ {
		if err = x.rename(x.staged(named), x.nodes[named].dir); err != nil {
			break
		}
	}
	if err == nil {
		err = x.syncDir(x.dir)
	}
	if err != nil {
		for i := range named {
			err = errors.Join(err, os.Rename(x.nodes[i].dir, x.staged(i)))
		}
		return errors.Join(err, x.syncDir(x.dir), x.syncDir(stage(x.dir)))
	}
	_ = os.Remove(stage(x.dir)) // it is empty, and the next call removes what it has
	return nil
}

// replaceAuthority writes a new ca.pem where there is a former one.
func (x *Addition) replaceAuthority(text []byte) error {
	all := []files.Replacement{{Path: filepath.Join(x.dir, "ca.pem"), Text: text}}
	for _, dir := range x.present {
		path := filepath.Join(dir, "ca.pem")
		switch _, err := os.Stat(path); {
		case err == nil:
			all = append(all, files.Replacement{Path: path, Text: text})
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return files.Replace(all)
}

// ContextCommands returns, for each context of chronikctl that has the cluster's authority and
// lacks an address of a new broker, the command that adds it. It changes no context: the brokers do
// not run yet.
func (x *Addition) ContextCommands(file *contexts.File) (commands []string) {
	for _, name := range slices.Sorted(maps.Keys(file.Contexts)) {
		c := file.Contexts[name]
		if c[contexts.TLSCA] != filepath.Join(x.dir, "ca.pem") || c[contexts.Brokers] == "" {
			continue
		}
		known := strings.Split(c[contexts.Brokers], ",")
		all := slices.Clone(known)
		for i := range x.nodes {
			if at := bootstrap(x.nodes[i : i+1]); !slices.Contains(all, at) {
				all = append(all, at)
			}
		}
		if len(all) > len(known) {
			commands = append(commands, fmt.Sprintf("chronikctl context set %s %s=%s", name, contexts.Brokers, strings.Join(all, ",")))
		}
	}
	return commands
}

// Summary returns what was made and what to do next, in this order. It does not say who has which
// ca.pem: the order is the same if the one of an earlier call has not come everywhere.
func (x *Addition) Summary() string {
	var b strings.Builder
	ca := filepath.Join(x.dir, "ca.pem")
	for i := range x.nodes {
		fmt.Fprintf(&b, "written: %s, broker %d of cluster %s\n", x.nodes[i].dir, x.nodes[i].id, x.cluster.name)
	}
	b.WriteString("check: `chronikctl broker list` shows the numbers in use; a new one must not be there\n")
	if x.widened {
		fmt.Fprintf(&b, "\n%s is new: the same authority, which may now also sign the names of the new brokers. Who has the former one\n"+
			"refuses them, and who has the new one accepts all. So do this in this order:\n", ca)
	} else {
		fmt.Fprintf(&b, "\n%s has not changed: it permits the names of the new brokers already. Who has an earlier one may\n"+
			"refuse them. So do this in this order, and leave out 1 and 2 only where each copy is the same file:\n", ca)
	}
	b.WriteString("1. copy it over the ca.pem of each broker that runs; within a second each takes it, without a restart\n" +
		"2. copy it over the ca.pem of each client; one that reads it only when it starts must be restarted\n" +
		"3. copy each new directory to its machine under the same path, and start its broker\n\n")
	for i := range x.nodes {
		fmt.Fprintf(&b, "start:         chronikd --config %s\n", filepath.Join(x.nodes[i].dir, "chronikd.yaml"))
	}
	fmt.Fprintf(&b, "cluster.seeds: %s, as in %s; if the brokers have another list, write it there\n", x.cluster.seeds,
		filepath.Join(x.like, "chronikd.yaml"))
	fmt.Fprintf(&b, "keep elsewhere: %s\n", filepath.Join(x.dir, "ca-key.pem"))
	fmt.Fprintf(&b, "keep here:     %s, with the numbers and addresses that were given\n", rosterPath(x.dir))
	return b.String()
}
