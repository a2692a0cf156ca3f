package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/sorts"
)

// Times of a node that has no metadata yet.
const (
	// askTime bounds a question to one seed; askPause is the pause between two rounds of questions.
	askTime  = 2 * time.Second
	askPause = 200 * time.Millisecond
	// joinTime bounds a request to be added, and joinEvery is the pause until it is repeated: the
	// metadata leader may have changed and not know this node's address.
	joinTime  = 10 * time.Second
	joinEvery = time.Second
	// refuseAfter is how long the answers must have contradicted each other. A broker may be about
	// to end whose successor uses its node.id; and the other side must get the time to notice the
	// contradiction, too, instead of waiting for a node that has ended.
	refuseAfter = 3 * time.Second
	// beginAfter is how long a node that alone has the metadata of its cluster asks seeds that do
	// not answer: they may belong to another one.
	beginAfter = 3 * time.Second
)

// ErrRefused is matched by errors after which the start must end: the configuration or a directory
// is wrong. Their text has the cause and a remedy.
var ErrRefused = errors.New("the broker can't be a member of this cluster")

type refusal string

func (r refusal) Error() string     { return string(r) }
func (r refusal) Is(err error) bool { return err == ErrRefused }

// Refused returns an error that matches ErrRefused. Its text must have the cause and a remedy.
func Refused(why string) error { return refusal(why) }

// Unconnected is the error of a question to a seed to which no connection can be made: the reason.
type Unconnected string

func (u Unconnected) Error() string { return string(u) }

// Seeds asks the nodes of cluster.seeds.
type Seeds interface {
	// AskSeed sends a request to a seed. rejected is why the seed and this node do not talk to each
	// other, empty if they may. The error is Unconnected if no connection can be made.
	AskSeed(ctx context.Context, seed string, method uint16, body []byte) (answer []byte, rejected string, err error)
	// Call sends a request to a member.
	Call(ctx context.Context, member uint64, method uint16, body []byte) ([]byte, error)
	// Reach makes a member reachable for Call.
	Reach(Member)
}

// EnterOptions configure Enter.
type EnterOptions struct {
	List  []string // cluster.seeds
	Seeds Seeds
	// Self returns this node's State. It shows what Note has set.
	Self func() State
	// Note sets what State.Seen is from now on.
	Note func(seen string)
	// Bootstrap writes the first metadata. It returns nil if the node has voted already: it then
	// gets them from the leader.
	Bootstrap func(generation metadata.ID, voters []uint64, keys []metadata.KV) error
	// HasMetadata waits until the node has metadata, at most for the given time.
	HasMetadata func(ctx context.Context, most time.Duration) bool
	// Alone reports whether no other broker can have the metadata that this node has.
	Alone func() bool
	// Progress is called with what the node waits for.
	Progress func(string)
}

// Enter makes a node without metadata part of a cluster. It returns when the node has metadata. If
// it alone has them, Enter first makes sure that no seed belongs to another cluster, as far as the
// seeds answer. It blocks until all that is needed answers; ctx ends it. An error matches
// ErrRefused, or is that of ctx or of Bootstrap.
func Enter(ctx context.Context, o EnterOptions) error {
	began := time.Now()
	var refused time.Time // since when, zero if the last answers fit
	var contradiction Decision
	for {
		if o.HasMetadata(ctx, 0) && !o.Alone() { // the node is a member already, or a leader sent its metadata
			return nil
		}
		d := Decide(o.Self(), Ask(ctx, o.Seeds, o.List))
		o.Note(d.Seen)
		if d.Step == Begin && !d.Complete && !refused.IsZero() {
			d = contradiction // a seed that is silent now has not taken it back
		}
		if d.Step != Refuse {
			refused = time.Time{}
		}
		switch d.Step {
		case Refuse:
			if refused.IsZero() {
				refused = time.Now()
			}
			contradiction = d
			if time.Since(refused) >= refuseAfter {
				return Refused(d.Why)
			}
			o.Progress(d.Why)
		case Form:
			if err := o.Bootstrap(d.Generation, d.voters(), FirstKeys(d.Cluster, d.Generation)); err != nil {
				return err
			}
			o.Progress("waiting for the metadata leader of cluster " + d.Cluster)
			if o.HasMetadata(ctx, joinEvery) {
				return nil
			}
		case Begin:
			if !d.Complete && time.Since(began) < beginAfter {
				o.Progress("waiting for seeds: " + d.Why)
				break
			}
			return nil
		case Join:
			o.Progress("waiting for the metadata leader of cluster " + d.Cluster + d.Gone)
			if err := join(ctx, &o, &d); err != nil {
				return err
			}
			if o.HasMetadata(ctx, joinEvery) {
				return nil
			}
		case Wait:
			o.Progress("waiting for seeds: " + d.Why)
		}
		if err := sleep(ctx, askPause); err != nil {
			return err
		}
	}
}

// Ask asks all seeds for their State, at once.
func Ask(ctx context.Context, seeds Seeds, list []string) []Answer {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	answers := make([]Answer, len(list))
	var all sync.WaitGroup
	for i, seed := range list {
		answers[i].Seed = seed
		all.Go(func() {
			p, rejected, err := seeds.AskSeed(ctx, seed, MethodState, nil)
			answers[i].Rejected = rejected
			if u := Unconnected(""); errors.As(err, &u) {
				answers[i].Unconnected = string(u)
			}
			if err != nil || rejected != "" {
				return
			}
			if s, err := decode[State](p); err == nil {
				answers[i].State = &s
			}
		})
	}
	all.Wait()
	return answers
}

// Reasons returns the answers of the seeds that know no metadata leader.
func Reasons(answers []Answer) string {
	var list []string
	for _, a := range answers {
		if a.Rejected != "" {
			list = append(list, a.Seed+": "+a.Rejected)
		}
	}
	if why := unanswered(answers); why != "" {
		list = append(list, why)
	}
	if len(list) == 0 {
		return "all seeds answer, and an election is in progress, or lacks a majority of the voters"
	}
	return strings.Join(list, "; ")
}

// unanswered names the seeds that do not answer, with the reasons why no connection can be made,
// each reason once; empty if there are none.
func unanswered(answers []Answer) string {
	var list []string
	for i, a := range answers {
		same := func(b Answer) bool { return b.State == nil && b.Rejected == "" && b.Unconnected == a.Unconnected }
		if !same(a) || slices.ContainsFunc(answers[:i], same) {
			continue
		}
		var seeds []string
		for _, b := range answers {
			if same(b) {
				seeds = append(seeds, b.Seed)
			}
		}
		text := "no answer from " + strings.Join(seeds, ", ")
		if a.Unconnected != "" {
			text += " (" + a.Unconnected + ")"
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

// join asks the members of a cluster, one after the other, to add this node.
func join(ctx context.Context, o *EnterOptions, d *Decision) error {
	body := encode(JoinRequest{d.Cluster, d.Generation, o.Self().Self})
	for _, m := range d.Contacts {
		o.Seeds.Reach(m)
		within, cancel := context.WithTimeout(ctx, joinTime)
		_, err := o.Seeds.Call(within, m.ID, MethodJoin, body)
		cancel()
		if f := failure(err); f.final() {
			return Refused(f.Text)
		}
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (d *Decision) voters() []uint64 {
	ids := make([]uint64, 0, len(d.Members))
	for _, m := range d.Members {
		ids = append(ids, m.ID)
	}
	sorts.Sort(ids, cmp.Compare)
	return ids
}

// FirstKeys returns the first metadata of a cluster. Every member must write the same.
func FirstKeys(cluster string, generation metadata.ID) []metadata.KV {
	keys := metadata.First(metadata.NewCluster(cluster, generation))
	for i := range keys {
		keys[i].ModRevision = 1
	}
	return keys
}

// sleep waits unless ctx ends, whose error it returns.
func sleep(ctx context.Context, d time.Duration) error {
	if err := pause.Sleep(ctx, d); err != nil {
		return fmt.Errorf("become a member of the cluster: %w", err)
	}
	return nil
}
