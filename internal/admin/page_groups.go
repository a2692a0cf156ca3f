package admin

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/admin/page"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/view"
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
	var shares []*view.Group
	for i := range now.List {
		if g := &now.List[i]; g.Kind == "share" {
			shares = append(shares, g)
		}
	}
	v.Groups.AddPositions(ctx, shares)
	list := make([]page.Group, 0, len(now.List))
	for i := range now.List {
		x := page.Group{Group: now.List[i]}
		for _, f := range findingsOf(report, aboutGroup(x.ID)) {
			if x.Severity == "" {
				x.Severity, x.Problem = f.Severity, f.Problem
			}
		}
		list = append(list, x)
	}
	return list, nil
}

// aboutGroup returns a function that reports whether a finding is about the group.
func aboutGroup(id string) func(*health.Finding) bool {
	return func(f *health.Finding) bool { return f.IsAboutGroup(id) }
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
	d := page.GroupDetail{Group: page.Group{Group: *found}}
	if d.Findings = findingsOf(s.o.Health.Report(ctx), aboutGroup(id)); len(d.Findings) > 0 {
		d.Severity, d.Problem = d.Findings[0].Severity, d.Findings[0].Problem
	}
	sorts.Sort(d.Members, func(a, b view.GroupMember) int {
		return cmp.Or(cmp.Compare(a.ClientID, b.ClientID), cmp.Compare(a.ID, b.ID))
	})
	return d, nil
}

// Groups is the part of the group coordinator that the port uses.
type Groups interface {
	Overview(context.Context) view.Groups
	Describe(ctx context.Context, id string) (*view.Group, bool, error)
	// AddPositions adds the positions of share groups, which Overview does not have.
	AddPositions(ctx context.Context, groups []*view.Group)
	LedShares(ctx context.Context, id, topic string) (view.LedShares, bool)
}
