package broker

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// DeleteTopics (key 20), versions 1 to 6. An answer without an error means that no later request
// sees the topic; its files are deleted in the background.
func deleteTopicsAPI() api {
	return apiDef[*kmsg.DeleteTopicsRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.DeleteTopics), Min: 1, Max: 6},
		asks:         asks[*kmsg.DeleteTopicsRequest]{parts: each(deleteEntries, askToDelete)},
		refuse: func(_ *network.Request, req *kmsg.DeleteTopicsRequest, code *kerr.Error) kmsg.Response {
			deleteEntries(req)
			return refuseWhole(req, code)
		},
		overloaded: kerr.NotController,
		handle:     inBackground(atMetadata, deleteTopics),
	}.api()
}

func deleteTopics(ctx context.Context, b *Handler, r *network.Request, req *kmsg.DeleteTopicsRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrDeleteTopicsResponse())
	c := b.newChange(r, milliseconds(req.TimeoutMillis))
	var ids [][16]byte
	var positions []int // the position of each id in the answer
	wanted := b.toDelete(req)
	resp.Topics = make([]kmsg.DeleteTopicsResponseTopic, 0, len(wanted))
	for _, want := range wanted {
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.TopicID = want.name, want.id
		if want.err == nil {
			want.err = b.mutate(r, want.topic.Partitions.Len())
		}
		if want.err == nil {
			out.Topic, out.TopicID = &want.topic.Name, want.topic.ID
			ids, positions = append(ids, want.topic.ID), append(positions, len(resp.Topics))
		}
		out.ErrorCode, out.ErrorMessage = c.verdict(want.err)
		resp.Topics = append(resp.Topics, out)
	}
	if len(ids) == 0 {
		return resp
	}
	errs := c.deleteTopics(ctx, ids)
	notSeen := c.waitVisible(ctx)
	for i, err := range errs {
		if err == nil && notSeen != nil && b.image().TopicByID(ids[i]) != nil {
			err = notSeen
		}
		out := &resp.Topics[positions[i]]
		out.ErrorCode, out.ErrorMessage = c.verdict(err)
	}
	return resp
}

func (c *change) deleteTopics(ctx context.Context, ids [][16]byte) []error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	revision, errs := c.b.opt.Controller.DeleteTopics(ctx, ids)
	c.addRevision(revision)
	return errs
}

// deletion is one entry of the request: its topic, or the error if there is none.
type deletion struct {
	name  *string
	id    [16]byte
	topic *metadata.Topic
	err   error
}

// toDelete resolves all entries before any topic is deleted. A topic that several entries name is
// not deleted, and it is answered once.
func (b *Handler) toDelete(req *kmsg.DeleteTopicsRequest) []deletion {
	entries := *deleteEntries(req)
	type key struct {
		named bool
		name  string
		id    [16]byte
	}
	keyOf := func(e *kmsg.DeleteTopicsRequestTopic) key {
		if e.Topic == nil {
			return key{id: e.TopicID}
		}
		return key{true, *e.Topic, e.TopicID}
	}
	times := counts(entries, keyOf)
	named := map[[16]byte]int{} // how many entries name a topic, by its id or its name
	img := b.image()
	list := make([]deletion, 0, len(times))
	for i := range entries {
		e := &entries[i]
		n := times[keyOf(e)]
		if n == 0 {
			continue
		}
		times[keyOf(e)] = 0
		d := deletion{name: e.Topic, id: e.TopicID}
		d.topic, d.err = b.deletable(img, req.Version, e, n > 1)
		if e.Topic == nil {
			named[e.TopicID] += n
		} else if d.topic != nil {
			named[d.topic.ID] += n
		}
		list = append(list, d)
	}
	for i := range list {
		if d := &list[i]; d.topic != nil && d.name != nil && named[d.topic.ID] > 1 {
			d.id = d.topic.ID
			d.err = protocolErrorf(kerr.InvalidRequest, "The provided topic name maps to an ID that was already supplied.")
		}
	}
	return slices.DeleteFunc(list, func(d deletion) bool {
		// As in Kafka it is not deleted, and answered once.
		return d.err == nil && d.name == nil && named[d.topic.ID] > 1
	})
}

// deleteEntries returns a request's topics in the form of version 6.
func deleteEntries(req *kmsg.DeleteTopicsRequest) *[]kmsg.DeleteTopicsRequestTopic {
	req.Topics = slices.Grow(req.Topics, len(req.TopicNames))
	for i := range req.TopicNames {
		req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &req.TopicNames[i]})
	}
	req.TopicNames = nil
	return &req.Topics
}

// askToDelete asks for the right to delete one topic. Who may describe a topic that is named by its
// id gets its name with the refusal.
func askToDelete(m rights, _ *kmsg.DeleteTopicsRequest, x *kmsg.DeleteTopicsRequestTopic) *kerr.Error {
	byID := x.TopicID != [16]byte{}
	if byID == (x.Topic != nil) {
		return nil // the handler refuses it
	}
	if !byID {
		return m.topic(acl.Delete, *x.Topic)
	}
	t := m.b.image().TopicByID(x.TopicID)
	code := m.topicByID(acl.Delete, t)
	if code == kerr.TopicAuthorizationFailed {
		x.Topic = &t.Name
	}
	return code
}

var (
	errUnknownID    = protocolErrorf(kerr.UnknownTopicID, "This server does not host this topic ID.")
	errUnknownTopic = protocolErrorf(kerr.UnknownTopicOrPartition, "This server does not host this topic-partition.")
)

// deletable returns the topic that an entry names.
func (b *Handler) deletable(img *metadata.Image, version int16, e *kmsg.DeleteTopicsRequestTopic, repeated bool) (*metadata.Topic, error) {
	byID := e.TopicID != [16]byte{}
	var t *metadata.Topic
	if byID {
		t = img.TopicByID(e.TopicID)
	} else if e.Topic != nil {
		t = img.Topic(*e.Topic)
	}
	switch {
	case !b.conf.DeleteTopics && version < 3:
		return nil, protocolErrorf(kerr.InvalidRequest, "Topic deletion is disabled.")
	case !b.conf.DeleteTopics:
		return nil, protocolErrorf(kerr.TopicDeletionDisabled, "Topic deletion is disabled.")
	case !byID && e.Topic == nil:
		return nil, protocolErrorf(kerr.InvalidRequest, "Neither topic name nor id were specified.")
	case byID && e.Topic != nil:
		return nil, protocolErrorf(kerr.InvalidRequest, "You may not specify both topic name and topic id.")
	case repeated && byID:
		return nil, protocolErrorf(kerr.InvalidRequest, "Duplicate topic id.")
	case repeated:
		return nil, errDuplicateTopic
	case t == nil && byID:
		return nil, errUnknownID
	case t == nil:
		return nil, errUnknownTopic
	}
	return t, nil
}
