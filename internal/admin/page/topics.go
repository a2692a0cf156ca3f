package page

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/view"
)

// topicsBody is the list of topics.
type topicsBody struct {
	Columns      []Column
	List         []topicLine
	Pager        Pager
	Filter       string
	Sort, Order  string // as in the address, for the form
	Internal     bool   // internal topics are shown
	Hidden       int    // internal topics that are not shown
	InternalLink string
	All          int // topics before the filter
}

// topicLine is a topic with its rate.
type topicLine struct {
	view.Topic
	Severity health.Severity
	rate     float64
	known    bool
}

// Rate returns the records per second as text.
func (t *topicLine) Rate() string {
	if !t.known {
		return unknown
	}
	return shortText(t.rate) + "/s"
}

func (p *Page) topics(r *http.Request, b *Status) (any, string, error) {
	all, err := p.src.Topics()
	if err != nil {
		return nil, "", err
	}
	rate := p.rates.measure(b.Now, all)
	q := r.URL.Query()
	body := &topicsBody{
		Filter:   q.Get("filter"),
		Sort:     q.Get("sort"),
		Order:    q.Get("order"),
		Internal: q.Get("internal") == "show",
		All:      len(all),
	}
	filter := strings.ToLower(body.Filter)
	var lines []topicLine
	for i := range all {
		t := &all[i]
		severity := severityOf(t)
		switch {
		case !strings.Contains(strings.ToLower(t.Name), filter):
		case t.Internal && !body.Internal && severity == "": // an internal topic with a problem is always shown
			body.Hidden++
		default:
			line := topicLine{Topic: *t, Severity: severity}
			line.rate, line.known = rate(t)
			lines = append(lines, line)
		}
	}
	show := "show"
	if body.Internal {
		show = ""
	}
	body.InternalLink = link("/topics", q, "internal", show, "page", "")
	var order sorting
	body.Columns, order = columnsFor([]field{
		{
			"name",
			"Topic",
			"",
			false,
		}, {"state", "State", "", true}, {"partitions", "Partitions", "num opt", true}, {"records", "Records", "num", true},
		{"bytes", "Size", "num", true}, {"rate", "Records/s", "num", true}, {"profile", "Durability", "opt", false},
	}, "/topics", "state", q)
	sortTopics(lines, order)
	body.List, body.Pager = paged(lines, "/topics", q)
	return body, "Topics", nil
}

func sortTopics(lines []topicLine, order sorting) {
	slices.SortFunc(lines, func(a, b topicLine) int {
		c := 0
		switch order.by {
		case "partitions":
			c = cmp.Compare(a.Partitions, b.Partitions)
		case "records":
			c = cmp.Compare(a.Records, b.Records)
		case "bytes":
			c = cmp.Compare(a.Bytes, b.Bytes)
		case "rate":
			c = cmp.Compare(a.rate, b.rate)
		case "profile":
			c = cmp.Compare(a.Profile, b.Profile)
		case "state":
			c = cmp.Compare(weight(a.Severity), weight(b.Severity))
		case "name":
			return order.direct(cmp.Compare(a.Name, b.Name))
		}
		return cmp.Or(order.direct(c), cmp.Compare(a.Name, b.Name))
	})
}

// weight returns the rank of a severity; 0 without one.
func weight(severity health.Severity) int {
	return slices.Index([]health.Severity{health.Note, health.Warn, health.Bad}, severity) + 1
}

// topicBody is one topic.
type topicBody struct {
	TopicDetail
	Rate       string
	Set, Other []Config // configs with a source, and defaults
	Dir        string   // of all partitions; empty if they differ
	Shown      []view.Log
	Pager      Pager
}

func (p *Page) topic(r *http.Request, b *Status) (any, string, error) {
	q := r.URL.Query()
	t, err := p.src.Topic(r.Context(), q.Get("name"))
	if err != nil {
		return nil, "", err
	}
	body := &topicBody{TopicDetail: t}
	for _, c := range t.Configs {
		if c.Set {
			body.Set = append(body.Set, c)
		} else {
			body.Other = append(body.Other, c)
		}
	}
	for i := range t.Partitions {
		if body.Dir = t.Partitions[i].Dir; body.Dir != t.Partitions[0].Dir {
			body.Dir = ""
			break
		}
	}
	body.Shown, body.Pager = paged(t.Partitions, "/topic", q)
	return body, t.Name, nil
}

// recordsBody is the end of a partition.
type recordsBody struct {
	Records
	Topic     string
	Partition int32
	Last      int
	More      string // link to more records, empty at the limit
	Back      string
}

func (p *Page) records(r *http.Request, _ *Status) (any, string, error) {
	q := r.URL.Query()
	partition, err := strconv.ParseInt(q.Get("partition"), 10, 32)
	if err != nil || partition < 0 {
		return nil, "", bad("partition=%s is not the number of a partition", name(q.Get("partition")))
	}
	body := &recordsBody{Topic: q.Get("topic"), Partition: int32(partition), Last: 10}
	if v := q.Get("last"); v != "" {
		if body.Last, err = strconv.Atoi(v); err != nil || body.Last < 1 || body.Last > MaxLast {
			return nil, "", bad("last=%s is not a number from 1 to %d", name(v), MaxLast)
		}
	}
	if body.Records, err = p.src.Records(r.Context(), body.Topic, body.Partition, body.Last); err != nil {
		return nil, "", err
	}
	slices.Reverse(body.List) // the latest first, as people read them
	if body.Last < MaxLast && body.High-body.Start > int64(body.Last) {
		body.More = link("/records", q, "last", strconv.Itoa(MaxLast))
	}
	body.Back = link("/topic", url.Values{}, "name", body.Topic)
	return body, "Records of " + body.Topic + "-" + strconv.Itoa(int(body.Partition)), nil
}
