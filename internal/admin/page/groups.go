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

	"github.com/chronik-io/chronik/internal/view"
)

func (p *Page) groups(r *http.Request, _ *Status) (any, string, error) {
	all, err := p.src.Groups(r.Context())
	if err != nil {
		return nil, "", err
	}
	q, id := r.URL.Query(), func(g *Group) string { return g.ID }
	body := filtered(all, q, id)
	body.show("/groups", "lag", q, []field[Group]{
		{"id", "Group", "", false, by(id)},
		{"state", "State", "", false, func(a, b *Group) int {
			return cmp.Or(cmp.Compare(weight(b.Severity), weight(a.Severity)), cmp.Compare(a.State, b.State))
		}},
		{"lag", "Lag", "num", true, by(func(g *Group) int64 { return g.Lag })},
		{"kind", "Protocol", "opt", false, by(func(g *Group) string { return g.Kind })},
	}, by(id))
	return &body, "Groups", nil
}

// groupBody is one group.
type groupBody struct {
	GroupDetail
	ShownMembers []view.GroupMember
	MoreMembers  int
	Shown        []view.GroupOffset
	Pager        Pager
}

func (p *Page) group(r *http.Request, _ *Status) (any, string, error) {
	q := r.URL.Query()
	g, err := p.src.Group(r.Context(), q.Get("id"))
	if err != nil {
		return nil, "", err
	}
	body := &groupBody{GroupDetail: g, ShownMembers: g.Members[:min(len(g.Members), perPage)]}
	body.MoreMembers = len(g.Members) - len(body.ShownMembers)
	body.Shown, body.Pager = paged(g.Offsets, "/group", q)
	return body, name(g.ID), nil
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

// connectionsBody is the list of connections.
type connectionsBody struct {
	listing[view.Connection]
	Principals bool // a client has authenticated, so the column is shown
}

// anonymous is the principal of a client that has not authenticated.
const anonymous = "User:ANONYMOUS"

func (p *Page) connections(r *http.Request, _ *Status) (any, string, error) {
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

// lastRequest returns the time of the last request, the zero time before the first one.
func lastRequest(c *view.Connection) time.Time {
	if c.LastRequest == nil {
		return time.Time{}
	}
	return *c.LastRequest
}
