package page

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/view"
)

// topicsBody is the list of topics.
type topicsBody struct {
	listing[topicLine]
	Internal     bool // internal topics are shown
	Hidden       int  // internal topics that are not shown
	InternalLink string
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
	lines := make([]topicLine, len(all))
	for i := range all {
		lines[i] = topicLine{Topic: all[i], Severity: severityOf(&all[i])}
		lines[i].rate, lines[i].known = rate(&all[i])
	}
	q, name := r.URL.Query(), func(t *topicLine) string { return t.Name }
	body := &topicsBody{listing: filtered(lines, q, name), Internal: q.Get("internal") == "show"}
	body.List = slices.DeleteFunc(body.List, func(t topicLine) bool { // an internal topic with a problem is always shown
		hidden := t.Internal && !body.Internal && t.Severity == ""
		if hidden {
			body.Hidden++
		}
		return hidden
	})
	show := "show"
	if body.Internal {
		show = ""
	}
	body.InternalLink = link("/topics", q, "internal", show, "page", "")
	body.show("/topics", "state", q, []field[topicLine]{
		{"name", "Topic", "", false, by(name)},
		{"state", "State", "", true, by(func(t *topicLine) int { return weight(t.Severity) })},
		{"partitions", "Partitions", "num opt", true, by(func(t *topicLine) int { return t.Partitions })},
		{"records", "Records", "num", true, by(func(t *topicLine) int64 { return t.Records })},
		{"bytes", "Size", "num", true, by(func(t *topicLine) int64 { return t.Bytes })},
		{"rate", "Records/s", "num", true, by(func(t *topicLine) float64 { return t.rate })},
		{"profile", "Durability", "opt", false, by(func(t *topicLine) string { return t.Profile })},
	}, by(name))
	return body, "Topics", nil
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
