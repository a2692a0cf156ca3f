package broker

import (
	"errors"
	"hash/maphash"
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/security/quota"
	"github.com/chronik-io/chronik/internal/text"
)

// rights are what the client of a request may do, under the rules at the time of the call of
// Handler.rights. The zero value may do everything.
//
// Its methods return the error for a missing right, nil if there is none missing. They are asked
// before anything is looked up, so that what exists and what does not are refused alike.
type rights struct {
	b  *Handler
	of *subject
	r  *network.Request
}

// subject is what a session remembers of its client under some rules: the client, and the last
// answers. Rules that have changed make another one. Several goroutines may use it.
type subject struct {
	rules   *acl.Rules
	client  *acl.Subject
	answers [subjectAnswers]atomic.Pointer[rightsAnswer]
}

// subjectAnswers is how many answers a session remembers. Each is in the cell that its question
// has by a hash.
const subjectAnswers = 16

// rightsAnswer is what a client may do with one resource.
type rightsAnswer struct {
	kind acl.ResourceType
	name string
	mask acl.Mask
}

var rightsSeed = maphash.MakeSeed()

// rights returns the rights of a request's client.
func (b *Handler) rights(r *network.Request) rights {
	if b.opt.Rules == nil {
		return rights{}
	}
	rules := b.opt.Rules()
	if rules == nil {
		return rights{}
	}
	return rights{b, subjectOf(r.Session, rules), r}
}

// kept is what a session remembers for handlers.
type kept struct {
	subject *subject      // nil: it was not asked what the client may do
	tenant  *quota.Tenant // nil: it has no quota
}

// subjectOf returns the client of a session under some rules.
func subjectOf(s *network.Session, rules *acl.Rules) *subject {
	k, _ := s.Kept().(kept)
	if k.subject != nil && k.subject.rules == rules {
		return k.subject
	}
	made := &subject{rules: rules, client: rules.Subject(s.Principal, s.Host)}
	s.Keep(kept{subject: made, tenant: k.tenant})
	return made
}

// everything reports whether there is no authorization.
func (m rights) everything() bool { return m.of == nil }

// same reports whether two rights of a session are of the same rules.
func (m rights) same(as rights) bool { return m.of == as.of }

// operations returns what the client may do with a resource.
func (m rights) operations(kind acl.ResourceType, name string) acl.Mask {
	if m.of == nil {
		return acl.Everything
	}
	cell := &m.of.answers[(maphash.String(rightsSeed, name)+uint64(kind))%subjectAnswers]
	if a := cell.Load(); a != nil && a.kind == kind && a.name == name {
		return a.mask
	}
	a := &rightsAnswer{kind: kind, name: strings.Clone(name), mask: m.of.client.Operations(kind, name)}
	if len(name) <= maxRemembered {
		cell.Store(a)
	}
	return a.mask
}

// maxRemembered bounds the names of resources that a session remembers.
const maxRemembered = 256

func (m rights) may(op acl.Operation, kind acl.ResourceType, name string) bool {
	return m.of == nil || m.operations(kind, name).Has(op)
}

func (m rights) mayTopic(op acl.Operation, name string) bool { return m.may(op, acl.Topic, name) }

func (m rights) mayCluster(op acl.Operation) bool { return m.may(op, acl.Cluster, acl.ClusterName) }

// topic asks for an operation on a topic that the request names by name.
func (m rights) topic(op acl.Operation, name string) *kerr.Error {
	return unless(m.ask(op, acl.Topic, name), kerr.TopicAuthorizationFailed)
}

// topicByID asks for an operation on a topic that the request names by its id; nil if no topic has
// it. Who may not describe a topic gets the error of an id that does not exist (Kafka tells the two
// apart).
func (m rights) topicByID(op acl.Operation, t *metadata.Topic) *kerr.Error {
	switch {
	case m.of == nil && t != nil || t != nil && m.ask(op, acl.Topic, t.Name):
		return nil
	case t != nil && m.mayTopic(acl.Describe, t.Name):
		return kerr.TopicAuthorizationFailed
	}
	return kerr.UnknownTopicID
}

// topicRef is topic, or topicByID from the version on that names topics by id.
func (m rights) topicRef(op acl.Operation, byID bool, name string, id [16]byte) *kerr.Error {
	if byID {
		return m.topicByID(op, m.b.image().TopicByID(id))
	}
	return m.topic(op, name)
}

func (m rights) group(op acl.Operation, id string) *kerr.Error {
	return unless(m.ask(op, acl.Group, id), kerr.GroupAuthorizationFailed)
}

func (m rights) transaction(op acl.Operation, id string) *kerr.Error {
	return unless(m.ask(op, acl.TransactionalID, id), kerr.TransactionalIDAuthorizationFailed)
}

func (m rights) cluster(op acl.Operation) *kerr.Error {
	return unless(m.ask(op, acl.Cluster, acl.ClusterName), kerr.ClusterAuthorizationFailed)
}

// configs asks for reading or changing the configs of a resource.
func (m rights) configs(op acl.Operation, x resource) *kerr.Error {
	switch x.kind {
	case kmsg.ConfigResourceTypeTopic:
		return m.topic(op, x.name)
	case kmsg.ConfigResourceTypeGroupConfig:
		return m.group(op, x.name)
	}
	return m.cluster(op)
}

// create asks for creating a topic: that is a right on the cluster, or on a topic of that name.
func (m rights) create(name string) *kerr.Error {
	return unless(m.mayCluster(acl.Create) || m.ask(acl.Create, acl.Topic, name), kerr.TopicAuthorizationFailed)
}

// idempotentWrite asks for a producer id without a transactional id: who may write to any topic may
// do so idempotently (KIP-679).
func (m rights) idempotentWrite() *kerr.Error {
	return unless(m.of == nil || m.of.client.AllowedAny(acl.Write, acl.Topic) ||
		m.ask(acl.IdempotentWrite, acl.Cluster, acl.ClusterName), kerr.ClusterAuthorizationFailed)
}

// find returns a topic that the request names, by name or by id, if the client may perform an
// operation on it.
func (m rights) find(op acl.Operation, img *metadata.Image, byID bool, name string, id [16]byte) (*metadata.Topic, error) {
	if byID {
		return m.found(op, img.TopicByID(id), true, "", id)
	}
	return m.found(op, img.Topic(name), false, name, id)
}

// found is find for a topic that was looked up; nil if there is none.
func (m rights) found(op acl.Operation, t *metadata.Topic, byID bool, name string, id [16]byte) (*metadata.Topic, error) {
	var missing *kerr.Error
	if byID {
		missing = m.topicByID(op, t)
	} else {
		missing = m.topic(op, name)
	}
	switch {
	case missing == nil && t != nil:
		return t, nil
	case missing != nil && missing != kerr.UnknownTopicID:
		return nil, denied(missing)
	case byID:
		return nil, protocolErrorf(kerr.UnknownTopicID, "this broker knows no topic with id %s", metadata.FormatID(id))
	}
	// A request may name one for each of thousands of partitions, and each has a text.
	return nil, protocolErrorf(kerr.UnknownTopicOrPartition, "this broker knows no topic %q", text.Cut(name, controller.MaxNameLength))
}

// collision returns the error for a topic that can't be created, without the name of another topic
// that the client may not describe.
func (m rights) collision(name string, err error) error {
	var taken *controller.Error
	if errors.As(err, &taken) && taken.Other != "" && !m.mayTopic(acl.Describe, taken.Other) {
		return protocolErrorf(kerr.InvalidTopicException, "Topic '%s' collides with an existing topic.", name)
	}
	return err
}

// allTopics asks for an operation on each of some topics.
func (m rights) allTopics(op acl.Operation, names []string) *kerr.Error {
	for _, name := range names {
		if err := m.topic(op, name); err != nil {
			return err
		}
	}
	return nil
}

func unless(allowed bool, code *kerr.Error) *kerr.Error {
	if allowed {
		return nil
	}
	return code
}

// denied returns a missing right as the error of a part, with its text.
func denied(code *kerr.Error) error {
	if text := denialText(code); text != "" {
		return protocolErrorf(code, "%s", text)
	}
	return code
}

// denialText returns the text that a client receives for a right that it lacks, "" for other
// errors. It says nothing about the broker, its connections and its rules; Kafka's text for
// CLUSTER_AUTHORIZATION_FAILED does.
func denialText(code *kerr.Error) string {
	switch code {
	case kerr.TopicAuthorizationFailed:
		return "Topic authorization failed."
	case kerr.GroupAuthorizationFailed:
		return "Group authorization failed."
	case kerr.ClusterAuthorizationFailed:
		return "Cluster authorization failed."
	case kerr.TransactionalIDAuthorizationFailed:
		return "Transactional Id authorization failed."
	}
	return ""
}
