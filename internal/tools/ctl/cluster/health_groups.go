package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/group"
)

// maxGroups bounds how many groups are checked.
const maxGroups = 1000

// consumers judges the groups: at once, and by their progress during x.groups. A group with members
// that makes no progress is stuck.
func (x *examination) consumers(ctx context.Context) error {
	listed, err := x.adm.ListGroups(ctx)
	if x.lacks("groups", app.BrokerError(err)) {
		return nil
	}
	if err != nil {
		remedy := ""
		if app.NotReady(err) {
			remedy = "follow the findings about groups, disks and brokers that are missing, and run it again"
		}
		return app.RefusedFor("list groups", app.BrokerError(err), "", remedy)
	}
	names := listed.Groups()
	slices.Sort(names)
	if len(names) > maxGroups {
		x.Examined(fmt.Sprintf("the first %d of %d groups", maxGroups, len(names)))
		names = names[:maxGroups]
	} else {
		x.Examined(text.Count(len(names), "group"))
	}
	before := x.progress(ctx, names)
	after := before
	if x.groups > 0 && busy(before) {
		if err := pause.Sleep(ctx, x.groups); err != nil {
			return err
		}
		after = x.progress(ctx, slices.Sorted(maps.Keys(before)))
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if now, still := after[name]; still {
			x.judgeGroup(name, before[name], now)
		}
	}
	return nil
}

// progress returns the state of groups. It omits groups that were deleted in the meantime.
func (x *examination) progress(ctx context.Context, names []string) map[string]group.Progress {
	all := map[string]group.Progress{}
	for _, name := range names {
		s, err := group.Describe(ctx, x.a, x.adm, name)
		if err == nil {
			all[name] = s
		}
		x.lacks("group "+name, err)
	}
	return all
}

// busy reports whether a second sample can differ.
func busy(all map[string]group.Progress) bool {
	for _, s := range all {
		if s.Members > 0 {
			return true
		}
	}
	return false
}

func (x *examination) judgeGroup(name string, before, now group.Progress) {
	where, show := "group "+name, health.Command("chronikctl", "group", "describe", name)+" shows its members"
	switch {
	case x.has("group", func(f *health.Finding) bool { return f.IsAboutGroup(name) }):
		// The broker has watched it for longer.
	case x.groups > 0 && strings.Contains(now.State, "Rebalance") && before.State == now.State:
		x.Add("group", health.Warn, where,
			fmt.Sprintf("it was rebalancing (%s) the whole %v: a member joins and leaves, or does not come back", now.State, x.groups),
			show+"; check the logs of those that come and go")
	case x.groups > 0 && now.Members > 0 && before.Members > 0 && now.Lag > 0 && now.Committed == before.Committed:
		x.Add("group", health.Warn, where, fmt.Sprintf("it has %s and is %s behind, but committed nothing in %v",
			text.Count(now.Members, "member"), text.Count(now.Lag, "record"), x.groups),
			show+"; one of them hangs, or commits rarely: "+health.Command("chronikctl", "cluster", "health", "--groups", "1m")+
				" watches longer")
	case now.Members == 0 && now.Lag > 0:
		x.Add("group", health.Note, where, fmt.Sprintf("it has no member, and it is %s behind", text.Count(now.Lag, "record")),
			"start its consumers; if it is no longer needed, "+health.Command("chronikctl", "group", "delete", name))
	}
}
