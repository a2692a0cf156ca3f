package page

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
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

func (b *topicsBody) html(*layout) g.Node {
	table := region{label: "Topics", class: "wide", caption: "Topics of this broker with their size, rate and state"}
	return block(
		b.head("/topics", "Topics", "Filter topics by name", "Filter by name", g.If(b.Internal, kept("internal", "show"))),
		g.Iff(b.All == 0, func() g.Node {
			return h.Div(h.Class("empty"), h.P(g.Text("There are no topics.")), h.P(g.Text("Create one with "),
				code("chronikctl topic create orders"), g.Text(", or let a producer create it.")))
		}),
		g.Iff(b.All > 0, func() g.Node {
			rows := each(b.List, topicRow)
			if len(b.List) == 0 {
				rows = noneLine(7, "No topic has", b.Filter, " in its name.")
			}
			show := "Hide internal topics"
			if !b.Internal {
				show = "Show " + text.Count(b.Hidden, "internal topic")
			}
			return block(
				table.html(sortable(b.Columns), rows), b.Pager.html(),
				g.If(b.Hidden > 0 || b.Internal, hint(to(b.InternalLink, show))),
				hint(g.Text("Rates are measured between two refreshes of this page.")),
			)
		}),
	)
}

func topicRow(t *topicLine) g.Node {
	state := g.Group{g.Text("ok")}
	if t.Severity != "" {
		state = g.Group{severity(t.Severity), space, why(t.Problem())}
	}
	return h.Tr(block(
		rowHead(topicLink(t.Name), internal(t.Internal)), h.Td(state),
		optNum(t.Topic.Partitions), num(t.Records), size(t.Bytes), numText(t.Rate()), opt(t.Profile),
	))
}

// topicLink leads to a topic.
func topicLink(topic string) g.Node { return to(link("/topic", nil, "name", topic), name(topic)) }

func (p *Page) topics(r *http.Request, b *Status) (content, string, error) {
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
	Set, Other []Config // configs with a source, and defaults
	Dir        string   // of all partitions; empty if they differ
	Tiered     bool     // the object store has records of the topic, or is to have some
	Shown      []view.Log
	Pager      Pager
}

func (p *Page) topic(r *http.Request, b *Status) (content, string, error) {
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
	body.Tiered = slices.ContainsFunc(t.Partitions, func(l view.Log) bool { return l.Tier != nil })
	body.Shown, body.Pager = paged(t.Partitions, "/topic", q)
	return body, t.Name, nil
}

func (b *topicBody) html(*layout) g.Node {
	partitions := region{by: "partitions", class: "wide", caption: "Partitions with their offsets, size and state"}
	columns := []string{"Partition|num", "State", "Start|num", "High watermark|num", "Log end|num opt", "Size|num", "Segments|num opt",
		"Leader|num opt", "In sync|num opt"}
	if b.Tiered {
		columns = append(columns, "Start on this disk|num opt", "In the object store|num opt")
	}
	if b.Dir == "" {
		columns = append(columns, "Directory|opt")
	}
	set := h.P(g.Text("Every config has its default."))
	if len(b.Set) > 0 {
		set = h.Div(h.Class("scroll"), h.Role("region"), h.Aria("labelledby", "configs"), h.TabIndex("0"), configs(b.Set))
	}
	return block(
		h.P(h.Class("crumb"), to("/topics", "Topics")),
		h.Div(h.Class("head"), h.H1(g.Text(name(b.Name)), internal(b.Internal))),
		findingsOf(b.Findings),
		facts("facts row",
			factText("Partitions", strconv.Itoa(b.Topic.Partitions)), factText("Records", text.Number(b.Records)),
			factText("Size", bytesText(float64(b.Bytes))), factText("Durability", b.Profile), factText("Cleanup", b.Cleanup),
			g.Iff(b.Dir != "", func() g.Node { return h.Div(h.Dt(g.Text("Directory")), h.Dd(h.Class("path"), g.Text(name(b.Dir)))) }),
			h.Div(h.Dt(g.Text("Topic id")), h.Dd(h.Class("path"), g.Text(b.Topic.ID))),
		),
		section("partitions", "Partitions",
			partitions.html(head(append(columns, "Records")...), each(b.Shown, b.partition)), b.Pager.html()),
		section("configs", "Configuration", set, g.Iff(len(b.Other) > 0, func() g.Node {
			return h.Details(h.Summary(g.Text(text.Count(len(b.Other), "config")+" with the default value")),
				h.Div(h.Class("scroll"), configs(b.Other)))
		})),
	)
}

// tier returns the cells of a partition about the object store.
func (b *topicBody) tier(l *view.Log) g.Node {
	if !b.Tiered {
		return nil
	}
	stored := int64(0)
	if l.Tier != nil {
		stored = l.Tier.Bytes
	}
	cell := func(s string) g.Node { return h.Td(h.Class("num opt"), g.Text(s)) }
	return g.Group{cell(text.Number(l.LocalStart)), cell(bytesText(float64(stored)))}
}

func (b *topicBody) partition(l *view.Log) g.Node {
	state := g.Group{}
	if s := severityOf(l); s != "" {
		state = append(state, severity(s), space)
	}
	switch problem := l.Problem(); {
	case problem != "":
		state = append(state, why(problem))
	case l.Creating:
		state = append(state, g.Text("being created"))
	case l.Tier != nil && l.Tier.Error != "":
		state = append(state, why("copies to the object store fail: "+l.Tier.Error))
	default:
		state = append(state, g.Text("ok"))
	}
	leader, records := "none", g.Text(unknown)
	if l.Leader >= 0 {
		leader = strconv.Itoa(int(l.Leader))
	}
	if l.HighWatermark > l.LogStart {
		records = to(link("/records", nil, "topic", b.Name, "partition", strconv.Itoa(int(l.Partition)), "last", "10"), "last 10")
	}
	optText := func(s string) g.Node { return h.Td(h.Class("num opt"), g.Text(s)) }
	return h.Tr(block(
		h.Th(h.Scope("row"), h.Class("num"), g.Text(strconv.Itoa(int(l.Partition)))), h.Td(state),
		num(l.LogStart), num(l.HighWatermark), optText(text.Number(l.LogEnd)), size(l.Bytes), optNum(l.Segments),
		optText(leader), optText(strconv.Itoa(len(l.ISR))+" of "+strconv.Itoa(len(l.Replicas))),
		b.tier(l),
		g.If(b.Dir == "", h.Td(h.Class("path opt"), g.Text(name(l.Dir)))),
		h.Td(records),
	))
}

func configs(list []Config) g.Node {
	return tableOf("wide", "Configs with their value, what sets it, and the default", head("Config", "Value", "Set by", "Default"),
		each(list, func(c *Config) g.Node {
			return h.Tr(rowHead(g.Text(c.Name), small(c.Doc)), path(g.Text(name(c.Value))), h.Td(g.Text(c.Source)),
				path(g.Text(name(c.Default))))
		}))
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

func (p *Page) records(r *http.Request, _ *Status) (content, string, error) {
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

func (b *recordsBody) html(*layout) g.Node {
	title, order := "Records", "by offset"
	if b.Latest {
		title, order = "Latest records", "the latest first"
	}
	note := ""
	if b.Note != "" {
		note = " " + prose(b.Note)
	}
	records := each(b.List, recordPart)
	if len(b.List) == 0 {
		records = h.Div(h.Class("empty"), h.P(g.Text("There are no records.")))
	}
	others := g.Group{}
	for _, x := range [...][2]string{{b.Older, "Older"}, {b.Newer, "Newer"}, {b.End, "Latest"}, {b.More, "Show more"}} {
		if x[0] != "" {
			others = append(others, to(x[0], x[1]), space)
		}
	}
	return block(
		h.P(h.Class("crumb"), to("/topics", "Topics"), g.Text(" / "), to(b.Back, name(b.Topic))),
		h.Div(h.Class("head"), block(
			h.H1(g.Textf("%s of %s-%d", title, name(b.Topic), b.Partition)),
			h.Form(h.Role("search"), h.Action("/records"), block(
				g.Group{kept("topic", b.Topic), kept("partition", strconv.Itoa(int(b.Partition))), kept("last", strconv.Itoa(b.Last))},
				search("From this offset on", "from", b.From, "From offset", g.Attr("inputmode", "numeric")),
				search("From this time on, in UTC", "at", b.At, "From 2006-01-02T15:04 UTC"),
				h.Button(h.Type("submit"), g.Text("Show")),
			)),
		)),
		h.P(g.Textf("%s, %s. The partition has offsets %s to %s, the end not included.%s",
			text.Count(len(b.List), "record"), order, text.Number(b.Start), text.Number(b.High), note)),
		records,
		g.If(len(others) > 0, h.P(h.Class("pager"), others)),
		hint(g.Text("For more, use "), code(fmt.Sprintf("chronikctl consume %s --partition %d", name(b.Topic), b.Partition)), g.Text(".")),
	)
}

func recordPart(r *Record) g.Node {
	size := func(b []byte, n int) string {
		if b == nil {
			return "null"
		}
		return text.Count(n, "byte")
	}
	show := func(b []byte, n int) g.Node {
		c := contentOf(b, n)
		return c.html()
	}
	facts := []g.Node{fact("Key", show(r.Key, r.KeySize)), fact("Value", show(r.Value, r.ValueSize))}
	for _, x := range r.Headers {
		facts = append(facts, fact("Header "+name(x.Key), show(x.Value, x.ValueSize)))
	}
	if r.HeaderCount > len(r.Headers) {
		facts = append(facts, h.Div(h.Dt(g.Text("Headers")),
			h.Dd(h.Class("more"), g.Textf("%d in all; the first %d are shown", r.HeaderCount, len(r.Headers)))))
	}
	return h.Article(h.Class("record"), block(
		h.H2(h.Span(h.Class("offset"), g.Text(text.Number(r.Offset))), space, at(r.Time), space,
			small("key "+size(r.Key, r.KeySize)+", value "+size(r.Value, r.ValueSize))),
		h.Dl(block(facts...)),
	))
}
