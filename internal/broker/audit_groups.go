package broker

import (
	"encoding/json"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/audit"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/view"
)

// Changes of groups do not pass the metadata store, so the APIs that make them say what an answer
// has changed (apiDef.changes), and call.respond records it.

// changedGroup is a change of a group.
type changedGroup struct {
	operation, group string
	now              any // what the request has set; nil for nothing
}

// recordChanges records what an answer has changed.
func recordChanges[R any](c call, req R, changes func(*Handler, R, kmsg.Response) []changedGroup) func(kmsg.Response) {
	if changes == nil || !c.b.opt.Audit.Records(audit.Change) {
		return nil
	}
	return func(resp kmsg.Response) {
		for _, x := range changes(c.b, req, resp) {
			c.b.opt.Audit.Record(groupChange(clientOf(c.r), x.operation, x.group, x.now))
		}
	}
}

// groupChange returns the event of a change of a group, with what it has now.
func groupChange(client audit.Client, operation, id string, now any) audit.Event {
	e := audit.Event{Kind: audit.Change, Client: client, Operation: operation,
		Resource: acl.Group.String() + ":" + acl.Literal.String() + ":" + strings.Clone(view.Cut(id))}
	if now != nil {
		e.New, _ = json.Marshal(now) // maps of texts and numbers
	}
	return e
}

// offsetsOf are positions by topic and partition. A value of null has been deleted.
type offsetsOf map[string]map[int32]*int64

func (o offsetsOf) set(topic string, partition int32, offset *int64) {
	if o[topic] == nil {
		o[topic] = map[int32]*int64{}
	}
	o[topic][partition] = offset
}

// mostShown bounds the positions in a line. Of more, it has their number.
const mostShown = 500

// shown returns positions as a line has them.
func (o offsetsOf) shown() any {
	n := 0
	for _, partitions := range o {
		n += len(partitions)
	}
	if n > mostShown {
		return map[string]int{"partitions": n}
	}
	return map[string]offsetsOf{"offsets": o}
}

// altered returns the change of positions, none if there are none.
func (o offsetsOf) altered(group string) []changedGroup {
	if len(o) == 0 {
		return nil
	}
	return []changedGroup{{"ALTER", group, o.shown()}}
}

func deletedGroups(_ *Handler, _ *kmsg.DeleteGroupsRequest, resp kmsg.Response) (list []changedGroup) {
	for _, g := range resp.(*kmsg.DeleteGroupsResponse).Groups {
		if g.ErrorCode == 0 {
			list = append(list, changedGroup{"DELETE", g.Group, nil})
		}
	}
	return list
}

func deletedOffsets(_ *Handler, req *kmsg.OffsetDeleteRequest, resp kmsg.Response) []changedGroup {
	r, all := resp.(*kmsg.OffsetDeleteResponse), offsetsOf{}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			if r.ErrorCode == 0 && p.ErrorCode == 0 {
				all.set(t.Topic, p.Partition, nil)
			}
		}
	}
	return all.altered(req.Group)
}

func alteredShares(_ *Handler, req *kmsg.AlterShareGroupOffsetsRequest, resp kmsg.Response) []changedGroup {
	r, all := resp.(*kmsg.AlterShareGroupOffsetsResponse), offsetsOf{}
	done := map[offsetAt]bool{}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			done[offsetAt{t.Topic, p.Partition}] = r.ErrorCode == 0 && p.ErrorCode == 0
		}
	}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if done[offsetAt{t.Topic, p.Partition}] {
				all.set(t.Topic, p.Partition, &p.StartOffset)
			}
		}
	}
	return all.altered(req.GroupID)
}

func deletedShares(_ *Handler, req *kmsg.DeleteShareGroupOffsetsRequest, resp kmsg.Response) []changedGroup {
	r := resp.(*kmsg.DeleteShareGroupOffsetsResponse)
	var topics []string
	for _, t := range r.Topics {
		if r.ErrorCode == 0 && t.ErrorCode == 0 {
			topics = append(topics, t.Topic)
		}
	}
	if len(topics) == 0 {
		return nil
	}
	return []changedGroup{{"ALTER", req.GroupID, map[string][]string{"deleted offsets of": topics}}}
}

// changedShareStates returns the changes of a tool that has sent a request of the APIs 83, 85 and
// 86.
func changedShareStates[R kmsg.Request](operation string) func(*Handler, R, kmsg.Response) []changedGroup {
	return func(b *Handler, req R, resp kmsg.Response) []changedGroup {
		codes := shareCodes(resp)
		var changed []map[string]any
		var group string
		for i, k := range sharesNamed(req) {
			if group = k.Group; i < len(codes) && codes[i] == 0 {
				changed = append(changed, map[string]any{"topic": b.topicText(k.Topic), "partition": k.Partition})
			}
		}
		if len(changed) == 0 {
			return nil
		}
		return []changedGroup{{operation, group, map[string]any{"states": changed}}}
	}
}

// shareCodes returns the errors of the partitions of an answer, in their order.
func shareCodes(resp kmsg.Response) (codes []int16) {
	switch r := resp.(type) {
	case *kmsg.InitializeShareGroupStateResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				codes = append(codes, p.ErrorCode)
			}
		}
	case *kmsg.WriteShareGroupStateResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				codes = append(codes, p.ErrorCode)
			}
		}
	case *kmsg.DeleteShareGroupStateResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				codes = append(codes, p.ErrorCode)
			}
		}
	}
	return codes
}

// resets are the positions that an OffsetCommit without a member has moved back, or set first. What
// moves forward looks like the progress of a consumer that assigns its partitions itself.
type resets struct {
	by    audit.Client
	group string
	moved map[offsetAt]int64 // the offsets before
}

type offsetAt struct {
	topic     string
	partition int32
}

// watchResets returns what notes the resets of a request; nil if they are not recorded.
func (c call) watchResets(req *kmsg.OffsetCommitRequest) *resets {
	if req.Generation >= 0 || req.MemberID != "" || !c.b.opt.Audit.Records(audit.Change) {
		return nil
	}
	return &resets{clientOf(c.r), req.Group, map[offsetAt]int64{}}
}

func (x *resets) note(topic string, partition int32, before int64) {
	x.moved[offsetAt{topic, partition}] = before
}

// record records the resets that were carried out.
func (x *resets) record(log *audit.Log, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse) {
	if x == nil || len(x.moved) == 0 {
		return
	}
	before, now := offsetsOf{}, offsetsOf{}
	for i, t := range req.Topics {
		for j, p := range t.Partitions {
			was, moved := x.moved[offsetAt{t.Topic, p.Partition}]
			if !moved || i >= len(resp.Topics) || j >= len(resp.Topics[i].Partitions) || resp.Topics[i].Partitions[j].ErrorCode != 0 {
				continue
			}
			if was >= 0 {
				before.set(t.Topic, p.Partition, &was)
			}
			now.set(t.Topic, p.Partition, &p.Offset)
		}
	}
	for _, change := range now.altered(x.group) {
		e := groupChange(x.by, change.operation, change.group, change.now)
		if len(before) > 0 {
			e.Old, _ = json.Marshal(before.shown())
		}
		log.Record(e)
	}
}
