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

// groupsBody is the list of groups.
type groupsBody struct {
	Columns     []Column
	List        []Group
	Pager       Pager
	Filter      string
	Sort, Order string
	All         int
}

func (p *Page) groups(r *http.Request, _ *Status) (any, string, error) {
	all, err := p.src.Groups(r.Context())
	if err != nil {
		return nil, "", err
	}
	q := r.URL.Query()
	body := &groupsBody{Filter: q.Get("filter"), Sort: q.Get("sort"), Order: q.Get("order"), All: len(all)}
	filter := strings.ToLower(body.Filter)
	all = slices.DeleteFunc(all, func(g Group) bool { return !strings.Contains(strings.ToLower(g.ID), filter) })
	var order sorting
	body.Columns, order = columnsFor([]field{
		{"id", "Group", "", false}, {"state", "State", "", false}, {"lag", "Lag", "num", true}, {"kind", "Protocol", "opt", false},
	}, "/groups", "lag", q)
	slices.SortFunc(all, func(a, b Group) int {
		c := 0
		switch order.by {
		case "state":
			c = cmp.Or(cmp.Compare(weight(b.Severity), weight(a.Severity)), cmp.Compare(a.State, b.State))
		case "lag":
			c = cmp.Compare(a.Lag, b.Lag)
		case "kind":
			c = cmp.Compare(a.Kind, b.Kind)
		case "id":
			c = cmp.Compare(a.ID, b.ID)
		}
		return cmp.Or(order.direct(c), cmp.Compare(a.ID, b.ID))
	})
	body.List, body.Pager = paged(all, "/groups", q)
	return body, "Groups", nil
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
	Columns     []Column
	List        []view.Connection
	Pager       Pager
	Filter      string
	Sort, Order string
	All         int
	Principals  bool // a client has authenticated, so the column is shown
}

// anonymous is the principal of a client that has not authenticated.
const anonymous = "User:ANONYMOUS"

func (p *Page) connections(r *http.Request, _ *Status) (any, string, error) {
	all, err := p.src.Connections()
	if err != nil {
		return nil, "", err
	}
	q := r.URL.Query()
	body := &connectionsBody{Filter: q.Get("filter"), Sort: q.Get("sort"), Order: q.Get("order"), All: len(all)}
	filter := strings.ToLower(body.Filter)
	all = slices.DeleteFunc(all, func(c view.Connection) bool {
		return !strings.Contains(strings.ToLower(c.ClientID+"\n"+c.Address+"\n"+c.Program()+"\n"+c.Principal), filter)
	})
	fields := []field{
		{"client", "Client", "", false}, {"address", "Address", "", false}, {"software", "Software", "opt", false},
		{
			"requests",
			"Requests",
			"num",
			true,
		}, {"records", "Records in", "num opt", true}, {"in", "In", "num", true}, {"out", "Out", "num", true}, {"waiting",
			"Unanswered", "num opt", true},
		{"last", "Last request", "num opt", true}, {"since", "Open for", "num opt", true},
	}
	if body.Principals = slices.ContainsFunc(all, func(c view.Connection) bool { return c.Principal != anonymous }); body.Principals {
		fields = slices.Insert(fields, 2, field{"principal", "Principal", "", false})
	}
	var order sorting
	body.Columns, order = columnsFor(fields, "/connections", "client", q)
	slices.SortFunc(all, func(a, b view.Connection) int {
		c := 0
		switch order.by {
		case "client":
			c = cmp.Compare(a.ClientID, b.ClientID)
		case "address":
			c = cmp.Compare(a.Address, b.Address)
		case "principal":
			c = cmp.Compare(a.Principal, b.Principal)
		case "software":
			c = cmp.Compare(a.Program(), b.Program())
		case "requests":
			c = cmp.Compare(a.Requests, b.Requests)
		case "records":
			c = cmp.Compare(a.RecordsIn, b.RecordsIn)
		case "in":
			c = cmp.Compare(a.BytesIn, b.BytesIn)
		case "out":
			c = cmp.Compare(a.BytesOut, b.BytesOut)
		case "waiting":
			c = cmp.Compare(a.InFlight, b.InFlight)
		case "last":
			c = lastRequest(&a).Compare(lastRequest(&b))
		case "since":
			c = b.Opened.Compare(a.Opened)
		}
		return cmp.Or(order.direct(c), cmp.Compare(a.ID, b.ID))
	})
	body.List, body.Pager = paged(all, "/connections", q)
	return body, "Connections", nil
}

// lastRequest returns the time of the last request, the zero time before the first one.
func lastRequest(c *view.Connection) time.Time {
	if c.LastRequest == nil {
		return time.Time{}
	}
	return *c.LastRequest
}
