package secureinit

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/chronik-io/chronik/internal/cli/contexts"
	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/login"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/certs"
	"github.com/chronik-io/chronik/internal/security/files"
	secretvalue "github.com/chronik-io/chronik/internal/security/secret"
)

// Names and defaults of what secure init writes.
const (
	adminUser     = "admin"
	secretBytes   = 24 // of passwords and of the cluster's secret, random
	securedPort   = "9093"
	peersPort     = "9095"
	BrokerSubject = "chronik-broker" // of all brokers: their own subject is whom they accept as another broker
)

// nodePlan is one broker of a secured installation.
type nodePlan struct {
	dir       string
	id        int
	advertise []string // HOST:PORT, one for each listener; empty: only this machine
	peer      string   // HOST:PORT for the other brokers; empty without a cluster
	admin     string   // HOST:PORT of the admin port; empty: the default
}

// plan returns the brokers of an installation.
func plan(dir string, advertise, nodes []string) ([]nodePlan, error) {
	ports := make(map[string]string)
	for _, at := range advertise {
		host, port, err := net.SplitHostPort(at)
		n, bad := strconv.Atoi(port)
		if err != nil || bad != nil || n < 1 || n > 65535 || !certifiable(host) {
			return nil, fmt.Errorf("--advertise %q is not HOST:PORT with a name of letters, digits, '-' and '.', or an address; "+
				"write for example broker.example.com:9093", at)
		}
		if ports[port] != "" {
			return nil, fmt.Errorf("--advertise %s and %s have the same port; each is a listener of its own and needs its own port", ports[port], at)
		}
		ports[port] = at
	}
	if len(nodes) == 0 {
		return []nodePlan{{dir: dir, id: 1, advertise: advertise}}, nil
	}
	if n := len(nodes); n != 1 && n != 3 && n != 5 {
		return nil, fmt.Errorf("--nodes has %d names; write 1, 3 or 5: an even number tolerates no more failures than one less", n)
	}
	if len(advertise) > 0 {
		return nil, errors.New("--nodes and --advertise exclude each other: each node is advertised under its own name")
	}
	return planNodes(dir, nodes, 1, make(map[string]bool))
}

// planNodes returns brokers of a cluster, numbered from first on. used has the addresses of other
// brokers, in lower case.
func planNodes(dir string, nodes []string, first int, used map[string]bool) ([]nodePlan, error) {
	plans := make([]nodePlan, 0, len(nodes))
	for i, node := range nodes {
		p, ok := planNode(strings.TrimSpace(node))
		for _, at := range p.addresses() {
			at = strings.ToLower(at)
			ok = ok && !used[at]
			used[at] = true
		}
		if !ok {
			return nil, fmt.Errorf("--nodes: %q is not a host name, or another node has its ports; "+
				"write for example a.example.com,b.example.com,c.example.com", node)
		}
		p.dir, p.id = filepath.Join(dir, fmt.Sprintf("node-%d", first+i)), first+i
		plans = append(plans, p)
	}
	return plans, nil
}

// addresses returns what no other node may have. The admin port is one of the node's own machine,
// which the address of its clients stands for.
func (p *nodePlan) addresses() []string {
	all := append(slices.Clone(p.advertise), p.peer)
	if host, _, err := net.SplitHostPort(p.peer); err == nil && p.admin != "" {
		_, port, _ := net.SplitHostPort(p.admin)
		all = append(all, net.JoinHostPort(host, port))
	}
	return all
}

// planNode returns the addresses of a node that is given as HOST or HOST:PORT. With a port, several
// nodes fit on one machine: the next port is that of administration, and the one after it that of
// the other brokers.
func planNode(node string) (p nodePlan, ok bool) {
	host, port, err := net.SplitHostPort(node)
	if err != nil {
		host, port = strings.Trim(node, "[]"), ""
	}
	ok = certifiable(host)
	p.advertise, p.peer = []string{net.JoinHostPort(host, securedPort)}, net.JoinHostPort(host, peersPort)
	if port != "" {
		n, err := strconv.Atoi(port)
		ok = ok && err == nil && n >= 1 && n+2 <= 65535
		p.advertise[0], p.peer = net.JoinHostPort(host, port), net.JoinHostPort(host, strconv.Itoa(n+2))
		own := config.Localhost
		if config.Loopback(p.peer) {
			own = host // several nodes of one machine may have the same port on addresses of their own
		}
		p.admin = net.JoinHostPort(own, strconv.Itoa(n+1))
	}
	return p, ok
}

// certifiable reports whether clients can dial a host that a certificate can name: an address of
// one machine, or a host name.
func certifiable(host string) bool {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Zone() == "" && !a.IsUnspecified()
	}
	return hostName(host)
}

// hostName reports whether a text can be a name in a certificate (RFC 1123), without wildcards. Its
// last label is no number: clients take such a name for an address.
func hostName(s string) bool {
	labels := strings.Split(s, ".")
	bad := func(label string) bool {
		return label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' || strings.ContainsFunc(label,
			func(r rune) bool {
				return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
			})
	}
	return len(s) <= 253 && !slices.ContainsFunc(labels, bad) && strings.Trim(labels[len(labels)-1], "0123456789") != ""
}

// names returns the names of a broker's certificate.
func (p *nodePlan) names() []string {
	var hosts []string
	for _, at := range append(slices.Clone(p.advertise), p.peer) {
		if host, _, err := net.SplitHostPort(at); err == nil {
			hosts = append(hosts, host)
		}
	}
	return withLocal(hosts)
}

// listen returns the address on which a broker listens for one that it advertises. If only this
// machine reaches all that it advertises, the broker listens there only. Otherwise a loopback
// address is that of a published port of a container, which needs all interfaces.
func (p *nodePlan) listen(advertised string) string {
	_, port, _ := net.SplitHostPort(advertised) // plan has checked it
	for _, at := range append(slices.Clone(p.advertise), p.peer) {
		if at != "" && !config.Loopback(strings.ToLower(at)) {
			return ":" + port
		}
	}
	return strings.ToLower(advertised)
}

// withLocal returns hosts after the names of this machine, each once.
func withLocal(hosts []string) []string {
	all := []string{"localhost", "127.0.0.1", "::1"}
	for _, host := range hosts {
		if !slices.Contains(all, host) {
			all = append(all, host)
		}
	}
	return all
}

// bootstrap returns the addresses that clients connect to first.
func bootstrap(plans []nodePlan) string {
	var all []string
	for _, p := range plans {
		if len(p.advertise) > 0 {
			all = append(all, p.advertise[0])
		}
	}
	if len(all) == 0 {
		return net.JoinHostPort(config.Localhost, securedPort)
	}
	return strings.Join(all, ",")
}

// adminOf returns the admin ports in the context, those of all brokers, so that chronikctl finds
// one while another broker is down, and the file with their token. Admin ports listen on loopback:
// there is none here for brokers that are on several machines.
func adminOf(plans []nodePlan) (at, tokenFile string) {
	if len(plans) > 1 && slices.ContainsFunc(plans, func(p nodePlan) bool { return !config.Loopback(strings.ToLower(p.peer)) }) {
		return contexts.Off, ""
	}
	var all []string
	for i := range plans {
		all = append(all, "https://"+cmp.Or(plans[i].admin, config.DefaultAdminListen))
	}
	return strings.Join(all, ","), filepath.Join(plans[0].dir, "admin.token")
}

// makeSecured returns the files of an installation by path. None of them has the password.
func makeSecured(dir string, plans []nodePlan, password secretvalue.Secret, now time.Time) (map[string][]byte, error) {
	var names []string
	for i := range plans {
		names = append(names, plans[i].names()...)
	}
	slices.Sort(names)
	ca, err := certs.NewAuthority("chronik private CA", slices.Compact(names), now)
	if err != nil {
		return nil, err
	}
	secret, token := random(), random()
	stored, err := login.NewCredential(metadata.ScramSHA512, password, login.DefaultIterations)
	if err != nil {
		return nil, err
	}
	made := map[string][]byte{
		filepath.Join(dir, "ca.pem"): ca.CertificatePEM, filepath.Join(dir, "ca-key.pem"): ca.KeyPEM,
	}
	if plans[0].peer != "" {
		made[rosterPath(dir)] = rosterOf(plans).text()
	}
	c := clusterOf(plans)
	for i := range plans {
		p := &plans[i]
		leaf, err := ca.Leaf(BrokerSubject, p.names(), now)
		if err != nil {
			return nil, err
		}
		at := func(name string) string { return filepath.Join(p.dir, name) }
		made[at("ca.pem")], made[at("server.pem")], made[at("server-key.pem")] = ca.CertificatePEM, leaf.Certificate, leaf.Key
		made[at("users")] = []byte(adminUser + ":SCRAM-SHA-512:" + login.Stored(stored) + "\n")
		made[at("cluster.secret")] = []byte(secret + "\n")
		made[at("admin.token")] = []byte(token + "\n")
		made[at("chronikd.yaml")] = []byte(p.configuration(c))
	}
	return made, nil
}

// random returns a secret of secretBytes bytes as text without characters that need escapes.
func random() string {
	b := make([]byte, secretBytes)
	_, _ = rand.Read(b) // it never fails: crypto/rand
	return base64.RawURLEncoding.EncodeToString(b)
}

// clientProperties returns a file for the clients and tools of Kafka.
func clientProperties(dir string, plans []nodePlan, password string) string {
	return "# For Kafka's clients and tools: --command-config, --consumer.config, --producer.config.\n" +
		"bootstrap.servers=" + bootstrap(plans) + "\n" +
		"security.protocol=SASL_SSL\n" +
		"sasl.mechanism=SCRAM-SHA-512\n" +
		"sasl.jaas.config=" + escapeProperty("org.apache.kafka.common.security.scram.ScramLoginModule required username=\""+adminUser+
		"\" password=\""+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(password)+"\";") + "\n" +
		"ssl.truststore.type=PEM\n" +
		"ssl.truststore.location=" + escapeProperty(filepath.Join(dir, "ca.pem")) + "\n"
}

// escapeProperty escapes a value for java.util.Properties, which reads a byte as a character of
// Latin-1.
func escapeProperty(v string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(v)) {
		switch {
		case unit == '\\':
			b.WriteString(`\\`)
		case unit < ' ' || unit > '~':
			fmt.Fprintf(&b, `\u%04x`, unit)
		default:
			b.WriteByte(byte(unit))
		}
	}
	return b.String()
}

// cluster is what the configurations of a cluster's brokers have in common.
type cluster struct {
	name, seeds string
	exists      bool // it has users: another broker needs no file with the first ones
}

// clusterOf returns the cluster of brokers all of which are new.
func clusterOf(plans []nodePlan) cluster {
	var seeds []string
	for i := range plans {
		seeds = append(seeds, plans[i].peer)
	}
	return cluster{name: "chronik", seeds: strings.Join(seeds, ",")}
}

// configuration returns a broker's chronikd.yaml.
func (p *nodePlan) configuration(c cluster) string {
	at := func(name string) string { return strconv.Quote(filepath.Join(p.dir, name)) }
	var b strings.Builder
	b.WriteString("# Made by `chronikd secure init`. Every setting: `chronikd config print-defaults`.\n" +
		"data.dir: " + at("data") + "\n\nlisteners:\n")
	listener := func(name, listen, advertise, rest string) {
		fmt.Fprintf(&b, "  - {name: %s, listen: %q", name, listen)
		if advertise != "" {
			fmt.Fprintf(&b, ", advertise: %q", advertise)
		}
		b.WriteString(", security: tls, " + rest + "}\n")
	}
	const login = "sasl: [SCRAM-SHA-512, SCRAM-SHA-256]"
	if len(p.advertise) == 0 {
		listener("clients", net.JoinHostPort(config.Localhost, securedPort), "", login)
	}
	for i, address := range p.advertise {
		name := "clients"
		if i > 0 {
			name = fmt.Sprintf("clients-%d", i+1)
		}
		listener(name, p.listen(address), address, login)
	}
	if p.peer != "" {
		listener("peers", p.listen(p.peer), p.peer, "client-certificates: require")
	}
	if p.admin != "" {
		b.WriteString("admin.listen: " + strconv.Quote(p.admin) + "\n")
	}
	b.WriteString("\ntls: {certificate: " + at("server.pem") + ", key: " + at("server-key.pem") + ", client-ca: " + at("ca.pem") + "}\n" +
		"authorization: acl\n" +
		"super-users: [\"User:" + adminUser + "\"]\n")
	if !c.exists {
		b.WriteString("bootstrap.users: " + at("users") + "\n")
	}
	b.WriteString("connections.max.reauth.ms: 1h\n" +
		"audit.log: refusals\n" +
		"admin.security: tls\n" +
		"admin.token-file: " + at("admin.token") + "\n" +
		"cluster.secret.file: " + at("cluster.secret") + "\n")
	if p.peer != "" {
		var seeds []string
		for seed := range strings.SplitSeq(c.seeds, ",") {
			seeds = append(seeds, strconv.Quote(strings.TrimSpace(seed)))
		}
		b.WriteString("\nnode.id: " + strconv.Itoa(p.id) + "\ncluster.name: " + c.name + "\n" +
			"cluster.seeds: [" + strings.Join(seeds, ", ") + "]\n" +
			"inter.broker.listener.name: peers\n")
	}
	return b.String()
}

// Renew replaces the server certificates below dir and their keys, and returns the paths of the
// certificates. If it fails, it replaces none (files.Replace). Owners and modes stay, and so do the
// names of a certificate; those of one that cannot be read are the hosts that advertised returns
// for its configuration file.
func Renew(dir string, advertised func(file string) (hosts []string, err error), now time.Time) ([]string, error) {
	ca, err := authority(dir)
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(dir, "node-*", "server.pem"))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "server.pem")); err == nil {
		paths = append(paths, filepath.Join(dir, "server.pem"))
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("there is no server.pem to renew; if it was removed, run `touch %s` and try again",
			filepath.Join(dir, "server.pem"))
	}
	var all []files.Replacement
	for _, path := range paths {
		made, err := renewed(ca, path, advertised, now)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		// The broker takes the pair when both are there: until then the key does not fit.
		all = append(all, files.Replacement{Path: filepath.Join(filepath.Dir(path), "server-key.pem"), Text: made.Key},
			files.Replacement{Path: path, Text: made.Certificate})
	}
	return paths, files.Replace(all)
}

// authority reads the authority of a directory. Only the owner of its key may be able to read the
// key.
func authority(dir string) (*certs.Authority, error) {
	certificate, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "ca-key.pem")
	key, _, err := files.ReadSecret(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w; put the authority's key back for as long as the command runs", path, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	ca, err := certs.LoadAuthority(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("ca.pem and ca-key.pem: %w", err)
	}
	return ca, nil
}

// renewed makes a certificate for the broker of a file with one.
func renewed(ca *certs.Authority, path string, advertised func(file string) ([]string, error), now time.Time) (certs.Pair, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return certs.Pair{}, err
	}
	old, err := certs.Parse(text)
	if err != nil { // emptied, or damaged
		file := filepath.Join(filepath.Dir(path), "chronikd.yaml")
		hosts, err2 := advertised(file)
		if err2 != nil {
			return certs.Pair{}, fmt.Errorf("%w; %s has the names for another one, and cannot be read, either: %w; put one of the two back",
				err, file, err2)
		}
		return ca.Leaf(BrokerSubject, withLocal(hosts), now)
	}
	if !ca.Signed(old[0]) {
		return certs.Pair{}, errors.New("it is not signed by the authority in ca.pem, so that its clients may trust another one; " +
			"renew it where it comes from")
	}
	names := slices.Clone(old[0].DNSNames)
	for _, ip := range old[0].IPAddresses {
		names = append(names, ip.String())
	}
	return ca.Leaf(old[0].Subject.CommonName, names, now)
}
