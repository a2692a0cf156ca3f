package membership

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/controller"
)

// Codes of a Failure. They travel between brokers.
const (
	// CodeNotLeader: the receiver does not lead the metadata, or is not ready to. Nothing was done.
	CodeNotLeader uint16 = 100
	// CodeRefused: the request contradicts what the receiver knows. To repeat it does not help.
	CodeRefused uint16 = 101
	// codeController is added to a controller.Kind.
	codeController uint16 = 200
)

// Failure is the reason for which a broker did not do what another one asked for.
type Failure struct {
	Code uint16
	Text string
}

// Error returns the text.
func (f *Failure) Error() string { return f.Text }

// Controller is the part of the controller that answers other brokers. Its methods return an error
// that matches controller.ErrNotController while this node does not lead the metadata.
type Controller interface {
	Register(ctx context.Context, q *controller.RegisterRequest) (epoch int64, err error)
	Heartbeat(ctx context.Context, h controller.Heartbeat) (controller.HeartbeatAnswer, error)
	Resign(ctx context.Context, broker int32, epoch int64, list []controller.Resigned) (revision int64, err error)
}

// Group is the Raft group of the metadata.
type Group interface {
	// AddLearner adds a member that has no vote. It returns an error that matches ErrNotLeader on
	// other nodes than the leader's.
	AddLearner(ctx context.Context, member uint64) error
}

// ErrNotLeader reports that this node does not lead the metadata.
var ErrNotLeader = errors.New("this node does not lead the metadata")

// ServerOptions configure a Server.
type ServerOptions struct {
	// State returns what this node answers to the question for its state.
	State func() State
	// Reach makes a member reachable: the metadata leader sends to it from now on.
	Reach func(Member)
	Group Group
	// Gone reports whether a member was unregistered.
	Gone func(ctx context.Context, member uint64) (bool, error)
	// Controller is nil until the node has metadata.
	Controller func() Controller
	// Version is that of the software, for the findings of other brokers.
	Version string
}

// Server answers the questions of other brokers. It is safe for concurrent use.
type Server struct {
	o ServerOptions

	mu     sync.Mutex
	wishes map[uint64]Wish // by member, of its last heartbeat
}

// NewServer returns a server.
func NewServer(o ServerOptions) *Server { return &Server{o: o, wishes: make(map[uint64]Wish)} }

// Handle answers a request of a member. It blocks until the answer is known or ctx ends. The error
// is a *Failure, or that of ctx.
func (s *Server) Handle(ctx context.Context, from uint64, method uint16, body []byte) ([]byte, error) {
	p, err := s.handle(ctx, from, method, body)
	if err == nil {
		return p, nil
	}
	refused := (*controller.Error)(nil)
	switch {
	case errors.As(err, new(*Failure)):
		return nil, err
	case errors.As(err, &refused):
		return nil, &Failure{codeController + uint16(refused.Kind), refused.Msg}
	case errors.Is(err, controller.ErrNotController), errors.Is(err, ErrNotLeader):
		return nil, &Failure{CodeNotLeader, err.Error()}
	}
	return nil, err
}

func (s *Server) handle(ctx context.Context, from uint64, method uint16, body []byte) ([]byte, error) {
	switch method {
	case MethodState:
		return encode(s.o.State()), nil
	case MethodJoin:
		q, err := decode[JoinRequest](body)
		if err != nil {
			return nil, &Failure{CodeRefused, err.Error()}
		}
		return nil, s.join(ctx, from, &q)
	}
	c := s.o.Controller()
	if c == nil {
		return nil, controller.ErrNotController
	}
	switch method {
	case MethodRegister:
		q, err := decode[controller.RegisterRequest](body)
		if err == nil && q.Member != from {
			err = fmt.Errorf("member %016x registers member %016x", from, q.Member)
		}
		if err != nil {
			return nil, &Failure{CodeRefused, err.Error()}
		}
		epoch, err := c.Register(ctx, &q)
		return encode(registered{epoch}), err
	case MethodHeartbeat:
		h, err := decode[heartbeat](body)
		if err != nil {
			return nil, &Failure{CodeRefused, err.Error()}
		}
		a, err := c.Heartbeat(ctx, h.Heartbeat)
		if err == nil {
			s.mu.Lock()
			s.wishes[from] = h.Wish
			s.mu.Unlock()
		}
		return packAnswer(a, leaderInfo{time.Now().UnixMicro(), s.o.Version}), err
	case MethodResign:
		q, err := decode[resignation](body)
		if err != nil {
			return nil, &Failure{CodeRefused, err.Error()}
		}
		revision, err := c.Resign(ctx, q.Broker, q.Epoch, q.list())
		return encode(resigned{revision}), err
	}
	return nil, &Failure{CodeRefused, fmt.Sprintf("request of the unknown method %d", method)}
}

func (s *Server) join(ctx context.Context, from uint64, q *JoinRequest) error {
	here := s.o.State()
	switch {
	case here.Cluster == "":
		return ErrNotLeader
	case q.Cluster != here.Cluster || q.Generation != here.Generation:
		return &Failure{CodeRefused, fmt.Sprintf("the broker at %s belongs to the cluster %s, and this one to %s; "+
			"start the broker that is wrong with an empty data directory", q.Member.Address, q.Cluster, here.Cluster)}
	case q.Member.ID != from:
		return &Failure{CodeRefused, fmt.Sprintf("member %016x adds member %016x", from, q.Member.ID)}
	}
	gone, err := s.o.Gone(ctx, from)
	if err != nil {
		return err
	}
	if gone {
		return &Failure{CodeRefused, fmt.Sprintf("the broker with node.id=%d was unregistered from the cluster; "+
			"start it with an empty data directory to add it as a new member", q.Member.Node)}
	}
	s.o.Reach(q.Member)
	return s.o.Group.AddLearner(ctx, from)
}

// ForgetWishes forgets what heartbeats to this node said about votes: a new term has begun, and the
// brokers may have restarted while another node led.
func (s *Server) ForgetWishes() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.wishes)
}

// Wish returns what a member's last heartbeat to this node says about votes.
func (s *Server) Wish(member uint64) Wish {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wishes[member]
}

// failure returns the Failure in an error of a request, nil if the request has failed otherwise.
func failure(err error) *Failure {
	f := (*Failure)(nil)
	if errors.As(err, &f) {
		return f
	}
	return nil
}

// refusedAs reports whether the controller refused a request for this reason.
func (f *Failure) refusedAs(k controller.Kind) bool {
	return f != nil && f.Code == codeController+uint16(k)
}

// final reports that the same request would be refused again.
func (f *Failure) final() bool {
	switch {
	case f == nil:
		return false
	case f.Code == CodeRefused:
		return true
	}
	return f.refusedAs(controller.InconsistentClusterID) || f.refusedAs(controller.UnsupportedVersion) ||
		f.refusedAs(controller.UnknownMember) || f.refusedAs(controller.InvalidRequest)
}
