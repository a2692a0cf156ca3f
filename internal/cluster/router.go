package cluster

import (
	"context"
	"errors"
	"slices"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/link"
	"github.com/chronik-io/chronik/internal/membership"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/network"
)

// Methods of the metadata lane. Those below methodRaft are membership's, those from Transactions on
// are Subjects.
const (
	methodRaft     uint16 = 16 // a message for raftstore.Store.Receive
	methodMetadata uint16 = 17 // a request for raftstore.Store.Handle

	// An Operator asks the metadata leader for what clients ask of any broker. The requests and
	// answers are JSON; a receiver ignores fields that it does not know.
	methodQuorum     uint16 = 32
	methodUnregister uint16 = 33
	methodElect      uint16 = 34
	methodSnapshots  uint16 = 37
	methodSnapshot   uint16 = 38
	// The controller asks a broker for the ends of logs, before an unclean election.
	methodReports uint16 = 35
	// Brokers ask each other for their health reports. The request is health.Digest of the last
	// one, or empty, and the answer is that of health.Report.Encode, or the same digest. It needs
	// neither a controller nor metadata, so that connected brokers know each other's findings.
	methodHealth uint16 = 36
)

// urgent are the methods whose requests do not wait behind others: without its heartbeats a broker
// is fenced, however well it works.
func urgent(method uint16) bool { return method == membership.MethodHeartbeat }

// router hands what other brokers send on the metadata lane to the component that it is for.
type router struct {
	operator *Operator
	store    *raftstore.Store
	server   *membership.Server
	reports  func(body []byte) ([]byte, error)
	subject  func(ctx context.Context, from int32, method uint16, body []byte) (answer []byte, is bool, err error)
	health   func(ctx context.Context, known []byte) ([]byte, error)
	heard    func(node int32) // of each heartbeat
	log      *zap.Logger
}

// Message implements link.Handler.
func (r *router) Message(from link.Hello, method uint16, body []byte) {
	if method != methodRaft {
		return // a newer release may send others
	}
	if err := r.store.Receive(from.Member, body); err != nil {
		r.log.Debug("metadata message refused", zap.Int32("node", from.Node), zap.Error(err))
	}
}

// Request implements link.Handler.
func (r *router) Request(ctx context.Context, from link.Hello, method uint16, body []byte) ([]byte, error) {
	if method == methodMetadata {
		return r.store.Handle(ctx, from.Member, slices.Clone(body))
	}
	if method == methodReports {
		return r.reports(body)
	}
	if answer, is, err := r.subject(ctx, from.Node, method, body); is {
		return answer, err
	}
	if method == methodHealth {
		return r.health(ctx, body)
	}
	if method >= methodQuorum {
		return r.operator.handle(ctx, method, body)
	}
	if method == membership.MethodHeartbeat {
		r.heard(from.Node)
	}
	answer, err := r.server.Handle(ctx, from.Member, method, body)
	if f := (*membership.Failure)(nil); errors.As(err, &f) {
		return nil, &link.RemoteError{Code: f.Code, Text: f.Text}
	}
	return answer, err
}

// accept is the handler of network's requests with which other brokers begin their connections.
type accept struct{ links *link.Links }

// Handle implements network.Handler.
func (a accept) Handle(r *network.Request) {
	hello, principal := slices.Clone(r.Body), r.Session.Principal
	nc, err := r.Hijack()
	if err != nil {
		r.Abort(err)
		return
	}
	a.links.Accept(nc, principal, hello)
}
