package secureinit

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

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
	present []string // the directories of all nodes that exist
	// Widened: ca.pem did not permit the names of the brokers, and was issued again.
	Widened bool
}

// NewAddition plans brokers for the cluster in a directory, which must have the authority's key and
// the files of at least one node. nodes lists their HOST or HOST:PORT. They get the numbers that
// follow the highest one. read returns the configuration in a file. An error has the remedy.
func NewAddition(dir string, nodes []string, read func(file string) (*config.Config, error)) (*Addition, error) {
	if len(nodes) == 0 {
		return nil, errors.New("--nodes names the brokers that join, as HOST or HOST:PORT; write for example --nodes d.example.com")
	}
	x := &Addition{dir: dir}
	found, err := filepath.Glob(filepath.Join(dir, "node-*", "chronikd.yaml"))
	if err != nil {
		return nil, err
	}
	last, used := 0, map[string]bool{}
	for _, file := range found {
		cfg, err := read(file)
		if err != nil {
			return nil, err
		}
		id, _ := strconv.Atoi(cfg.Broker["node.id"])
		number, _ := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(file)), "node-"))
		x.present = append(x.present, filepath.Dir(file))
		if number = max(number, id); number > last {
			last, x.like = number, filepath.Dir(file)
			x.cluster = cluster{name: cfg.Broker["cluster.name"], seeds: cfg.Broker["cluster.seeds"], exists: true}
		}
		for _, l := range cfg.Listeners {
			used[strings.ToLower(l.Advertise)] = true
			if host, _, err := net.SplitHostPort(l.Advertise); err == nil {
				_, port, _ := net.SplitHostPort(cfg.AdminListen)
				used[strings.ToLower(net.JoinHostPort(host, port))] = true
			}
		}
	}
	if x.cluster.seeds == "" {
		return nil, fmt.Errorf("%s has no node-1 of a cluster, as `chronikd secure init --nodes` writes it; "+
			"copy the directory of one of its nodes there", dir)
	}
	x.nodes, err = planNodes(dir, nodes, last+1, used)
	return x, err
}

// Write makes the directories of the nodes. If the authority's certificate does not permit their
// names, it replaces it first, in dir and in the directories of the nodes that are there: with the
// same key and subject, and exactly these names more. After an error, it can be called again.
func (x *Addition) Write(now time.Time) error {
	old, err := authority(x.dir)
	if err != nil {
		return err
	}
	var names []string
	for i := range x.nodes {
		names = append(names, x.nodes[i].names()...)
	}
	ca, err := old.Widen(names, now)
	if err != nil {
		return err
	}
	shared := make(map[string][]byte)
	for _, name := range []string{"cluster.secret", "admin.token"} {
		text, _, err := files.ReadSecret(filepath.Join(x.like, name))
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(x.like, name), err)
		}
		shared[name] = text
	}
	made := make(map[string][]byte)
	for i := range x.nodes {
		p := &x.nodes[i]
		leaf, err := ca.Leaf(BrokerSubject, p.names(), now)
		if err != nil {
			return err
		}
		at := func(name string) string { return filepath.Join(p.dir, name) }
		for name, text := range shared {
			made[at(name)] = text
		}
		made[at("ca.pem")], made[at("server.pem")], made[at("server-key.pem")] = ca.CertificatePEM, leaf.Certificate, leaf.Key
		made[at("chronikd.yaml")] = []byte(p.configuration(x.cluster))
	}
	if x.Widened = ca != old; x.Widened {
		if err := x.replaceAuthority(ca.CertificatePEM); err != nil {
			return err
		}
	}
	return x.makeNodes(made)
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

// makeNodes writes files of new nodes. If it fails, it removes the directories that it has made, so
// that the next call gives the same numbers.
func (x *Addition) makeNodes(made map[string][]byte) (err error) {
	var own []string
	defer func() {
		for _, dir := range own {
			if err != nil {
				err = errors.Join(err, os.RemoveAll(dir))
			}
		}
	}()
	for i := range x.nodes {
		if err := os.Mkdir(x.nodes[i].dir, 0o700); err != nil {
			return err
		}
		own = append(own, x.nodes[i].dir)
	}
	for path, text := range made {
		if err := writeNew(path, text); err != nil {
			return err
		}
	}
	return nil
}

// Summary returns what was made and what to do next, in this order.
func (x *Addition) Summary() string {
	var b strings.Builder
	ca := filepath.Join(x.dir, "ca.pem")
	for i := range x.nodes {
		fmt.Fprintf(&b, "written: %s, broker %d of cluster %s\n", x.nodes[i].dir, x.nodes[i].id, x.cluster.name)
	}
	if x.Widened {
		fmt.Fprintf(&b, "\n%s is new: the same authority, which may now also sign the names of the new brokers. Who has the former one\n"+
			"refuses them, and who has the new one accepts all. So do this in this order:\n"+
			"1. copy it over the ca.pem of each broker that runs; within ten seconds each takes it, without a restart\n"+
			"2. copy it over the ca.pem of each client; one that reads it only when it starts must be restarted\n"+
			"3. copy each new directory to its machine under the same path, and start its broker\n\n", ca)
	} else {
		fmt.Fprintf(&b, "\n%s is unchanged: brokers and clients that have it accept the new brokers.\n"+
			"Copy each new directory to its machine under the same path, and start its broker.\n\n", ca)
	}
	for i := range x.nodes {
		fmt.Fprintf(&b, "start:         chronikd --config %s\n", filepath.Join(x.nodes[i].dir, "chronikd.yaml"))
	}
	fmt.Fprintf(&b, "cluster.seeds: %s, as in %s; if the brokers have another list, write it there\n", x.cluster.seeds,
		filepath.Join(x.like, "chronikd.yaml"))
	fmt.Fprintf(&b, "keep elsewhere: %s\n", filepath.Join(x.dir, "ca-key.pem"))
	return b.String()
}
