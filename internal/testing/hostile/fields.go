package hostile

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/pause"
)

// fieldAttacks send valid requests whose strings and arrays are as long as a broker might take
// them. They are made of the protocol's definitions, so an API or a field that is new is filled,
// too.
func fieldAttacks() []Attack {
	return []Attack{
		{
			Name: "long-fields", Aim: "40 clients for each API fill all strings with 1,000, 32,000 or 1,000,000 bytes, and keep what the broker takes",
			Holds: 48 << 20, Keeps: little, Part: 30, prepare: victimTopic,
			run: fillFields,
		},
		{
			Name: "long-groups", Aim: "one client commits offsets of 100 partitions for each of 1,000 groups, whose names have 1,000 or 32,000 bytes",
			Holds: some, Keeps: some, Part: 100,
			prepare: func(_ context.Context, c *Conn, _ *Attacker) error { return c.makeTopic(broad, manyPartitions) },
			run:     func(ctx context.Context, m *Attacker) error { return commitForGroups(ctx, m, m.some(1000)) },
		},
		{
			Name: "slow-expressions", Aim: "eight clients subscribe by expressions of 9,800 instructions and leave; an honest one follows",
			Holds: some, Keeps: little, Part: 100, prepare: manyTopics,
			run: subscribeBehindOthers,
		},
		{
			Name: "unread-lists", Aim: "20 clients fill the memory of groups with metadata of members, and 600 ask for all lists and read nothing",
			Holds: some, Keeps: little, Grows: budget, Part: 100, prepare: victimTopic,
			run: func(ctx context.Context, m *Attacker) error {
				if err := fillGroups(ctx, m); err != nil {
					return err
				}
				return leaveUnread(ctx, m)
			},
		},
	}
}

// lengths of strings: a long name, the longest string of the versions that are not flexible, and
// one of the others if nothing bounds it.
var lengths = []int{1_000, 32_000, 1_000_000, 1_000_000}

// longestName is the longest name of a group that brokers accept.
const longestName = 1024

// fillFields sends each API's request, with its strings filled, on connections of its own. The
// connections stay open.
func fillFields(ctx context.Context, m *Attacker) error {
	keys, err := m.listed(ctx)
	all := []error{err}
	for _, key := range keys {
		all = append(all, m.once(ctx, m.connections(40), func(c *Conn, i int) error {
			req := newest(key)
			length := lengths[i%len(lengths)]
			if length > 32_767 && !req.IsFlexible() {
				return nil
			}
			filled(req, fmt.Sprintf("%s-%d-", kmsg.NameForKey(key.Int16()), i), length)
			resp, err := c.Ask(req)
			if beat, ok := resp.(*kmsg.ConsumerGroupHeartbeatResponse); ok && err == nil && beat.ErrorCode == 0 {
				m.note("joined")
			}
			return err
		}))
	}
	return errors.Join(all...)
}

// newest returns a request of the newest version that brokers support.
func newest(key kmsg.Key) kmsg.Request {
	req := kmsg.RequestForKey(key.Int16())
	most := map[kmsg.Key]int16{kmsg.ApiVersions: 4, kmsg.OffsetCommit: 9, kmsg.OffsetFetch: 9, kmsg.InitProducerID: 5,
		kmsg.ConsumerGroupHeartbeat: 1, kmsg.Fetch: 12}
	v, ok := most[key]
	if !ok {
		v = req.MaxVersion()
	}
	req.SetVersion(v)
	return req
}

// filled fills the strings of a request with a prefix and as many bytes as are wanted, its arrays
// with an entry, and makes it one that a broker accepts.
func filled(req kmsg.Request, prefix string, length int) {
	fill(reflect.ValueOf(req).Elem(), "", prefix, length)
	name, shareMember := prefix+strings.Repeat("x", max(0, longestName-len(prefix))), "AAAAAAAAAAAAAAAAAAAAAA"
	switch req := req.(type) {
	case *kmsg.OffsetCommitRequest:
		req.Generation, req.MemberID, req.InstanceID = -1, "", nil
		req.Topics[0].Topic, req.Topics[0].Partitions[0].Metadata = victim, nil
	case *kmsg.JoinGroupRequest:
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.MemberID, req.InstanceID = 60_000, 60_000, "", nil
	case *kmsg.InitProducerIDRequest:
		req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = 60_000, -1, -1
	case *kmsg.ConsumerGroupHeartbeatRequest:
		req.RebalanceTimeoutMillis, req.MemberEpoch, req.Topics = 60_000, 0, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		req.Group, req.MemberID, req.InstanceID, req.ServerAssignor, req.SubscribedTopicRegex = prefix, prefix, nil, nil, nil
	case *kmsg.ShareGroupHeartbeatRequest:
		req.GroupID, req.MemberID, req.MemberEpoch = name, shareMember, 0
	case *kmsg.ShareFetchRequest:
		req.GroupID, req.MemberID, req.ShareSessionEpoch = &name, &shareMember, 0
		req.Topics[0].Partitions[0].AcknowledgementBatches = nil
	case *kmsg.AlterShareGroupOffsetsRequest:
		req.GroupID, req.Topics[0].Topic = name, victim
	}
}

func fill(v reflect.Value, field, prefix string, length int) {
	switch v.Kind() {
	case reflect.String:
		if !slices.Contains([]string{"Topic", "TopicName"}, field) {
			v.SetString(prefix + strings.Repeat("x", max(0, length-len(prefix))))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), field, prefix, length)
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), field, prefix, length)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "UnknownTags" && f.Name != "Version" {
				fill(v.Field(i), f.Name, prefix, length)
			}
		}
	default:
	}
}

// unreadGroups is how many groups fillGroups makes, of a member with unreadBytes of metadata each.
const (
	unreadGroups = 20
	unreadBytes  = 100_000
)

func unreadGroup(i int) string { return fmt.Sprintf("described-%d", i) }

// fillGroups makes groups with a member each, as far as the broker takes them.
func fillGroups(ctx context.Context, m *Attacker) error {
	return m.once(ctx, unreadGroups, func(c *Conn, i int) error {
		join := kmsg.NewPtrJoinGroupRequest()
		join.Version, join.Group, join.ProtocolType = 3, unreadGroup(i), "consumer"
		join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 60_000, 60_000
		join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: make([]byte, unreadBytes)}}
		resp, err := c.Ask(join)
		if err != nil {
			return err
		}
		joined := resp.(*kmsg.JoinGroupResponse)
		if joined.ErrorCode != 0 {
			return nil // it is full
		}
		m.note("joined")
		sync := kmsg.NewPtrSyncGroupRequest()
		sync.Version, sync.Group, sync.Generation, sync.MemberID = 2, join.Group, joined.Generation, joined.MemberID
		sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: joined.MemberID, MemberAssignment: []byte{0}}}
		_, err = c.Ask(sync)
		return err
	})
}

// leaveUnread asks for descriptions on connections of their own, and reads none.
func leaveUnread(ctx context.Context, m *Attacker) error {
	describe := kmsg.NewPtrDescribeGroupsRequest()
	for i := range unreadGroups {
		describe.Groups = append(describe.Groups, unreadGroup(i))
	}
	return m.once(ctx, m.connections(600), func(c *Conn, _ int) error {
		if err := c.narrow(); err != nil {
			return err
		}
		return errors.Join(c.Request(describe), c.Request(kmsg.NewPtrListGroupsRequest()))
	})
}

// broad is a topic with many partitions: the record of each offset has the group's name.
const (
	broad          = "broad"
	manyPartitions = 100
)

// commitForGroups commits offsets of each of n groups, of all partitions of a topic.
func commitForGroups(ctx context.Context, m *Attacker, n int) error {
	return m.once(ctx, 1, func(c *Conn, _ int) error {
		for i := range n {
			req := newest(kmsg.OffsetCommit).(*kmsg.OffsetCommitRequest)
			filled(req, fmt.Sprintf("%06d-", i), lengths[i%2])
			t := &req.Topics[0]
			t.Topic = broad
			for p := range int32(manyPartitions - 1) {
				next := t.Partitions[0]
				next.Partition = p + 1
				t.Partitions = append(t.Partitions, next)
			}
			resp, err := c.Ask(req)
			if err != nil {
				return err
			}
			code := resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
			m.note(codeName(code))
		}
		return nil
	})
}

// manyTopics makes topics whose names have 40 kB in all.
func manyTopics(_ context.Context, c *Conn, _ *Attacker) error {
	for i := range 200 {
		if err := c.makeTopic(fmt.Sprintf("%03d-%s", i, strings.Repeat("t", 196)), 1); err != nil {
			return err
		}
	}
	return nil
}

// honestWithin is how long the subscription of an honest client may take: each of those before it
// would take seconds.
const honestWithin = 10 * time.Second

// subscribeBehindOthers subscribes by expressions that take long, closes their connections, and
// subscribes by one that takes none. It returns an error if that takes too long.
func subscribeBehindOthers(ctx context.Context, m *Attacker) error {
	subscribe := func(i int, expression string) *kmsg.ConsumerGroupHeartbeatRequest {
		req := newest(kmsg.ConsumerGroupHeartbeat).(*kmsg.ConsumerGroupHeartbeatRequest)
		req.Group, req.MemberID, req.RebalanceTimeoutMillis = fmt.Sprintf("expression-%d", i), "member", 60_000
		req.SubscribedTopicRegex, req.Topics = &expression, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		return req
	}
	for i := range 8 {
		c, err := m.dial(ctx)
		if err != nil {
			return err
		}
		if err := c.Request(subscribe(i, strings.Repeat(".?", 4900)+"\x01"+strings.Repeat("y", i))); err != nil {
			return err
		}
		pause.Wait(ctx.Done(), repeatEvery)
		m.drop(c)
	}
	c, err := m.dial(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	resp, err := c.Ask(subscribe(100, "orders-.*"))
	if err != nil {
		return err
	}
	m.note(codeName(resp.(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode))
	if took := time.Since(began); took > honestWithin {
		return fmt.Errorf("an honest subscription took %v", took)
	}
	return nil
}
