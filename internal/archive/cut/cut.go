// Package cut takes the consistent cut of a cluster on which a snapshot is based: it freezes all
// brokers, marks the metadata, and decides whether the cuts that the brokers returned belong
// together.
//
// A cut that does not is void, and nothing has to be undone: the next attempt begins again. Each
// broker thaws when Take returns, and after replica.MaxFreeze at the latest. The package reads
// images of the metadata and calls brokers through an interface; it knows neither connections nor
// stores, and does not commit the mark.
package cut

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
)

// ErrVoid marks a cut whose parts do not belong together. The next attempt may succeed.
var ErrVoid = errors.New("the cut is void")

// patience is how long brokers may stay frozen until the mark. It is well below replica.MaxFreeze,
// so that a cut that takes long is given up and not only refused at the end.
const patience = 250 * time.Millisecond

// Participant is a broker of the cluster, perhaps another process. Its calls end with their
// context.
type Participant interface {
	// Freeze calls replica.Manager.Freeze when the broker has applied a revision of the metadata.
	// It fails if that refuses the id.
	Freeze(ctx context.Context, id replica.FreezeID, revision int64) ([]replica.Cut, error)
	// Frozen returns what replica.Manager.Frozen does.
	Frozen(ctx context.Context, id replica.FreezeID) (bool, error)
	// Thaw calls replica.Manager.Thaw. It does not wait.
	Thaw(id replica.FreezeID)
}

// Log is the cut of a partition.
type Log struct {
	replica.Cut
	// Leader is the broker whose log is cut; -1: none, the partition is Offline.
	Leader int32
}

// Cluster is the consistent cut of a cluster.
type Cluster struct {
	// Image is the metadata of the snapshot.
	Image *metadata.Image
	// Logs has each partition of Image, in the order of the topics' names. Those that are Offline
	// have no leader, or one that cannot read the log.
	Logs []Log
}

// member is a broker that may lead partitions: its id and its registration.
type member struct {
	id    int32
	epoch int64
}

// members returns the brokers that may lead partitions. One that is fenced and still runs is not
// among them: without a lease it acknowledges only what its in-sync followers have.
func members(m *metadata.Image) (list []member) {
	for _, b := range m.Brokers() {
		switch live, _ := m.Liveness(b.ID); live {
		case metadata.Active, metadata.Draining, metadata.Drained:
			list = append(list, member{b.ID, b.Epoch})
		}
	}
	return list
}

// Take takes a cut. image is the newest image of the controller; broker returns a member of it.
// mark commits the mark and reads the metadata of its revision or a later one: until the brokers
// have confirmed their freeze, no later change is an effect of what is not in the cut. It returns
// what loads the image, which is called when the brokers are thawed: a large one takes long. id
// must be above those of all earlier cuts. Errors match ErrVoid, or are those of mark. The brokers
// are thawed when Take returns, or after replica.MaxFreeze.
func Take(ctx context.Context, id replica.FreezeID, image *metadata.Image, broker func(id int32) Participant,
	mark func(context.Context) (load func() (*metadata.Image, error), err error)) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	asked := members(image)
	brokers := make([]Participant, len(asked))
	for i, m := range asked {
		brokers[i] = broker(m.id)
	}
	thaw := sync.OnceFunc(func() {
		for _, b := range brokers {
			b.Thaw(id)
		}
	})
	defer thaw()
	cuts, err := all(brokers, func(b Participant) ([]replica.Cut, error) { return b.Freeze(ctx, id, image.Version()) })
	if err != nil {
		return nil, fmt.Errorf("%w: freeze: %w", ErrVoid, err)
	}
	reports := make(map[int32][]replica.Cut, len(asked))
	for i, m := range asked {
		reports[m.id] = cuts[i]
	}
	load, err := mark(ctx)
	if err != nil {
		return nil, fmt.Errorf("mark a snapshot: %w", err)
	}
	// After the mark: a broker that answers now was frozen when the mark was committed.
	frozen, err := all(brokers, func(b Participant) (bool, error) { return b.Frozen(ctx, id) })
	if err != nil {
		return nil, fmt.Errorf("%w: confirm: %w", ErrVoid, err)
	}
	if i := slices.Index(frozen, false); i >= 0 {
		return nil, fmt.Errorf("%w: broker %d was not frozen until the mark", ErrVoid, asked[i].id)
	}
	thaw()
	marked, err := load()
	if err != nil {
		return nil, fmt.Errorf("read the metadata of a snapshot: %w", err)
	}
	return judge(image, marked, reports)
}

// all calls every broker at the same time, and returns their answers or their errors.
func all[T any](brokers []Participant, call func(Participant) (T, error)) ([]T, error) {
	answers, errs := make([]T, len(brokers)), make([]error, len(brokers))
	done := make(chan struct{}, len(brokers))
	for i, b := range brokers {
		go func() {
			label.Goroutine("snapshot cut", "")
			answers[i], errs[i] = call(b)
			done <- struct{}{}
		}()
	}
	for range brokers {
		<-done
	}
	return answers, errors.Join(errs...)
}

// judge returns the cluster's cut if the reports of the members of the image asked belong to the
// image of the mark.
func judge(asked, marked *metadata.Image, reports map[int32][]replica.Cut) (*Cluster, error) {
	if before, now := members(asked), members(marked); !slices.Equal(before, now) {
		return nil, fmt.Errorf("%w: the brokers and their registrations were %v, and at the mark %v", ErrVoid, before, now)
	}
	type key struct {
		metadata.TopicPartition
		broker int32
	}
	cuts, reported := map[key]replica.Cut{}, map[metadata.TopicPartition]bool{}
	for id, list := range reports {
		for _, c := range list {
			cuts[key{c.TopicPartition, id}], reported[c.TopicPartition] = c, true
		}
	}
	x := &Cluster{Image: marked}
	for t := range marked.Topics() {
		for i, p := range t.Partitions.All() {
			tp := metadata.TopicPartition{Topic: t.ID, Partition: i}
			leader := p.Leader
			c, ok := cuts[key{tp, leader}]
			_, leads := reports[leader]
			switch {
			case !leads: // no broker, or one that is fenced
				c, leader = replica.Cut{TopicPartition: tp, Epoch: p.LeaderEpoch, Offline: true}, -1
			case ok && c.Epoch == p.LeaderEpoch:
			case !reported[tp] && asked.Partition(tp) == nil: // created since: nothing in it is visible
				c = replica.Cut{TopicPartition: tp, Epoch: p.LeaderEpoch}
			default:
				return nil, fmt.Errorf("%w: broker %d leads %s-%d in epoch %d, and has not reported that", ErrVoid, leader, t.Name, i,
					p.LeaderEpoch)
			}
			x.Logs = append(x.Logs, Log{c, leader})
		}
	}
	return x, nil
}
