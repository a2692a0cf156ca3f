package hostile

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// entryAttacks send each API that the broker lists valid requests with as many entries as it takes.
func entryAttacks() []Attack {
	return []Attack{{
		Name: "many-entries", Aim: "a client fills the lists of each API's request, with different names and with one name, until it is refused",
		Holds: some, Keeps: little, Part: 8, prepare: victimOffset,
		run: fillLists,
	}}
}

// An answer has a part that is in proportion to its request, and one that the broker reserves
// memory for.
const (
	answerPerByte = 20
	answerBeyond  = 6 << 20
	// mostEntries is more than most APIs take.
	mostEntries = 1 << 18
)

// victimOffset makes the victim, and commits an offset of it with as much metadata as may be.
func victimOffset(ctx context.Context, c *Conn, m *Attacker) error {
	if err := errors.Join(victimTopic(ctx, c, m), c.coordinator(victim)); err != nil {
		return err
	}
	req := commitRequest(victim, strings.Repeat("m", 4096))
	req.Topics[0].Topic = victim
	resp, err := c.Ask(req)
	if err != nil {
		return err
	}
	return committed(resp)
}

// fillLists sends each API's request with ever more entries, until the broker refuses it. It
// returns an error for an answer that is out of proportion.
func fillLists(ctx context.Context, m *Attacker) error {
	keys, err := m.listed(ctx)
	if err != nil {
		return err
	}
	shapes := []entries{{}, {inner: true}, {same: true}, {inner: true, same: true}}
	var all []error
	for _, key := range keys {
		for _, shape := range shapes {
			all = append(all, m.judge(ctx, m.fillList(ctx, key, shape)))
		}
	}
	return errors.Join(all...)
}

// listed returns the APIs that the broker lists.
func (m *Attacker) listed(ctx context.Context) ([]kmsg.Key, error) {
	c, err := Dial(ctx, m.Addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }() // the answer is read
	req := newest(kmsg.ApiVersions).(*kmsg.ApiVersionsRequest)
	req.ClientSoftwareName, req.ClientSoftwareVersion = clientID, "1"
	resp, err := c.Ask(req)
	if err != nil {
		return nil, err
	}
	var keys []kmsg.Key
	for _, k := range resp.(*kmsg.ApiVersionsResponse).ApiKeys {
		keys = append(keys, kmsg.Key(k.ApiKey))
	}
	return keys, nil
}

// fillList sends one API's request with ever more entries of one shape.
func (m *Attacker) fillList(ctx context.Context, key kmsg.Key, shape entries) error {
	c, err := m.dial(ctx)
	if err != nil {
		return err
	}
	size := 0
	for shape.n = 1000; shape.n <= max(1000, m.some(mostEntries)); shape.n *= 4 {
		req := newest(key)
		shape.fill(reflect.ValueOf(req).Elem(), "", 0)
		harmless(req)
		if err := c.Request(req); err != nil {
			return err
		}
		if len(c.out) < size+shape.n/2 {
			return nil // it has no such list
		}
		size = len(c.out)
		p, err := c.Receive()
		if err != nil {
			return err
		}
		if len(p) > answerBeyond+answerPerByte*size {
			return fmt.Errorf("%s %+v: an answer of %d bytes to %d", kmsg.NameForKey(key.Int16()), shape, len(p), size)
		}
		m.note("answered")
	}
	return nil
}

// entries are the contents of lists: n in the outer ones or in the inner ones, with different names
// or with the same.
type entries struct {
	n           int
	inner, same bool
}

func (e entries) fill(v reflect.Value, _ string, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(victim)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int8:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		e.fill(v.Elem(), "", depth)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		n := 1
		if e.inner && !holdsList(v.Type().Elem()) || !e.inner && depth == 0 {
			n = e.n
		}
		list := reflect.MakeSlice(v.Type(), n, n)
		e.fill(list.Index(0), "", depth+1)
		for i := 1; i < n; i++ {
			list.Index(i).Set(list.Index(0))
			if !e.same {
				number(list.Index(i), i)
			}
		}
		v.Set(list)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "UnknownTags" && f.Name != "Version" {
				e.fill(v.Field(i), f.Name, depth)
			}
		}
	default:
	}
}

// holdsList reports whether an entry has lists.
func holdsList(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() != reflect.Uint8 && f.Name != "UnknownTags" {
			return true
		}
	}
	return false
}

// number gives an entry the name i.
func number(v reflect.Value, i int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("%x", i))
	case reflect.Int32:
		v.SetInt(int64(i))
	case reflect.Pointer:
		if v.Type().Elem().Kind() == reflect.String {
			name := fmt.Sprintf("%x", i)
			v.Set(reflect.ValueOf(&name))
		}
	case reflect.Struct:
		for k := range v.NumField() {
			if f := v.Type().Field(k); f.Type.Kind() == reflect.String || f.Type.Kind() == reflect.Pointer ||
				f.Name == "Partition" || strings.HasSuffix(f.Name, "ID") && f.Type.Kind() == reflect.Int32 {
				number(v.Field(k), i)
			}
		}
	default:
	}
}

// harmless makes a request one that is accepted and changes nothing.
func harmless(req kmsg.Request) {
	switch req := req.(type) {
	case *kmsg.MetadataRequest:
		req.AllowAutoTopicCreation = false
		for i := range req.Topics {
			req.Topics[i].TopicID = [16]byte{}
		}
	case *kmsg.OffsetCommitRequest:
		req.Group = clientID // the victim's offset stays
	case *kmsg.OffsetFetchRequest:
		for i := range req.Groups {
			req.Groups[i].MemberID, req.Groups[i].MemberEpoch = nil, -1
		}
	case *kmsg.DescribeConfigsRequest:
		for i := range req.Resources {
			req.Resources[i].ResourceType, req.Resources[i].ConfigNames = kmsg.ConfigResourceTypeGroupConfig, nil
		}
	case *kmsg.CreateTopicsRequest:
		for i := range req.Topics {
			t := &req.Topics[i]
			t.NumPartitions, t.ReplicationFactor, t.ReplicaAssignment, t.Configs = 1, 1, nil, nil
		}
	case *kmsg.ShareFetchRequest:
		req.IsRenewAck, req.ShareAcquireMode = false, 0
		for i := range req.Topics {
			for j := range req.Topics[i].Partitions {
				req.Topics[i].Partitions[j].AcknowledgementBatches = nil
			}
		}
	case *kmsg.FetchRequest:
		req.MaxWaitMillis, req.SessionEpoch = 0, -1
	case *kmsg.JoinGroupRequest:
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.MemberID, req.InstanceID = 60_000, 60_000, "", nil
	}
}
