package checks

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/view"
)

func configChecks() []Check {
	return []Check{
		{Name: "exposed", Loud: true, run: checkExposed,
			Doc: "Listeners and the admin port that other machines reach and whose clients do not log in, have all rights, or are not encrypted."},
		{Name: health.CheckCertificate, Loud: true, run: checkCertificates,
			Doc: "Certificates that expire, do not cover the advertised name, cannot be used after a change, or that other brokers refuse."},
		{Name: "access", run: checkAccess,
			Doc: "Users without rights, rights and super users without a user, rules that have no effect, first users that were not added."},
		{Name: "tokens", Loud: true, run: checkTokenKeys,
			Doc: "Keys of the token issuer (oauth.jwks) that cannot be read."},
		{Name: "audit", Loud: true, run: checkAudit,
			Doc: "An audit log that cannot be written."},
		{Name: "advertise", run: checkAdvertise,
			Doc: "Listeners that other machines reach and that advertise a loopback address."},
		{Name: "settings", Loud: true, run: checkSettings,
			Doc: "Settings that are not read, those that contradict each other, topics whose configuration is invalid, and retentions that are probably too short by mistake."},
		{Name: "profile", run: checkProfiles,
			Doc: "A default profile, or topics, that acknowledge records that a power failure can lose."},
	}
}

func checkExposed(f *Facts, n *notes) {
	for _, l := range f.Settings.Listeners {
		n.see(fmt.Sprintf("listener %s is bound to %s", l.Name, l.Listen))
		if l.Open {
			exposed(&l, f.Settings.ACL, n)
		}
	}
	checkBrokerListener(f, n)
	if a := f.Settings.Admin; a.Open && a.Login && !a.TLS {
		n.add(health.Note, "admin port on "+a.Listen, "the admin port is bound beyond loopback and not encrypted: who can read the network reads the metrics",
			"set admin.security to tls")
	} else if a.Open && !a.Login {
		n.add(health.Note, "admin port on "+a.Listen,
			"the admin port is bound beyond loopback and has no authentication: every client that reaches it can read "+
				"metrics, topics, clients and rights, and with admin.remote also records and the log, and change the log level",
			"bind it to 127.0.0.1 (admin.listen), set admin.token-file and admin.security, or keep the network around it private")
	}
}

// exposed reports the missing protection of a listener that other machines reach: logins, rights,
// encryption.
func exposed(l *Listener, acl bool, n *notes) {
	subject := "listener " + l.Name + " on " + l.Listen
	switch {
	case !l.Login && !acl:
		n.add(health.Note, subject,
			"EVERY CLIENT THAT REACHES THIS ADDRESS CAN READ, WRITE AND DELETE EVERYTHING: the listener is bound beyond loopback and there is no authentication",
			"let `chronikd secure init DIR` write a configuration with logins, keep the network around it private, or bind it to 127.0.0.1")
	case !acl && !l.Brokers:
		n.add(health.Note, subject, "every client that logs in can read, write and delete everything: no rights are asked",
			"set authorization to acl and super-users to the users that may do everything")
	case !l.TLS && !l.Brokers:
		n.add(health.Note, subject, "the listener is bound beyond loopback and not encrypted: who can read the network reads the records",
			"set security of the listener to tls")
	}
}

// Times before the expiry of a certificate at which a finding appears, and becomes urgent.
const (
	expiresSoon = 30 * 24 * time.Hour
	expiresNow  = 7 * 24 * time.Hour
)

func checkCertificates(f *Facts, n *notes) {
	listeners := map[health.Finding][]string{} // by a finding without its subject: several may have the same certificate
	var all []health.Finding
	add := func(listener string, x health.Finding) {
		if listeners[x] == nil {
			all = append(all, x)
		}
		listeners[x] = append(listeners[x], listener)
	}
	for _, c := range f.CertificateFiles {
		if c.Problem != "" {
			add(c.Listener, health.Finding{Severity: health.Warn,
				Problem: "its changed files are not used, and the former ones stay in use: " + c.Problem,
				Remedy:  "correct the files; the broker checks them every 10 seconds, and at once on SIGHUP"})
		}
		if c.Stranger && slices.ContainsFunc(f.Settings.Listeners, func(l Listener) bool { return l.Brokers && l.Name == c.Listener }) {
			add(c.Listener, health.Finding{Severity: health.Warn, Problem: c.File + ": no authority in tls.client-ca accepts it, so " +
				"brokers with the same authorities make no connections with this one",
				Remedy: "add its authority to tls.client-ca, or replace it (docs/security.md, Revoke and rotate)"})
		}
		for _, w := range c.Warnings {
			add(c.Listener, health.Finding{Severity: health.Note, Problem: c.File + ": " + w,
				Remedy: "make another certificate, for example with `chronikd secure init --renew`"})
		}
	}
	for _, c := range f.Certificates {
		left := c.Expires.Sub(f.Now)
		n.see(fmt.Sprintf("%s certificate of %s expires in %.0f days", c.Kind, c.Listener, left.Hours()/24))
		x := health.Finding{Severity: health.Note,
			Problem: fmt.Sprintf("the %s certificate expires on %s: %s", c.Kind, c.Expires.UTC().Format(time.DateTime), c.File),
			Remedy:  f.renew(&c)}
		works := "open connections of clients stay, and the other listeners serve"
		if !f.Serving {
			works = ""
		}
		switch {
		case f.Now.Before(c.Begins):
			x.Severity, x.Works = health.Bad, works
			x.Problem = fmt.Sprintf("the %s certificate is valid only from %s, so clients refuse it: %s", c.Kind,
				c.Begins.UTC().Format(time.DateTime), c.File)
			x.Remedy = "set the clock of this machine, or " + x.Remedy
		case left <= 0:
			x.Severity, x.Works = health.Bad, works
			x.Problem = fmt.Sprintf("the %s certificate expired on %s, so clients refuse it: %s", c.Kind,
				c.Expires.UTC().Format(time.DateTime), c.File)
			x.Remedy += "; if that date is still to come, set the clock of this machine"
		case left <= expiresNow:
			x.Severity = health.Warn
		case left > expiresSoon:
			continue
		}
		add(c.Listener, x)
	}
	for _, x := range all {
		of := slices.Compact(slices.Sorted(slices.Values(listeners[x])))
		x.Subject = "certificate of " + strings.Join(of, ", ")
		if x.Severity == health.Bad && slices.ContainsFunc(of, f.forBrokers) {
			x.Problem += "; other brokers refuse it, too, and make no connection with this one"
		}
		n.addFinding(x)
	}
}

// renewed is what a broker does with new certificates.
const renewed = "the broker takes it without a restart, and connections stay"

// renew returns how a certificate is replaced. Renewing keeps an authority.
func (f *Facts) renew(c *view.Certificate) string {
	if c.Kind != "server" {
		return "add a new authority to the file before that one expires (docs/security.md, Revoke and rotate); " + renewed
	}
	dir := path.Dir(f.absolute(c.File))
	return "replace the file and its key; if `chronikd secure init` made them, copy its ca-key.pem to " + dir + ", and run " +
		health.Command("chronikd", "secure", "init", dir, "--renew") + "; " + renewed
}

// forBrokers reports whether other brokers connect to a listener. Before this broker serves, it may
// not know them.
func (f *Facts) forBrokers(listener string) bool {
	return (f.several() || !f.Serving) && slices.ContainsFunc(f.Settings.Listeners, func(l Listener) bool {
		return l.Brokers && l.Name == listener
	})
}

// apart returns the cause of all that follows from having no connection with another broker, if
// there are two processes of this one, or they refuse its certificate because of its dates;
// otherwise it returns an empty string.
func (f *Facts) apart(broker int32) string {
	if cause := f.twins(broker); cause != "" {
		return cause
	}
	refused := func(c view.Certificate) bool {
		return c.Kind == "server" && (f.Now.Before(c.Begins) || !f.Now.Before(c.Expires)) && f.forBrokers(c.Listener)
	}
	if !slices.ContainsFunc(f.Certificates, refused) {
		return ""
	}
	return health.Cause(health.CheckCertificate, broker)
}

func checkAccess(f *Facts, n *notes) {
	a := &f.Access
	for _, x := range []struct {
		all          []string
		text, remedy string
	}{
		{a.WithoutRights, "users that log in and have no right",
			"give them rights with `chronikctl acl add`, or remove them with `chronikctl user remove`"},
		{a.WithoutUser, "principals that have rights and no password",
			"add them with `chronikctl user add`, or remove their rights with `chronikctl acl remove`"},
		{a.SuperWithoutUser, "super users without a password: who adds such a user has all rights",
			"add them with `chronikctl user add`, or remove them from super-users"},
		{a.Shadowed, "rules without effect, because another denies the same", "remove one of the two with `chronikctl acl remove`"},
		{a.NotAdded, "lines of " + a.Bootstrap + " for which there is no user with that mechanism; the file is read only for the first " +
			"start, and passwords in it are not compared",
			"add them with `chronikctl user add` or `chronikctl user set-password`, and delete the file"},
	} {
		if len(x.all) > 0 {
			n.add(health.Note, "access", x.text+": "+listed(x.all, len(x.all)), x.remedy)
		}
	}
}

// checkTokenKeys reports keys that could not be read when that was tried last. The former ones stay
// in use, so that tokens are refused only if the issuer has changed its keys since.
func checkTokenKeys(f *Facts, n *notes) {
	k := &f.TokenKeys
	if k.Error == "" {
		return
	}
	severity, text := health.Warn, fmt.Sprintf("the %d keys of %s stay in use", k.Keys, k.Read.UTC().Format(time.DateTime))
	if k.Keys == 0 {
		severity, text = health.Bad, "there are none, so no client can log in with a token"
	}
	n.add(severity, "token keys", fmt.Sprintf("%s cannot be read (%s): %s", k.Source, k.Error, text),
		"correct oauth.jwks, or what answers there; the broker tries again every 10 seconds")
}

func checkAudit(f *Facts, n *notes) {
	if f.Audit.Failed != "" {
		n.add(health.Bad, "audit log "+f.Audit.Sink,
			fmt.Sprintf("it cannot be written, and %d lines are lost: %s", f.Audit.Dropped, f.Audit.Failed),
			"make space, or correct audit.file; the log then says how many lines it lacks")
	}
}

// checkBrokerListener reports connections of brokers that others can join or read.
func checkBrokerListener(f *Facts, n *notes) {
	for _, l := range f.Settings.Listeners {
		if !l.Open || !l.Brokers || l.TLS && f.Settings.Secret {
			continue
		}
		problem := "the brokers of the cluster connect through it without encryption: who can read the network reads the records"
		remedy := "keep the network between the brokers private"
		if !f.Settings.Secret {
			problem = "the brokers of the cluster connect through it without a secret and without encryption: every program that reaches " +
				"it can claim to be a broker, and read, write and delete everything"
			remedy = "set cluster.secret.file to a file with the same secret on every broker, and " + remedy
		}
		n.add(health.Note, "connections of brokers on "+l.Listen, problem, remedy)
	}
}

func checkAdvertise(f *Facts, n *notes) {
	for _, l := range f.Settings.Listeners {
		if l.Open && l.AdvertisesLoopback {
			problem := " to clients, which works only on this machine and through a port published on it"
			remedy := "for clients on other machines set advertise (CHRONIK_ADVERTISE) to a HOST:PORT under which they reach this broker"
			if l.Brokers && len(f.Settings.Listeners) > 1 { // it has the listener for itself
				problem = " to the other brokers, which works only for brokers on this machine"
				remedy = "for brokers on other machines set its advertise to a HOST:PORT under which they reach this broker"
			}
			n.add(health.Note, "listener "+l.Name+" on "+l.Listen, "the broker advertises "+l.Advertise+problem, remedy)
		}
	}
}

func checkSettings(f *Facts, n *notes) {
	s := f.Settings
	for _, w := range s.Warnings {
		n.add(health.Note, "configuration", w, "run chronikd config check, which shows each setting and its source")
	}
	if len(f.Invalid) > 0 {
		n.addFinding(health.Finding{Severity: health.Bad, Subject: "configuration of topics",
			Problem: "no records can be written, because the configuration is invalid: " + listedFaults(f.Invalid),
			Works:   "the records can be read",
			Remedy: "correct it with " + health.Command("chronikctl", "config", "set", "topic", f.Invalid[0].Topic, "NAME=VALUE") +
				", or define the missing profile again (docs/durability.md)"})
	}
	if len(f.Short) > 0 {
		n.addShared(health.Finding{Severity: health.Note, Subject: "retention of topics", Problem: listedFaults(f.Short),
			Remedy: "set it again with its unit: " +
				health.Command("chronikctl", "config", "set", "topic", f.Short[0].Topic, "retention.ms=7d") +
				"; with ms the time is meant, and the note ends (docs/configuration.md)"})
	}
	if s.MinISR > s.Replicas && s.Replicas > 0 {
		n.add(health.Note, "configuration",
			fmt.Sprintf("min.insync.replicas is %d and a new topic has %d replicas: Kafka would reject acks=all, chronik uses %d",
				s.MinISR, s.Replicas, s.Replicas),
			fmt.Sprintf("set min.insync.replicas to %d", max(1, s.Replicas-1)))
	}
	if most := f.mostReplicas(); most > 0 && s.Replicas > most {
		remedy := fmt.Sprintf("set default.replication.factor to %d", most)
		if f.several() {
			remedy += ", or start the other brokers"
		}
		n.add(health.Note, "configuration",
			fmt.Sprintf("default.replication.factor is %d and a partition can have %s: topics whose creation does not say how many "+
				"it gets are refused", s.Replicas, text.Count(int(most), "replica")), remedy)
	}
	if s.RetentionBytes >= 0 && s.RetentionBytes < s.SegmentBytes {
		n.add(health.Warn, "configuration",
			fmt.Sprintf(
				"log.retention.bytes is %d and a segment has up to %d bytes, which are deleted together: a partition keeps more than log.retention.bytes",
				s.RetentionBytes,
				s.SegmentBytes,
			),
			"set log.segment.bytes to a quarter of it or less")
	}
	if s.MaxRequest > 0 && s.MaxMessage > s.MaxRequest {
		n.add(health.Warn, "configuration",
			fmt.Sprintf("message.max.bytes is %d and a request has at most %d bytes: a larger batch closes the connection",
				s.MaxMessage, s.MaxRequest),
			"lower message.max.bytes or raise socket.request.max.bytes")
	}
}

// mostReplicas returns how many replicas a partition can have; 0 before the broker serves. Brokers
// of cluster.seeds that have never started count, since their cluster is new; those that only vote
// do not.
func (f *Facts) mostReplicas() int64 {
	c := f.Cluster
	switch {
	case !f.Serving:
		return 0
	case c == nil:
		return 1
	}
	most := max(len(c.Brokers), c.Seeds)
	for i := range c.Brokers {
		if c.Brokers[i].VotesOnly {
			most--
		}
	}
	return int64(most)
}

func checkProfiles(f *Facts, n *notes) {
	p := f.Settings.Profile
	if p.Name == "" {
		return
	}
	n.see("the default profile is " + p.Name)
	if p.Weak() {
		n.add(health.Note, "profile "+p.Name, "it is the default, and a power failure can lose records that it acknowledged: "+p.Promise(),
			"wal.profile=sync acknowledges only durable records; chronikctl profile explain TOPIC shows the guarantee of a topic")
		return
	}
	if count := len(f.Weaker); count > 0 {
		n.add(health.Note, "topics",
			fmt.Sprintf("%s records that are not durable, although the default profile %s does not: %s",
				text.Plural(count, "acknowledges", "acknowledge"), p.Name, listed(f.Weaker, count)),
			"chronikctl profile explain TOPIC shows what can be lost; chronikctl config unset topic TOPIC chronik.durability.profile restores the default")
	}
}
