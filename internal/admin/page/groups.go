package page

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/view"
)

// groupsBody is the list of groups.
type groupsBody struct{ listing[Group] }

func (p *Page) groups(r *http.Request, _ *Status) (content, string, error) {
	all, err := p.src.Groups(r.Context())
	if err != nil {
		return nil, "", err
	}
	q, id := r.URL.Query(), func(x *Group) string { return x.ID }
	body := &groupsBody{filtered(all, q, id)}
	body.show("/groups", "lag", q, []field[Group]{
		{"id", "Group", "", false, by(id)},
		{"state", "State", "", false, func(a, b *Group) int {
			return cmp.Or(cmp.Compare(weight(b.Severity), weight(a.Severity)), cmp.Compare(a.State, b.State))
		}},
		{"lag", "Lag", "num", true, by(func(x *Group) int64 { return x.Lag })},
		{"kind", "Protocol", "opt", false, by(func(x *Group) string { return x.Kind })},
	}, by(id))
	return body, "Groups", nil
}

func (b *groupsBody) html(*layout) g.Node {
	table := region{label: "Groups", class: "wide", caption: "Groups with their state and lag"}
	return block(
		b.head("/groups", "Groups", "Filter groups by id", "Filter by id"),
		g.Iff(b.All == 0, func() g.Node {
			return h.Div(h.Class("empty"), h.P(g.Text("There are no groups.")),
				h.P(g.Text("A group appears when a member joins it or an offset is committed.")))
		}),
		g.Iff(b.All > 0, func() g.Node {
			rows := each(b.List, groupRow)
			if len(b.List) == 0 {
				rows = noneLine(4, "No group has", b.Filter, " in its id.")
			}
			return block(table.html(sortable(b.Columns), rows), b.Pager.html())
		}),
	)
}

func groupRow(x *Group) g.Node {
	state := g.Group{}
	if x.Severity != "" {
		state = append(state, severity(x.Severity), space)
	}
	state = append(state, g.Text(x.State))
	if x.Problem != "" {
		state = append(state, space, why(x.Problem))
	}
	return h.Tr(block(rowHead(to(link("/group", nil, "id", x.ID), name(x.ID))), h.Td(state), num(x.Lag), opt(x.Kind)))
}

// groupBody is one group.
type groupBody struct {
	GroupDetail
	ShownMembers []view.GroupMember
	MoreMembers  int
	Shown        []view.GroupOffset
	Pager        Pager
}

func (p *Page) group(r *http.Request, _ *Status) (content, string, error) {
	q := r.URL.Query()
	x, err := p.src.Group(r.Context(), q.Get("id"))
	if err != nil {
		return nil, "", err
	}
	body := &groupBody{GroupDetail: x, ShownMembers: x.Members[:min(len(x.Members), perPage)]}
	body.MoreMembers = len(x.Members) - len(body.ShownMembers)
	body.Shown, body.Pager = paged(x.Offsets, "/group", q)
	return body, name(x.ID), nil
}

func (b *groupBody) html(*layout) g.Node {
	members := region{by: "members", class: "wide", caption: "Members with their client and assignment"}
	listed := h.P(g.Text("The group has no members."))
	if len(b.ShownMembers) > 0 {
		listed = g.Group{
			members.html(head("Client", "Host", "Assigned", "Member|opt"), each(b.ShownMembers, memberRow)),
			g.If(b.MoreMembers > 0, hint(g.Text(text.Count(b.MoreMembers, "further member")+" not shown."))),
		}
	}
	return block(
		h.P(h.Class("crumb"), to("/groups", "Groups")),
		h.Div(h.Class("head"), h.H1(g.Text(name(b.ID)))),
		findingsOf(b.Findings),
		facts("facts row", factText("State", b.State), factText("Protocol", b.Kind), fact("Assignor", orDash(b.Assignor)),
			factText("Members", strconv.Itoa(len(b.Members))), factText("Lag", text.Number(b.Lag))),
		section("members", "Members", listed),
		b.offsets(),
	)
}

func memberRow(m *view.GroupMember) g.Node {
	assigned := g.Map(assignedText(m.Assigned), func(s string) g.Node { return g.Group{h.Span(h.Class("chip"), g.Text(name(s))), space} })
	if len(assigned) == 0 {
		assigned = g.Group{g.Text("nothing")}
	}
	return h.Tr(rowHead(g.Text(name(m.ClientID)), g.If(m.Instance != "", small("instance "+name(m.Instance)))),
		path(g.Text(name(m.Host))), h.Td(assigned), h.Td(h.Class("path opt"), g.Text(name(m.ID))))
}

// offsets are where the group is in each partition.
func (b *groupBody) offsets() g.Node {
	shares := b.Kind == "share"
	title, none := "Committed offsets", "The group has committed no offsets."
	table := region{by: "offsets", class: "wide", caption: "Committed offsets with the lag"}
	columns := []string{"Topic", "Partition|num", "Committed|num", "High watermark|num", "Lag|num"}
	if shares {
		title, none = "Positions", "The group has no positions."
		table.caption = "Start offsets with the lag, and the records in flight"
		columns[2] = "Start offset|num"
		columns = append(columns, "In flight|num", "Redelivered|num opt", "Archived|num")
	}
	if len(b.Shown) == 0 {
		return section("offsets", title, h.P(g.Text(none)))
	}
	count := func(n int64) g.Node { return h.Td(h.Class("num"), or(n >= 0, func() string { return text.Number(n) })) }
	return section("offsets", title, table.html(head(columns...), each(b.Shown, func(o *view.GroupOffset) g.Node {
		problem, more := "", g.Group{}
		if s := o.Share; s != nil {
			problem = s.Error
			counted := func(class string, n int64) g.Node {
				return h.Td(h.Class(class), or(s.Loaded, func() string { return text.Number(n) }))
			}
			more = g.Group{counted("num", s.Acquired), counted("num opt", s.Redelivered), counted("num", s.Archived)}
		}
		return h.Tr(rowHead(topicLink(o.Topic), g.If(problem != "", small(name(problem)))),
			numText(strconv.Itoa(int(o.Partition))), count(o.Committed), count(o.End), count(o.Lag), more)
	})), b.Pager.html())
}

// maxAssigned is the maximum number of topics that are shown of a member's assignment.
const maxAssigned = 20

// assignedText returns a member's assignment as a text for each topic: "orders 0-3, 7".
func assignedText(assigned map[string][]int32) []string {
	var list []string
	for i, topic := range slices.Sorted(maps.Keys(assigned)) {
		if i == maxAssigned {
			return append(list, "and "+text.Count(len(assigned)-i, "more topic"))
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
		part := strconv.Itoa(int(first))
		if last := numbers[i-1]; last > first {
			part += "-" + strconv.Itoa(int(last))
		}
		if parts = append(parts, part); len(parts) == 50 && i < len(numbers) {
			parts = append(parts, "…")
			break
		}
	}
	return strings.Join(parts, ", ")
}

// connectionsBody is the list of connections.
type connectionsBody struct {
	listing[view.Connection]
	Principals bool // a client has authenticated, so the column is shown
}

// anonymous is the principal of a client that has not authenticated.
const anonymous = "User:ANONYMOUS"

func (p *Page) connections(r *http.Request, _ *Status) (content, string, error) {
	all, err := p.src.Connections()
	if err != nil {
		return nil, "", err
	}
	type line = view.Connection
	q := r.URL.Query()
	body := &connectionsBody{listing: filtered(all, q, func(c *line) string {
		return c.ClientID + "\n" + c.Address + "\n" + c.Program() + "\n" + c.Principal
	})}
	fields := []field[line]{
		{"client", "Client", "", false, by(func(c *line) string { return c.ClientID })},
		{"address", "Address", "", false, by(func(c *line) string { return c.Address })},
		{"software", "Software", "opt", false, by((*line).Program)},
		{"requests", "Requests", "num", true, by(func(c *line) int64 { return c.Requests })},
		{"records", "Records in", "num opt", true, by(func(c *line) int64 { return c.RecordsIn })},
		{"in", "In", "num", true, by(func(c *line) int64 { return c.BytesIn })},
		{"out", "Out", "num", true, by(func(c *line) int64 { return c.BytesOut })},
		{"waiting", "Unanswered", "num opt", true, by(func(c *line) int { return c.InFlight })},
		{"last", "Last request", "num opt", true, func(a, b *line) int { return lastRequest(a).Compare(lastRequest(b)) }},
		{"since", "Open for", "num opt", true, func(a, b *line) int { return b.Opened.Compare(a.Opened) }},
	}
	if body.Principals = slices.ContainsFunc(body.List, func(c line) bool { return c.Principal != anonymous }); body.Principals {
		fields = slices.Insert(fields, 2, field[line]{"principal", "Principal", "", false, by(func(c *line) string { return c.Principal })})
	}
	body.show("/connections", "client", q, fields, by(func(c *line) uint64 { return c.ID }))
	return body, "Connections", nil
}

func (b *connectionsBody) html(v *layout) g.Node {
	table := region{label: "Connections", class: "wide", caption: "Open client connections"}
	return block(
		b.head("/connections", "Connections", "Filter connections by client, address or software", "Filter by client or address"),
		g.Iff(b.All == 0, func() g.Node {
			addresses := g.Group{}
			for i, a := range v.Addresses {
				addresses = append(addresses, g.If(i > 0, g.Text(", ")), code(a))
			}
			return h.Div(h.Class("empty"), h.P(g.Text("No client is connected.")),
				h.P(g.Text("Clients connect to "), addresses, g.Text(".")))
		}),
		g.Iff(b.All > 0, func() g.Node {
			rows := each(b.List, func(c *view.Connection) g.Node { return b.row(v, c) })
			if len(b.List) == 0 {
				rows = noneLine(len(b.Columns), "No connection matches", b.Filter, ".")
			}
			return block(table.html(sortable(b.Columns), rows), b.Pager.html(),
				hint(g.Text("Requests, records and bytes count since the connection was opened. "+
					"Unanswered requests include fetches that wait for new records.")))
		}),
	)
}

func (b *connectionsBody) row(v *layout, c *view.Connection) g.Node {
	optText := func(nodes ...g.Node) g.Node { return h.Td(h.Class("num opt"), g.Group(nodes)) }
	last := unknown
	if c.LastRequest != nil {
		last = ago(v.Now, *c.LastRequest)
	}
	return h.Tr(block(
		rowHead(orDash(c.ClientID)), path(g.Text(name(c.Address)), small(name(c.Listener))),
		g.If(b.Principals, h.Td(g.Text(name(c.Principal)))),
		h.Td(h.Class("opt"), orDash(c.Program())), num(c.Requests), optText(g.Text(text.Number(c.RecordsIn))),
		size(c.BytesIn), size(c.BytesOut),
		optText(g.Text(strconv.Itoa(c.InFlight)),
			g.Iff(c.Front != nil, func() g.Node { return g.Group{space, tag("", fmt.Sprintf("via broker %d", *c.Front))} }),
			g.Iff(c.ThrottledMs > 0, func() g.Node { return g.Group{space, tag("warn", "throttled")} })),
		optText(g.Text(last)), optText(g.Text(spanText(v.Now.Sub(c.Opened)))),
	))
}

// lastRequest returns the time of the last request, the zero time before the first one.
func lastRequest(c *view.Connection) time.Time {
	if c.LastRequest == nil {
		return time.Time{}
	}
	return *c.LastRequest
}
