package page

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

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

// recordsBody is a part of a partition.
type recordsBody struct {
	Records
	Topic     string
	Partition int32
	Latest    bool // the last records, the latest first; otherwise from a place on, by offset
	Last      int
	From, At  string // as they were asked for
	// Links; empty if there is nothing there, or for More at the limit.
	More, Older, Newer, End string
	Back                    string
}

// timeForms are the forms in which people and browsers write a time; without a zone it is UTC.
var timeForms = [...]string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"}

// which reads which records are asked for.
func (b *recordsBody) which(q url.Values) (w Which, err error) {
	w = Which{From: -1, Most: b.Last}
	if b.From = q.Get("from"); b.From != "" {
		if w.From, err = strconv.ParseInt(b.From, 10, 64); err != nil || w.From < 0 {
			return w, bad("from=%s is not an offset", name(b.From))
		}
		return w, nil
	}
	if b.At = q.Get("at"); b.At != "" {
		for _, form := range timeForms {
			if w.Since, err = time.Parse(form, b.At); err == nil {
				return w, nil
			}
		}
		return w, bad("at=%s is not a time; write it as 2006-01-02T15:04:05, in UTC", name(b.At))
	}
	b.Latest = true
	return w, nil
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
	which, err := body.which(q)
	if err != nil {
		return nil, "", err
	}
	if body.Records, err = p.src.Records(r.Context(), body.Topic, body.Partition, which); err != nil {
		return nil, "", err
	}
	body.links(q)
	if body.Latest {
		slices.Reverse(body.List) // the latest first, as people read them
	}
	return body, "Records of " + body.Topic + "-" + strconv.Itoa(int(body.Partition)), nil
}

// links sets the links to other records. The list is by offset.
func (b *recordsBody) links(q url.Values) {
	b.Back = link("/topic", url.Values{}, "name", b.Topic)
	if b.Last < MaxLast && b.High-b.Start > int64(b.Last) {
		b.More = link("/records", q, "last", strconv.Itoa(MaxLast))
	}
	first := max(b.Next-int64(b.Last), b.Start)
	if len(b.List) > 0 {
		first = b.List[0].Offset
	}
	if first > b.Start {
		b.Older = link("/records", q, "at", "", "from", strconv.FormatInt(max(b.Start, first-int64(b.Last)), 10))
	}
	if !b.Latest {
		b.End = link("/records", q, "at", "", "from", "")
		if b.Next < b.High {
			b.Newer = link("/records", q, "at", "", "from", strconv.FormatInt(b.Next, 10))
		}
	}
}
