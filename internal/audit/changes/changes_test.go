package changes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/chronik-io/chronik/internal/audit"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/security/quota"
	"github.com/chronik-io/chronik/internal/security/secret"
)

// memory is a store of one node, without history, that can fail.
type memory struct {
	metadata.Store
	kvs map[string]metadata.KV
	err error
}

func (m *memory) Get(_ context.Context, key string) (metadata.KV, int64, error) {
	return m.kvs[key], 1, nil
}

func (m *memory) Txn(_ context.Context, t metadata.Txn) (int64, error) {
	if m.err != nil {
		return 0, m.err
	}
	for _, kv := range t.Put {
		kv.ModRevision = 1
		m.kvs[kv.Key] = kv
	}
	for _, key := range t.Delete {
		delete(m.kvs, key)
	}
	return 1, nil
}

type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) Write(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, string(line))
	return nil
}
func (*lines) Flush() error { return nil }
func (*lines) Close() error { return nil }

// Every kind of change has a line with what it changes, and the values before and after it; none
// has a secret in it.
func TestChanges(t *testing.T) {
	id := [16]byte{1}
	user := func(key string) []byte {
		s := strings.Repeat(key, metadata.ScramSHA256.KeySize()/len(key))
		return metadata.User{Credentials: []metadata.Credential{{Mechanism: metadata.ScramSHA256, Iterations: 4096,
			Salt:      secret.Of("canary-salt"),
			StoredKey: secret.Of(s), ServerKey: secret.Of(s)}}}.Encode()
	}
	topic := func(n int32) []byte { return metadata.TopicRecord{Name: "orders", Partitions: n}.Encode() }
	partition := func(leader int32) []byte {
		return metadata.Partition{Leader: leader, Replicas: []int32{1, 2}, ISR: []int32{1, 2}}.Encode()
	}
	rule := acl.Binding{Type: acl.Topic, Name: "orders", Pattern: acl.Literal, Principal: "User:bob", Host: "*",
		Operation: acl.Read, Permission: acl.Allow}
	of := quota.Entity{User: quota.Of("bob"), Client: quota.Any()}
	quotas := func(rate float64) []byte {
		return metadata.Quota{Limits: map[string]float64{quota.Produced.String(): rate}}.Encode()
	}
	for _, c := range []struct {
		key           string
		before, after []byte
		op, res       string
		old, new      string
	}{
		{metadata.TopicKey(id), nil, topic(3), "CREATE", "Topic:orders", "", `{"partitions":3}`},
		{metadata.TopicKey(id), topic(3), topic(6), "ALTER", "Topic:orders", `{"partitions":3}`, `{"partitions":6}`},
		{metadata.TopicKey(id), topic(3), nil, "DELETE", "Topic:orders", `{"partitions":3}`, ""},
		{metadata.TopicConfigKey(id), nil, metadata.EncodeConfigs(map[string]string{"a": "1"}), "CREATE", "Configs:topic:orders",
			"", `{"a":"1"}`},
		{metadata.BrokerConfigKey(metadata.DefaultBroker), metadata.EncodeConfigs(map[string]string{"a": "1"}),
			metadata.EncodeConfigs(map[string]string{"a": "2"}), "ALTER", "Configs:broker:default", `{"a":"1"}`, `{"a":"2"}`},
		{metadata.BrokerConfigKey(2), metadata.EncodeConfigs(map[string]string{"a": "1"}), nil, "DELETE", "Configs:broker:2",
			`{"a":"1"}`, ""},
		{metadata.GroupConfigKey("g"), nil, metadata.EncodeConfigs(map[string]string{"a": "1"}), "CREATE",
			"Configs:group:g", "", `{"a":"1"}`},
		{metadata.ACLKey(&rule), nil, metadata.EncodeACL(&rule), "CREATE", "ACL:TOPIC:LITERAL:orders", "",
			`{"principal":"User:bob","host":"*","operation":"READ","permission":"ALLOW"}`},
		{metadata.QuotaKey(of), nil, quotas(1e6), "CREATE", "Quota:user=bob,client-id=<default>", "", `{"producer_byte_rate":1000000}`},
		{metadata.QuotaKey(of), quotas(1e6), quotas(2e6), "ALTER", "Quota:user=bob,client-id=<default>",
			`{"producer_byte_rate":1000000}`, `{"producer_byte_rate":2000000}`},
		{metadata.QuotaKey(of), quotas(1e6), nil, "DELETE", "Quota:user=bob,client-id=<default>", `{"producer_byte_rate":1000000}`, ""},
		{metadata.UserKey("alice"), user("canary-1"), user("canary-2"), "ALTER", "User:alice",
			`{"SCRAM-SHA-256":4096}`, `{"SCRAM-SHA-256":4096}`},
		{metadata.PartitionKey(id, 3), partition(1), partition(2), "ALTER", "Partition:orders-3",
			`{"leader":1,"epoch":0,"replicas":[1,2],"isr":[1,2]}`, `{"leader":2,"epoch":0,"replicas":[1,2],"isr":[1,2]}`},
		{metadata.PartitionKey(id, 3), nil, partition(1), "", "", "", ""}, // with its topic
		{metadata.TopicKey(id), topic(3), topic(3), "", "", "", ""},
		{metadata.ProducerIDsKey, nil, metadata.ProducerIDs{Next: 5}.Encode(), "", "", "", ""},
	} {
		got := record(t, c.key, c.before, c.after, topic(3), metadata.TopicKey(id))
		if c.res == "" {
			if len(got) > 0 {
				t.Errorf("%s: %q", c.key, got)
			}
			continue
		}
		var e struct {
			Kind, Op, Res, Who string
			Old, New           json.RawMessage
		}
		if len(got) != 1 || strings.Contains(got[0], "canary") ||
			json.Unmarshal([]byte(strings.Replace(got[0], `"ev"`, `"kind"`, 1)), &e) != nil {
			t.Errorf("%s: %q", c.key, got)
			continue
		}
		if e.Kind != "change" || e.Who != "User:admin" || e.Op != c.op || e.Res != c.res || string(e.Old) != c.old ||
			string(e.New) != c.new {
			t.Errorf("%s: %s", c.key, got[0])
		}
	}
}

// record changes a key for a client, and returns the lines of the log.
func record(t *testing.T, key string, before, after, topic []byte, topicKey string) []string {
	t.Helper()
	m := &memory{kvs: map[string]metadata.KV{topicKey: {Key: topicKey, Value: topic, ModRevision: 1}}}
	delete(m.kvs, key)
	if before != nil {
		m.kvs[key] = metadata.KV{Key: key, Value: before, ModRevision: 1}
	}
	out := &lines{}
	log := audit.Open(audit.Options{Mode: audit.Refusals, Sink: audit.Same(out)})
	s := Watch(m, log)
	txn := metadata.Txn{Put: []metadata.KV{{Key: key, Value: after}}}
	if after == nil {
		txn = metadata.Txn{Delete: []string{key}}
	}
	if _, err := s.Txn(audit.With(t.Context(), audit.Client{Who: "User:admin"}), txn); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.text
}

// Each kind of key is recorded, or is here with the reason.
func TestEveryKindIsRecordedOrNeedsNoRecord(t *testing.T) {
	unrecorded := map[metadata.KeyKind]string{
		metadata.KindProducerIDs: "given to producers", metadata.KindLogins: "follows from the users",
		metadata.KindBroker:   "a broker registers; the handler records its removal",
		metadata.KindLiveness: "of the controller", metadata.KindPlacement: "a broker reports it",
		metadata.KindGone: "follows from a removed broker", metadata.KindName: "follows from the topic",
		metadata.KindDeleting: "follows from the topic", metadata.KindDeletingBroker: "follows from the topic",
		metadata.KindSnapshot: "the handler records requests", metadata.KindMark: "of the service of snapshots",
		metadata.KindCollection: "of the service of snapshots", metadata.KindTier: "a leader writes it",
		metadata.KindObjectStore: "the first broker that uses it writes it",
	}
	for k := metadata.KindCluster; k.Scope() != 0; k++ {
		if (views[k] == nil) != (unrecorded[k] != "") {
			t.Errorf("changes of kind %d: a view %t, a reason %q", k, views[k] != nil, unrecorded[k])
		}
		if views[k] == nil {
			continue
		}
		s := &store{Store: &memory{kvs: map[string]metadata.KV{}}}
		_, err := s.resource(t.Context(), &metadata.Txn{}, changed{key: metadata.Key{Kind: k}})
		if err != nil && strings.Contains(err.Error(), "no name") {
			t.Error(err)
		}
	}
}

// What was not changed, and what the broker does on its own, has no line. What may have been
// changed has one that says so.
func TestOnlyChangesOfClients(t *testing.T) {
	m := &memory{kvs: map[string]metadata.KV{}}
	out := &lines{}
	log := audit.Open(audit.Options{Mode: audit.Refusals, Sink: audit.Same(out)})
	s := Watch(m, log)
	txn := metadata.Txn{Put: []metadata.KV{{Key: metadata.GroupConfigKey("g"), Value: metadata.EncodeConfigs(nil)}}}
	if _, err := s.Txn(t.Context(), txn); err != nil {
		t.Fatal(err)
	}
	txn.Put[0].Value = metadata.EncodeConfigs(map[string]string{"a": "1"})
	for _, m.err = range []error{&metadata.ConflictError{}, fmt.Errorf("no contact: %w", metadata.ErrUnknown)} {
		if _, err := s.Txn(audit.With(t.Context(), audit.Client{Who: "User:a"}), txn); !errors.Is(err, m.err) {
			t.Fatal(err)
		}
	}
	if err := log.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if len(out.text) != 1 || !strings.Contains(out.text[0], `"why":"it is not known whether the change was made: no contact: `) {
		t.Errorf("%q", out.text)
	}
	if Watch(m, nil) != metadata.Store(m) {
		t.Error("without a log there is a store around the store")
	}
}
