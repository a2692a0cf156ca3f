package group

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// typeShare is the type of share groups (KIP-932).
const typeShare = "share"

// share is what the leader of a partition knows of a share group, on a broker of chronik whose
// admin port answers.
type share struct {
	InFlight    int64 `json:"inFlight"`  // held by members
	Available   int64 `json:"available"` // delivered before
	Archiving   int64 `json:"archiving"` // wait for their copy as dead letters
	Redelivered int64 `json:"redelivered"`
	Archived    int64 `json:"archived"` // rejected, or at the delivery limit
}

// shares describes as share groups those that are neither consumer groups nor classic ones. What is
// none of them keeps its error. The positions are those of share coordinators.
func shares(ctx context.Context, a *app.App, adm *kadm.Client, found map[string]*described, failed map[string]error) {
	var names []string
	for name, err := range failed {
		if errors.Is(err, kerr.GroupIDNotFound) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return // without names the client describes all groups
	}
	groups, err := adm.DescribeShareGroups(ctx, names...)
	if err != nil && len(groups) == 0 {
		return // a broker without share groups
	}
	names = names[:0]
	for name, g := range groups {
		if g.Err == nil {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	offsets, err := adm.DescribeShareGroupOffsets(ctx, names...)
	for _, name := range names {
		o, known := offsets[name]
		switch {
		case !known && err != nil:
			failed[name] = app.Refused("offsets of group "+name, app.BrokerError(err), "")
		case o.Err != nil:
			failed[name] = app.Refused("offsets of group "+name, o.Err, "")
		default:
			d := sharedOf(groups[name], o.Offsets)
			d.inFlight(ctx, a)
			found[name] = d
			delete(failed, name)
		}
	}
}

func sharedOf(g kadm.DescribedShareGroup, offsets kadm.ShareOffsets) *described {
	epoch := g.GroupEpoch
	d := &described{Group: g.GroupID, State: g.GroupState, Type: typeShare, Assignor: g.Assignor, Epoch: &epoch,
		Coordinator: g.Coordinator.NodeID, Members: []member{}, Partitions: []partition{}}
	for _, m := range g.Members {
		d.Members = append(d.Members, member{m.MemberID, "", m.ClientID, m.ClientHost, assignment(m.Assignment)})
	}
	for _, o := range offsets.Sorted() {
		p := partition{Topic: o.Topic, Partition: o.Partition, shared: true}
		switch {
		case o.Err != nil:
			p.Error = o.Err.Error()
		case o.StartOffset >= 0:
			p.Committed = &o.StartOffset
			if o.Lag >= 0 {
				p.Lag = &o.Lag
			}
		}
		d.Partitions = append(d.Partitions, p)
	}
	d.sort()
	return d
}

// inFlight adds what the leaders know, if the admin port answers.
func (d *described) inFlight(ctx context.Context, a *app.App) {
	port := app.AdminPortOf(a)
	if port == nil {
		return
	}
	byTopic := map[string][]*partition{}
	for i := range d.Partitions {
		byTopic[d.Partitions[i].Topic] = append(byTopic[d.Partitions[i].Topic], &d.Partitions[i])
	}
	for topic, list := range byTopic {
		led, err := port.Shares(ctx, d.Group, topic)
		if err != nil {
			return // of another broker, or an older one
		}
		for _, p := range list {
			if int(p.Partition) >= len(led.Partitions) {
				continue
			}
			if l := &led.Partitions[p.Partition]; l.Error != "" {
				p.Error = l.Error
			} else {
				p.Share = &share{l.Acquired, l.Available, l.Archiving, l.Redelivered, l.Archived}
			}
		}
	}
}

// shareTable formats the partitions of a share group.
func (d *described) shareTable(title string) *output.Table {
	t := &output.Table{Title: title, Empty: "no positions",
		Columns: []string{"TOPIC", "PARTITION#", "POSITION#", "+START#", "END#", "LAG#", "IN-FLIGHT#", "+AVAILABLE#", "REDELIVERED#",
			"ARCHIVED#", "+ARCHIVING#", "+ERROR"}}
	for _, p := range d.Partitions {
		n := [5]string{"-", "-", "-", "-", "-"}
		if s := p.Share; s != nil {
			for i, x := range []int64{s.InFlight, s.Available, s.Redelivered, s.Archived, s.Archiving} {
				n[i] = fmt.Sprint(x)
			}
		}
		t.Add(p.Topic, p.Partition, known(p.Committed), known(p.Start), known(p.End), known(p.Lag), n[0], n[1], n[2], n[3], n[4], p.Error)
	}
	return t
}

// alter sets the positions of a share group.
func alter(ctx context.Context, adm *kadm.Client, name string, moves []move) (result func(m *move) error, err error) {
	ask := kadm.Offsets{}
	for _, m := range moves {
		ask.AddOffset(m.Topic, m.Partition, m.To, -1)
	}
	answers, err := adm.AlterShareGroupOffsets(ctx, name, ask)
	return func(m *move) error {
		if err, ok := answers.Lookup(m.Topic, m.Partition); ok {
			return err
		}
		return kerr.UnknownServerError
	}, err
}

// forgetShared deletes the positions of a share group in topics.
func forgetShared(ctx context.Context, a *app.App, adm *kadm.Client, d *described, only map[string][]int32, dryRun bool) error {
	var out app.Outcomes
	var losses, topics []string
	for _, topic := range slices.Sorted(maps.Keys(only)) {
		if len(only[topic]) > 0 {
			return app.Usage("group %s is a share group, whose positions in a topic are deleted together; write --topic %s", d.Group, topic)
		}
		n := 0
		for _, p := range d.Partitions {
			if p.Topic == topic && !p.unread {
				n++
			}
		}
		if n == 0 {
			out.Failed(topic, fmt.Errorf("delete offsets of group %s: it has none of %s; chronikctl group describe shows those it has",
				d.Group, topic))
			continue
		}
		topics = append(topics, topic)
		losses = append(losses, topic+": "+text.Count(n, "position"))
		if dryRun {
			out.Done(topic, "would be forgotten: %s", text.Count(n, "position"))
		}
	}
	if dryRun || len(topics) == 0 {
		return a.PrintOutcomes(&out)
	}
	if err := a.Confirm(fmt.Sprintf("forget %s of group %s", text.Count(len(topics), "topic"), d.Group), exportFirst, losses); err != nil {
		return err
	}
	answers, err := adm.DeleteShareGroupOffsets(ctx, d.Group, topics...)
	if err != nil {
		return app.Refused("delete offsets of group "+d.Group, app.BrokerError(err), "")
	}
	for _, topic := range topics {
		err, ok := answers.Lookup(topic)
		if !ok {
			err = kerr.UnknownServerError
		}
		if err != nil {
			out.Refused(topic, "delete offsets of group "+d.Group+": "+topic, err, "")
			continue
		}
		out.Done(topic, "forgotten")
	}
	return a.PrintOutcomes(&out)
}
