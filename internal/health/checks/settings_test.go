package checks

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/view"
)

func TestSettingsThatContradictEachOther(t *testing.T) {
	good := Settings{MinISR: 1, Replicas: 1, RetentionBytes: -1, SegmentBytes: 1 << 30, MaxMessage: 1 << 20, MaxRequest: 100 << 20}
	with := func(change func(*Settings)) Facts {
		s := good
		change(&s)
		return Facts{Settings: s}
	}
	serving := func(f Facts, c *view.Cluster) Facts {
		f.Cluster, f.Serving = c, true
		return f
	}
	examine(t, "settings", []patient{
		{"good", Facts{Settings: good}, nil},
		{
			"not read",
			with(func(s *Settings) { s.Warnings = []string{"CHRONIK_X is not read"} }),
			[]string{"note configuration: CHRONIK_X is not read"},
		},
		{
			"in sync",
			with(func(s *Settings) { s.MinISR = 2 }),
			[]string{"note configuration: min.insync.replicas is 2 and a new topic has 1 replicas"},
		},
		{
			"more replicas than brokers",
			serving(with(func(s *Settings) { s.Replicas = 3 }), &view.Cluster{Brokers: make([]view.Broker, 2)}),
			[]string{"note configuration: default.replication.factor is 3 and a partition can have 2 replicas: topics whose creation"},
		},
		{
			"more replicas than the only broker",
			serving(with(func(s *Settings) { s.Replicas = 3 }), nil),
			[]string{"note configuration: default.replication.factor is 3 and a partition can have 1 replica"},
		},
		{
			"a broker that only votes",
			serving(with(func(s *Settings) { s.Replicas = 3 }),
				&view.Cluster{Brokers: []view.Broker{{VotesOnly: true}, {}, {}}, Seeds: 3}),
			[]string{"note configuration: default.replication.factor is 3 and a partition can have 2 replicas"},
		},
		{"brokers that have not started yet", serving(with(func(s *Settings) { s.Replicas = 3 }),
			&view.Cluster{Brokers: make([]view.Broker, 1), Seeds: 3}), nil},
		{
			"retention",
			with(func(s *Settings) { s.RetentionBytes = 1 << 20 }),
			[]string{"warn configuration: log.retention.bytes is 1048576"},
		},
		{"a short retention", Facts{Short: []TopicFault{{"a", "retention.ms=7 is 7 milliseconds"}}},
			[]string{"note retention of topics: topic a: retention.ms=7 is 7 milliseconds"}},
		{"a missing profile", Facts{Invalid: []TopicFault{{"a", "unknown durability profile mine"}, {"b", ""}}},
			[]string{"bad configuration of topics: no records can be written, because the configuration is invalid: " +
				"topic a: unknown durability profile mine; likewise b"}},
		{"short retentions", Facts{Short: []TopicFault{{"a", "why"}, {"b", ""}, {"c", ""}}},
			[]string{"note retention of topics: topic a: why; likewise b, c"}},
		{"messages", with(func(s *Settings) { s.MaxMessage = 200 << 20 }), []string{"warn configuration: message.max.bytes is 209715200"}},
	})
	examine(t, "profile", []patient{
		{"synced", Facts{Settings: Settings{Profile: builtin("sync")}}, nil},
		{
			"written",
			Facts{Settings: Settings{Profile: builtin("os")}, Weaker: []string{"a"}},
			[]string{
				"note profile os: it is the default, and a power failure can lose records that it acknowledged: records in the page cache may be lost",
			},
		},
		{"some topics", Facts{Settings: Settings{Profile: builtin("sync")}, Weaker: []string{"a", "b", "c", "d", "e", "f", "g"}},
			[]string{
				"note topics: 7 acknowledge records that are not durable, although the default profile sync does not: a, b, c, d, e and 2 more",
			}},
	})
}

func TestListenersThatAreOpen(t *testing.T) {
	at := func(l Listener) Facts { return Facts{Settings: Settings{Listeners: []Listener{l}}} }
	in := Listener{Name: "in", Listen: "0.0.0.0:9092", Open: true}
	out := in
	out.Advertise, out.AdvertisesLoopback = "localhost:9092", true
	examine(t, "exposed", []patient{
		{"loopback", at(Listener{Name: "in", Listen: "127.0.0.1:9092"}), nil},
		{"open", at(in), []string{"note listener in on 0.0.0.0:9092: EVERY CLIENT THAT REACHES THIS ADDRESS"}},
		{
			"admin",
			Facts{Settings: Settings{Admin: Listener{Listen: ":9644", Open: true}}},
			[]string{"note admin port on :9644: the admin port is bound beyond loopback"},
		},
	})
	login, encrypted, acl := in, in, at(in)
	login.Login = true
	encrypted.Login, encrypted.TLS = true, true
	acl.Settings.ACL = true
	safe := at(encrypted)
	safe.Settings.ACL = true
	examine(t, "exposed", []patient{
		{"login", at(login), []string{"note listener in on 0.0.0.0:9092: every client that logs in can read, write and delete everything"}},
		{"rights in clear", acl, []string{"note listener in on 0.0.0.0:9092: the listener is bound beyond loopback and not encrypted"}},
		{"no rights", at(encrypted), []string{"note listener in on 0.0.0.0:9092: every client that logs in"}},
		{"safe", safe, nil},
		{"admin with token", Facts{Settings: Settings{Admin: Listener{Listen: ":9644", Open: true, Login: true}}},
			[]string{"note admin port on :9644: the admin port is bound beyond loopback and not encrypted"}},
		{"safe admin", Facts{Settings: Settings{Admin: Listener{Listen: ":9644", Open: true, Login: true, TLS: true}}}, nil},
	})
	examine(t, "advertise", []patient{
		{"as dialed", at(in), nil},
		{
			"loopback",
			at(out),
			[]string{"note listener in on 0.0.0.0:9092: the broker advertises localhost:9092 to clients, which works only on this machine"},
		},
		{"loopback for brokers", Facts{Settings: Settings{Listeners: []Listener{in, {Name: "peers", Listen: ":9095", Open: true,
			Advertise: "localhost:9095", AdvertisesLoopback: true, Brokers: true}}}},
			[]string{"note listener peers on :9095: the broker advertises localhost:9095 to the other brokers, which works only"}},
		{"loopback on loopback", at(Listener{Listen: "127.0.0.1:1", Advertise: "localhost:1", AdvertisesLoopback: true}), nil},
	})
}

func TestCertificates(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	left := func(d time.Duration) Facts {
		return Facts{Now: now, Certificates: []view.Certificate{{Listener: "in", Kind: "server", File: "s.pem", Expires: now.Add(d)}}}
	}
	day := 24 * time.Hour
	examine(t, "certificate", []patient{
		{"long", left(31 * day), nil},
		{"soon", left(30 * day), []string{"note certificate of in: the server certificate expires on 2026-12-22 12:00:00"}},
		{"now", left(7 * day), []string{"warn certificate of in: the server certificate expires on 2026-11-29 12:00:00"}},
		{"of two listeners", func() Facts {
			f := left(0)
			f.Certificates = append(f.Certificates, f.Certificates[0])
			f.Certificates[1].Listener = "brokers"
			f.Cluster = &view.Cluster{Brokers: []view.Broker{{ID: 1}, {ID: 2}}}
			f.Settings.Listeners = []Listener{{Name: "brokers", Brokers: true}}
			return f
		}(), []string{"bad certificate of brokers, in: the server certificate expired on 2026-11-22 12:00:00, so clients refuse it: s.pem; " +
			"other brokers refuse it, too"}},
		{"over", left(0), []string{"bad certificate of in: the server certificate expired on 2026-11-22 12:00:00, so clients refuse it: s.pem"}},
		{
			"too early",
			Facts{Now: now, Certificates: []view.Certificate{
				{Listener: "in", Kind: "server", Expires: now.Add(99 * day), Begins: now.Add(day)}}},
			[]string{"bad certificate of in: the server certificate is valid only from 2026-11-23 12:00:00, so clients refuse it"},
		},
		{"files", Facts{CertificateFiles: []CertificateFile{{Listener: "in", File: "s.pem", Problem: "k.pem: does not fit",
			Warnings: []string{"RSA"}}}},
			[]string{"warn certificate of in: its changed files are not used", "note certificate of in: s.pem: RSA"}},
		{"authority of clients only", Facts{Settings: Settings{Listeners: []Listener{{Name: "in"}, {Name: "peers", Brokers: true}}},
			CertificateFiles: []CertificateFile{{Listener: "in", File: "s.pem", Stranger: true}, {Listener: "peers", File: "p.pem"}}}, nil},
		{"authority of brokers", Facts{Settings: Settings{Listeners: []Listener{{Name: "peers", Brokers: true}}},
			CertificateFiles: []CertificateFile{{Listener: "peers", File: "p.pem", Stranger: true}}},
			[]string{"warn certificate of peers: p.pem: no authority in tls.client-ca accepts it"}},
	})
}

// What a broker cannot do because the others refuse its certificate follows from that: whether it
// starts or serves, its report has one finding, which names the file and how to replace it.
func TestWhatFollowsFromAnExpiredCertificate(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	facts := Facts{Now: now, Certificates: []view.Certificate{{Listener: "peers", Kind: "server", File: "/c/s.pem", Expires: now}},
		Settings: Settings{Listeners: []Listener{{Name: "peers", Brokers: true}}}}
	serving := member(func(c *view.Cluster) { c.Self, c.Quorum.NoLeader, c.NoLease = 1, time.Minute, time.Minute })
	serving.Now, serving.Certificates, serving.Settings = now, facts.Certificates, facts.Settings
	for name, x := range map[string]struct {
		facts Facts
		phase string
		waits Awaited
		want  []string // checks with a finding
	}{
		"starts":             {facts, "waiting for the registration of broker 1", OtherBrokers, []string{health.CheckCertificate}},
		"waits for its disk": {facts, "waiting for the disk of /d", ItsDisk, []string{health.CheckServing, health.CheckCertificate}},
		"recovers":           {facts, "recovering logs", nothing, []string{health.CheckServing, health.CheckCertificate}},
		"serves":             {serving, "", nothing, []string{health.CheckCertificate}},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := Start(Options{Broker: 1, Member: true, Checks: Checks(), Log: zap.NewNop()})
			defer m.Stop(t.Context())
			m.Add(func(f *Facts) {
				f.Certificates, f.Settings, f.Cluster, f.Now = x.facts.Certificates, x.facts.Settings, x.facts.Cluster, now
			})
			m.Await(x.phase, x.waits)
			var got []string
			r := m.Report(t.Context())
			for _, f := range r.Findings {
				if f.Severity == health.Bad {
					got = append(got, f.Check)
				}
				if f.Check == health.CheckCertificate && (!strings.Contains(f.Problem, "/c/s.pem") ||
					!strings.Contains(f.Remedy, "`chronikd secure init /c --renew`")) {
					t.Errorf("%s: %s > %s", name, f.Problem, f.Remedy)
				}
			}
			if !slices.Equal(got, x.want) || r.Ready {
				t.Errorf("%s: %v, want %v; ready %v", name, got, x.want, r.Ready)
			}
		})
	}
}

func TestTokenKeys(t *testing.T) {
	read := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	examine(t, "tokens", []patient{
		{"read", Facts{TokenKeys: TokenKeys{Source: "/k", Keys: 2, Read: read}}, nil},
		{"not again", Facts{TokenKeys: TokenKeys{Source: "/k", Keys: 2, Read: read, Error: "refused"}},
			[]string{"warn token keys: /k cannot be read (refused): the 2 keys of 2026-11-22 12:00:00 stay in use"}},
		{"never", Facts{TokenKeys: TokenKeys{Source: "/k", Error: "refused"}},
			[]string{"bad token keys: /k cannot be read (refused): there are none, so no client can log in with a token"}},
	})
}

func TestAccess(t *testing.T) {
	examine(t, "access", []patient{
		{"odd", Facts{Slow: Slow{Access: Access{WithoutRights: []string{"User:a"}, WithoutUser: []string{"User:b"},
			SuperWithoutUser: []string{"User:c"}, Shadowed: []string{"1", "2", "3", "4", "5", "6"},
			Bootstrap: "/u", NotAdded: []string{"User:d for SCRAM-SHA-256"}}}},
			[]string{"note access: users that log in and have no right: User:a",
				"note access: principals that have rights and no password: User:b",
				"note access: super users without a password: who adds such a user has all rights: User:c",
				"note access: rules without effect, because another denies the same: 1, 2, 3, 4, 5 and 1 more",
				"note access: lines of /u for which there is no user with that mechanism; the file is read only for the first start, " +
					"and passwords in it are not compared: User:d for SCRAM-SHA-256"}},
	})
}

func TestAudit(t *testing.T) {
	examine(t, "audit", []patient{
		{"written", Facts{Audit: view.Audit{Sink: "/a", Dropped: 3}}, nil},
		{"failed", Facts{Audit: view.Audit{Sink: "/a", Failed: "no space left on device", Dropped: 3}},
			[]string{"bad audit log /a: it cannot be written, and 3 lines are lost: no space left on device"}},
	})
}
