package controller

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
)

const (
	// balanceInterval is the time between two elections of preferred leaders, and settleTime the
	// pause after a broker became active: its replicas join the ISR first.
	balanceInterval = 300 * time.Second
	settleTime      = 10 * time.Second
	// balanceStep is how many partitions one step changes, and balancePause the time between two
	// steps: each change interrupts the clients of its partition for a moment.
	balanceStep  = 50
	balancePause = time.Second
)

// balance elects preferred leaders, and adds replicas to internal topics, a few partitions at a
// time. It confirms deletions in place of brokers that are gone.
func (l *Loop) balance(ctx context.Context, now time.Duration) error {
	var errs []error
	if l.opt.Balance && now >= l.balanceAt {
		errs = append(errs, l.prefer(ctx, now))
	}
	if now >= l.raiseAt {
		errs = append(errs, l.raise(ctx, now), l.confirmGone(ctx, l.store))
	}
	return errors.Join(errs...)
}

// prefer elects preferred leaders.
func (l *Loop) prefer(ctx context.Context, now time.Duration) error {
	changes, more, later := preferred(l.known(), balanceStep)
	switch {
	case more:
		l.balanceAt = now + balancePause
	case later:
		l.balanceAt = now + settleTime
	default:
		l.balanceAt = now + balanceInterval
	}
	return l.submit(ctx, "preferred leaders elected", changes)
}

// submit writes changes and waits until an image shows them. It logs how many there are.
func (l *Loop) submit(ctx context.Context, what string, changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	revision, err := submit(ctx, l.store, changes)
	if err == nil {
		l.opt.Log.Info(what, zap.Int("partitions", len(changes)))
		err = l.opt.Images.WaitShown(ctx, revision)
	}
	return err
}

// preferred returns at most a number of changes that make preferred replicas the leaders. more
// reports that there are others, and later that a preferred replica could lead but is not in sync
// yet.
func preferred(known knowledge, most int) (changes []change, more, later bool) {
	for t := range known.img.Topics() {
		for i, p := range t.Partitions.All() {
			first := p.Replicas[0]
			if p.Leader == first || p.Leader == election.None || p.Reassigning() {
				continue
			}
			tp := metadata.TopicPartition{Topic: t.ID, Partition: i}
			v := known.of(tp)
			next, changed := election.Decider{View: v}.Prefer(*p)
			switch {
			case !changed:
				later = later || v.Active(first) && v.Writes(first)
			case len(changes) == most:
				return changes, true, later
			default:
				changes = append(changes, newChange(known.img, tp, p, next))
			}
		}
	}
	return changes, false, later
}

// raise begins reassignments that add replicas to the partitions of internal topics that were
// created before there were enough brokers.
func (l *Loop) raise(ctx context.Context, now time.Duration) error {
	known := l.known()
	img := known.img
	l.raiseAt = now + sweepInterval
	var changes []change
	for t := range img.Topics() {
		if !t.Internal {
			continue
		}
		for i, p := range t.Partitions.All() {
			tp := metadata.TopicPartition{Topic: t.ID, Partition: i}
			target := raised(img, p, i, DefaultReplicas(img, l.opt.InternalReplicas[t.Name], l.opt.Seeds))
			if target == nil || len(changes) == balanceStep {
				continue
			}
			d := election.Decider{View: known.of(tp), MinISR: l.opt.MinISR(img, t, p)}
			if next, ok := d.Reassign(*p, target); ok {
				changes = append(changes, newChange(img, tp, p, next))
			}
		}
	}
	return l.submit(ctx, "adding replicas to internal topics", changes)
}

// raised returns the replicas with which a partition has a number of them, nil if it has, is being
// reassigned, or there are too few brokers that take partitions. Those of consecutive partitions
// begin with different brokers, so that the leaders are also spread.
func raised(img *metadata.Image, p *metadata.Partition, index int32, factor int) []int32 {
	if len(p.Replicas) >= factor || p.Reassigning() {
		return nil
	}
	var others []int32 // that take partitions, the ones in racks without a replica first
	racks := map[string]bool{}
	for _, r := range p.Replicas {
		if b, ok := img.Broker(r); ok {
			racks[b.Rack] = true
		}
	}
	list := img.Brokers()
	for _, fresh := range [...]bool{true, false} {
		for k := range list {
			b := &list[(k+int(index))%len(list)]
			if TakesPartitions(img, b.ID) && !p.HasReplica(b.ID) && !slices.Contains(others, b.ID) && racks[b.Rack] != fresh {
				others = append(others, b.ID)
				racks[b.Rack] = true
			}
		}
	}
	missing := factor - len(p.Replicas)
	if len(others) < missing {
		return nil
	}
	target := slices.Concat(p.Replicas, others[:missing])
	slices.Sort(target)
	at := int(index) % len(target)
	return slices.Concat(target[at:], target[:at])
}
