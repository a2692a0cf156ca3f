// Package changes records what clients change in the metadata, with the values before and after.
//
// It stands between the controller and the metadata store, where every change passes, whatever
// request it is for. The client is that of the transaction's context (audit.With). What the broker
// does on its own, such as electing another leader after a failure, is not recorded. The package
// decides nothing about them.
package changes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/chronik-io/chronik/internal/audit"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// Watch returns a store that records the transactions of clients when they have succeeded, or when
// the outcome is not known. Without a log it returns the store itself. An old value is read before
// its transaction, which has the condition that it is unchanged.
func Watch(s metadata.Store, log *audit.Log) metadata.Store {
	if !log.Records(audit.Change) {
		return s
	}
	return &store{s, log}
}

type store struct {
	metadata.Store
	log *audit.Log
}

// Txn implements metadata.Store.
func (s *store) Txn(ctx context.Context, t metadata.Txn) (int64, error) {
	client, ok := audit.From(ctx)
	if !ok {
		return s.Store.Txn(ctx, t)
	}
	events, err := s.events(ctx, &t)
	if err != nil {
		return 0, err // nothing is changed that could not be recorded
	}
	revision, err := s.Store.Txn(ctx, t)
	if _, refused := metadata.Refused(err); refused {
		return revision, err
	}
	for _, e := range events {
		e.Client = client
		if err != nil { // only a conflict says that nothing has changed
			e.Why = audit.Doubt(err)
		}
		s.log.Record(e)
	}
	return revision, err
}

// changed is the change of one key. before and after have no Value if the key is missing.
type changed struct {
	key           metadata.Key
	before, after metadata.KV
}

// events returns the changes of a transaction.
func (s *store) events(ctx context.Context, t *metadata.Txn) (events []audit.Event, err error) {
	add := func(key string, value []byte) error {
		k, err := metadata.ParseKey(key)
		if err != nil || views[k.Kind] == nil {
			return err
		}
		before, _, err := s.Get(ctx, key)
		if err != nil {
			return fmt.Errorf("read the value that is to be changed: %w", err)
		}
		before.Key = key
		e, err := s.event(ctx, t, changed{k, before, metadata.KV{Key: key, Value: value, ModRevision: max(1, before.ModRevision)}})
		if err == nil && e.Resource != "" {
			events = append(events, e)
		}
		return err
	}
	for _, kv := range t.Put {
		if err := add(kv.Key, kv.Value); err != nil {
			return nil, err
		}
	}
	for _, key := range t.Delete {
		if err := add(key, nil); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// event returns the event of a change; without a Resource if there is nothing to record.
func (s *store) event(ctx context.Context, t *metadata.Txn, c changed) (audit.Event, error) {
	e := audit.Event{Kind: audit.Change, Operation: "ALTER"}
	switch {
	case c.before.Value == nil:
		e.Operation = "CREATE"
	case c.after.Value == nil:
		e.Operation = "DELETE"
	}
	if bytes.Equal(c.before.Value, c.after.Value) {
		return audit.Event{}, nil
	}
	var err error
	if e.Resource, err = s.resource(ctx, t, c); err != nil || e.Resource == "" {
		return audit.Event{}, err
	}
	view := views[c.key.Kind]
	if e.Old, err = view(c.before); err != nil {
		return audit.Event{}, err
	}
	e.New, err = view(c.after)
	return e, err
}

// resource returns the name of what is changed; empty if another key of the transaction says so.
func (s *store) resource(ctx context.Context, t *metadata.Txn, c changed) (string, error) {
	switch c.key.Kind {
	case metadata.KindTopic:
		name, err := topicOf(c)
		return "Topic:" + name, err
	case metadata.KindPartition:
		if c.before.Value == nil || c.after.Value == nil {
			return "", nil // with its topic
		}
		name, err := s.topic(ctx, t, c.key.ID)
		return fmt.Sprintf("Partition:%s-%d", name, c.key.Partition), err
	case metadata.KindTopicConfig:
		name, err := s.topic(ctx, t, c.key.ID)
		return "Configs:topic:" + name, err
	case metadata.KindBrokerConfig:
		if c.key.Broker == metadata.DefaultBroker {
			return "Configs:broker:default", nil
		}
		return fmt.Sprintf("Configs:broker:%d", c.key.Broker), nil
	case metadata.KindGroupConfig:
		return "Configs:group:" + c.key.Name, nil
	case metadata.KindSubscription:
		return "Configs:client-metrics:" + c.key.Name, nil
	case metadata.KindACL:
		a, err := metadata.DecodeACL(present(c))
		return fmt.Sprintf("ACL:%s:%s:%s", a.Type, a.Pattern, a.Name), err
	case metadata.KindUser:
		return "User:" + c.key.Name, nil
	case metadata.KindQuota:
		return "Quota:" + c.key.Entity.String(), nil
	case metadata.KindCluster:
		return "Cluster", nil
	}
	return "", fmt.Errorf("changes of %s are recorded, and have no name", c.key)
}

// present returns the value after a change, or the one before if it was deleted.
func present(c changed) metadata.KV {
	if c.after.Value == nil {
		return c.before
	}
	return c.after
}

func topicOf(c changed) (string, error) {
	t, err := metadata.DecodeTopicRecord(present(c))
	return t.Name, err
}

// topic returns the name of a topic that exists, or that the transaction creates.
func (s *store) topic(ctx context.Context, t *metadata.Txn, id [16]byte) (string, error) {
	key := metadata.TopicKey(id)
	for _, kv := range t.Put {
		if kv.Key == key {
			rec, err := metadata.DecodeTopicRecord(metadata.KV{Key: key, Value: kv.Value, ModRevision: 1})
			return rec.Name, err
		}
	}
	kv, _, err := s.Get(ctx, key)
	if err != nil {
		return "", err
	}
	kv.Key = key
	if kv.ModRevision == 0 {
		return metadata.FormatID(id), nil
	}
	rec, err := metadata.DecodeTopicRecord(kv)
	return rec.Name, err
}

// views are the kinds of keys whose changes are recorded. A view returns a value as a line has it:
// without secrets, and without what readers don't need. Changes of other kinds follow from these,
// or are the broker's own.
var views = map[metadata.KeyKind]func(metadata.KV) (json.RawMessage, error){
	metadata.KindTopic: viewAs(metadata.DecodeTopicRecord, func(t metadata.TopicRecord) any {
		return map[string]any{"partitions": t.Partitions}
	}),
	metadata.KindPartition: viewAs(metadata.DecodePartition, func(p metadata.Partition) any {
		return partitionJSON{p.Leader, p.LeaderEpoch, p.Replicas, p.ISR, p.Adding, p.Removing}
	}),
	metadata.KindACL: viewAs(metadata.DecodeACL, func(a acl.Binding) any {
		return aclJSON{a.Principal, a.Host, a.Operation.String(), a.Permission.String()}
	}),
	metadata.KindUser: viewAs(metadata.DecodeUser, func(u metadata.User) any {
		iterations := map[string]int32{} // salt and keys are secrets
		for _, c := range u.Credentials {
			iterations[c.Mechanism.String()] = c.Iterations
		}
		return iterations
	}),
	metadata.KindQuota: viewAs(metadata.DecodeQuota, func(q metadata.Quota) any { return q.Limits }),
	metadata.KindCluster: viewAs(metadata.DecodeCluster, func(c metadata.Cluster) any {
		return map[string]any{"transaction.version": c.TransactionVersion, "share.version": c.ShareVersion}
	}),
	metadata.KindTopicConfig:  configs,
	metadata.KindBrokerConfig: configs,
	metadata.KindGroupConfig:  configs,
	metadata.KindSubscription: configs,
}

var configs = viewAs(metadata.DecodeConfigs, func(set map[string]string) any { return set })

// viewAs returns a view, which is nil for a missing key.
func viewAs[T any](decode func(metadata.KV) (T, error), show func(T) any) func(metadata.KV) (json.RawMessage, error) {
	return func(kv metadata.KV) (json.RawMessage, error) {
		if kv.Value == nil {
			return nil, nil
		}
		v, err := decode(kv)
		if err != nil {
			return nil, err
		}
		return json.Marshal(show(v))
	}
}

type partitionJSON struct {
	Leader   int32   `json:"leader"`
	Epoch    int32   `json:"epoch"`
	Replicas []int32 `json:"replicas"`
	ISR      []int32 `json:"isr"`
	Adding   []int32 `json:"adding,omitempty"`
	Removing []int32 `json:"removing,omitempty"`
}

type aclJSON struct {
	Principal  string `json:"principal"`
	Host       string `json:"host"`
	Operation  string `json:"operation"`
	Permission string `json:"permission"`
}
