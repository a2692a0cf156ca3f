package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/admin/page"
	"github.com/chronik-io/chronik/internal/coordinator/service"
)

// groupTime bounds how long a page waits for the group coordinator.
const groupTime = 2 * time.Second

// Groups implements page.Source.
func (s *source) Groups(ctx context.Context) ([]page.Group, error) {
	v, err := s.view()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, groupTime)
	defer cancel()
	now, report := v.Groups.Overview(ctx), s.o.Health.Report(ctx)
	lag := map[string]int64{}
	for _, l := range now.Lags {
		lag[l.Group] += l.Records
	}
	list := make([]page.Group, 0, len(now.Groups))
	for i := range now.Groups {
		g := &now.Groups[i]
		x := page.Group{ID: g.Group, Kind: g.GroupType, State: g.GroupState, Lag: lag[g.Group]}
		for _, f := range findingsOf(report, aboutGroup(g.Group)) {
			if x.Severity == "" {
				x.Severity, x.Problem = f.Severity, f.Problem
			}
		}
		list = append(list, x)
	}
	return list, nil
}

// aboutGroup returns a function that reports whether a subject is the group.
func aboutGroup(id string) func(string) bool {
	return func(subject string) bool { return subject == "group "+id }
}

// Group implements page.Source.
func (s *source) Group(ctx context.Context, id string) (page.GroupDetail, error) {
	v, err := s.view()
	if err != nil {
		return page.GroupDetail{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, groupTime)
	defer cancel()
	found, ok, err := v.Groups.Describe(ctx, id)
	switch {
	case err != nil:
		return page.GroupDetail{}, fmt.Errorf("describe the group: %w", err)
	case !ok:
		return page.GroupDetail{}, page.NotFound("This broker coordinates no group %q", id)
	}
	d := page.GroupDetail{Group: page.Group{ID: id, Kind: found.Kind, State: found.State}, Assignor: found.Assignor}
	if d.Findings = findingsOf(s.o.Health.Report(ctx), aboutGroup(id)); len(d.Findings) > 0 {
		d.Severity = d.Findings[0].Severity
	}
	for _, m := range found.Members {
		d.Members = append(
			d.Members,
			page.Member{ID: m.ID, Instance: m.Instance, ClientID: m.ClientID, Host: m.Host, Assigned: assignedText(m.Assigned)},
		)
	}
	slices.SortFunc(d.Members, func(a, b page.Member) int {
		return cmp.Or(cmp.Compare(a.ClientID, b.ClientID), cmp.Compare(a.ID, b.ID))
	})
	for _, o := range found.Offsets {
		x := page.Offset{Topic: o.Topic, Partition: o.Partition, Committed: o.Committed, End: o.End, Lag: -1}
		if o.End >= 0 {
			x.Lag = max(o.End-o.Committed, 0)
			d.Lag += x.Lag
		}
		d.Offsets = append(d.Offsets, x)
	}
	return d, nil
}

// maxAssigned is the maximum number of topics that are shown of a member's assignment.
const maxAssigned = 20

// assignedText returns a member's assignment as a text for each topic: "orders 0-3, 7".
func assignedText(assigned map[string][]int32) []string {
	var list []string
	for i, topic := range slices.Sorted(maps.Keys(assigned)) {
		if i == maxAssigned {
			return append(list, fmt.Sprintf("and %d more topics", len(assigned)-i))
		}
		list = append(list, topic+" "+rangesText(assigned[topic]))
	}
	return list
}

// rangesText joins consecutive numbers: "0-3, 7". It stops after 50 ranges.
func rangesText(numbers []int32) string {
	numbers = slices.Sorted(slices.Values(numbers))
	var parts []string
	for i := 0; i < len(numbers); {
		first := numbers[i]
		for i++; i < len(numbers) && numbers[i] <= numbers[i-1]+1; i++ {
		}
		text := strconv.Itoa(int(first))
		if last := numbers[i-1]; last > first {
			text += "-" + strconv.Itoa(int(last))
		}
		if parts = append(parts, text); len(parts) == 50 && i < len(numbers) {
			parts = append(parts, "…")
			break
		}
	}
	return strings.Join(parts, ", ")
}

// Groups is the part of the group coordinator that the port uses.
type Groups interface {
	Overview(context.Context) service.GroupOverview
	Describe(ctx context.Context, id string) (*service.GroupDescription, bool, error)
}
