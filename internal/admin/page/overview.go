package page

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/view"
)

// maxFindings is the maximum number of findings in the overview.
const maxFindings = 20

// overviewBody is the content of the overview in addition to the broker.
type overviewBody struct {
	Overview
	Serving  bool
	Shown    []health.Finding
	Omitted  int    // number of further findings
	Synced   string // time of the last disk sync
	Span     string // period of the plots: "Last hour"
	Plots    []Plot
	Sampling bool // there is no sample yet
}

func (p *Page) overview(r *http.Request, b *Status) (content, string, error) {
	body := &overviewBody{Shown: b.Findings[:min(len(b.Findings), maxFindings)]}
	body.Omitted = len(b.Findings) - len(body.Shown)
	var err error
	switch body.Overview, err = p.src.Overview(r.Context()); {
	case errors.Is(err, ErrNotServing):
		return body, "Overview", nil
	case err != nil:
		return nil, "", err
	}
	body.Serving = true
	l := p.history.lines()
	body.Plots, body.Sampling = plotsOf(&l, b.Now), len(l.at) == 0
	over := spanFor(&l, b.Now)
	body.Span = "L" + over.title()[1:]
	body.Synced = syncedText(b.Now, l.synced)
	return body, "Overview", nil
}

// syncedText returns the time since the last disk sync, as precisely as the samples allow.
func syncedText(now, synced time.Time) string {
	switch {
	case synced.IsZero():
		return "No disk sync since the start"
	case now.Sub(synced) < 2*SampleEvery:
		return "Last disk sync within the last 10 seconds"
	}
	return "Last disk sync " + ago(now, synced)
}

func (b *overviewBody) html(v *layout) g.Node {
	parts := g.Group{h.H1(h.Class("hidden"), g.Text("Overview")), b.verdict(v), b.findings(v)}
	if b.Serving {
		parts = append(parts, b.hour(), b.waiting(), b.brokers(), b.disks(), b.moves(),
			h.Div(h.Class("pair"), block(b.memory(), b.broker(v))))
	}
	return block(parts...)
}

// verdict is the state of a broker that does not serve, or has no problem.
func (b *overviewBody) verdict(v *layout) g.Node {
	switch {
	case v.Phase != "":
		progress := g.Map(v.Progress, func(line string) g.Node { return h.P(g.Text(line)) })
		if len(progress) == 0 {
			progress = g.Group{h.P(g.Text("Clients are served when this has ended."))}
		}
		return h.Section(h.Class("verdict phase"), h.H2(g.Text("Not serving: "+v.Phase)), newline, progress)
	case v.Worst() == "":
		return h.Section(h.Class("verdict ok"), h.Aria("label", "Health"),
			h.P(h.B(g.Text("Healthy.")), space, g.If(v.Profile.Name != "",
				g.Textf("If the power fails, %s (profile %s). ", v.Profile.Promise(), v.Profile.Name)), g.Text(b.Synced+".")))
	}
	return nil
}

func (b *overviewBody) findings(v *layout) g.Node {
	if len(b.Shown) == 0 {
		return nil
	}
	title, quiet := text.Count(len(v.Findings), "note"), v.Worst() == ""
	if !quiet {
		title = text.Count(v.Problems(), "problem")
		if v.Problems() < len(v.Findings) {
			title += " and " + text.Count(v.Notes(), "note")
		}
	}
	promise := ""
	if v.Profile.Name != "" {
		promise = "Profile " + v.Profile.Name + ": if the power fails, " + v.Profile.Promise() + ". "
	}
	return h.Section(h.Aria("labelledby", "findings"), block(
		h.H2(h.ID("findings"), g.If(quiet, h.Class("quiet")), g.Text(title)),
		findingsOf(b.Shown),
		g.If(b.Omitted > 0, h.P(to("/v1/health", text.Count(b.Omitted, "further finding")), g.Text(" in the health report."))),
		g.If(!quiet && v.Phase == "", h.P(h.Class("promise"), g.Text(promise+b.Synced+"."))),
	))
}

func (b *overviewBody) hour() g.Node {
	plots := g.Group{}
	for i := range b.Plots {
		plots = append(plots, b.Plots[i].html())
	}
	return section("hour", b.Span, h.Div(h.Class("plots"), block(plots...)),
		g.If(b.Sampling, hint(g.Text("The first values come within ten seconds after the start."))))
}

func (b *overviewBody) waiting() g.Node {
	if len(b.Waits) == 0 {
		return section("waits", "Oldest waiting requests", hint(g.Text("No request waits for the broker. "), to("/v1/waits", "Others"),
			g.Text(" wait as their clients ask.")))
	}
	table := region{by: "waits",
		caption: "Requests that have waited the longest for the broker, with the step at which each waits and for what"}
	return section("waits", "Oldest waiting requests",
		table.html(head("Client", "Request", "Age|num", "Step", "Waits for"), each(b.Waits, waitLine)),
		hint(to("/v1/waits", "All of them"), g.Text(", with those that wait as their clients ask.")))
}

func waitLine(w *view.Wait) g.Node {
	request, steps, reasons := "not read", "", g.Group{}
	if w.Request != "" {
		request = name(w.Request)
	}
	for i, s := range w.Steps {
		if i > 0 {
			steps += ", "
		}
		steps += string(s.Step)
		reasons = append(reasons, h.Div(g.Iff(s.Partition != "", func() g.Node { return g.Group{h.B(g.Text(name(s.Partition))), space} }),
			g.Text(prose(s.For))))
	}
	if w.More > 0 {
		steps += " and " + strconv.Itoa(w.More) + " more"
	}
	return h.Tr(block(
		rowHead(orDash(w.ClientID), h.Small(h.Class("path"), g.Text(name(w.Address)))),
		h.Td(g.Text(request)), numText(secondsText(w.AgeMs/1000)), h.Td(g.Text(steps)), h.Td(reasons),
	))
}

func (b *overviewBody) brokers() g.Node {
	if len(b.Brokers) == 0 {
		return nil
	}
	table := region{by: "brokers",
		caption: "Brokers of the cluster with their states, the partitions that they lead, and replicas that are not in sync"}
	return section("brokers", "Brokers", table.html(head("Broker", "Address", "State", "Leads|num", "Replicas|num opt", "Not in sync|num"),
		each(b.Brokers, func(x *view.Broker) g.Node {
			state, votes, out := g.Text(x.State), "", g.Text("0")
			if x.State != "active" {
				state = tag("warn", x.State)
			}
			if x.VotesOnly {
				votes = ", only votes"
			}
			if n := x.OutOfSync.Count; n > 0 {
				out = tag("warn", strconv.Itoa(n))
			}
			return h.Tr(block(
				rowHead(g.Text(strconv.Itoa(int(x.ID)))), path(g.Text(name(x.Address))), h.Td(state, g.Text(votes)),
				numText(strconv.Itoa(x.Leads)), optNum(x.Replicas), h.Td(h.Class("num"), out),
			))
		})),
		g.If(b.Moving > 0, hint(g.Text(text.Plural(b.Moving, "partition moves", "partitions move")+" to other brokers: "),
			code("chronikctl topic move"), g.Text(" shows how far."))))
}

// maxMoves is the maximum number of logs in the overview that move to another log directory.
const maxMoves = 20

// moves lists the logs that move between the log directories of the broker, those first that stand
// still.
func (b *overviewBody) moves() g.Node {
	type move struct {
		view.Arrival
		to string
	}
	var all []move
	for i := range b.Dirs {
		for _, a := range b.Dirs[i].Arriving {
			all = append(all, move{a, b.Dirs[i].Path})
		}
	}
	if len(all) == 0 {
		return nil
	}
	sorts.SortStable(all, func(x, y move) int { return cmp.Compare(y.Error, x.Error) })
	shown := all[:min(len(all), maxMoves)]
	table := region{by: "moves", caption: "Logs that move to another log directory of this broker, with the bytes that are copied"}
	return section("moves", "Moves between log directories", table.html(head("Partition", "From", "To", "Copied"),
		each(shown, func(x *move) g.Node {
			copied := bytesText(float64(x.Copied)) + " of " + bytesText(float64(x.Size))
			return h.Tr(block(
				rowHead(g.Text(name(x.String())), g.Iff(x.Error != "", func() g.Node { return small("stands still: " + prose(x.Error)) })),
				path(g.Text(name(x.From))), path(g.Text(name(x.to))), gauge(min(x.Copied, x.Size), x.Size, copied),
			))
		})),
		g.If(len(all) > len(shown), hint(to("/v1/dirs", strconv.Itoa(len(all)-len(shown))+" more"))))
}

func (b *overviewBody) disks() g.Node {
	table := region{by: "disks", caption: "Log directories with their free space, journal and disk syncs since the start"}
	return section("disks", "Log directories", table.html(head("Directory", "State", "Used", "Free|num", "Reserve|num opt", "Journal",
		"Partitions|num opt", "Sync p50|num", "p99|num"), each(b.Dirs, dirLine)))
}

func dirLine(d *view.Dir) g.Node {
	state := g.Text(d.State())
	if problem := d.Problem(); problem != "" {
		state = h.Span(h.Class("tag bad"), h.Title(prose(problem)), g.Text(d.State()))
	}
	bytes := func(n int64) string { return bytesText(float64(n)) }
	reserve := "none"
	if d.MinFree > 0 {
		reserve = bytes(d.MinFree)
	}
	sync := func(s float64) g.Node {
		return h.Td(h.Class("num"), or(d.SyncP99 > 0, func() string { return secondsText(s) }))
	}
	return h.Tr(block(
		h.Th(h.Scope("row"), h.Class("path"), g.Text(name(d.Path))),
		h.Td(state),
		gauge(d.Used(), d.Total, strconv.FormatFloat(percent(d.Used(), d.Total), 'f', -1, 64)+" % of "+bytes(d.Total)),
		h.Td(h.Class("num"), or(d.Total > 0, func() string { return bytes(d.Free) })),
		h.Td(h.Class("num opt"), g.Text(reserve)),
		gauge(d.JournalBytes, d.JournalLimit, bytes(d.JournalBytes)+" of "+bytes(d.JournalLimit)),
		h.Td(h.Class("num opt"), g.Text(strconv.Itoa(d.Logs)), g.Iff(d.Offline > 0, func() g.Node {
			return g.Group{space, tag("bad", strconv.Itoa(d.Offline)+" offline")}
		})),
		sync(d.SyncP50), sync(d.SyncP99),
	))
}

func (b *overviewBody) memory() g.Node {
	bytes := func(n int64) string { return bytesText(float64(n)) }
	heap := h.Td(h.Class("gauge"), h.Span(g.Text(bytes(b.Heap))))
	if b.MemoryLimit > 0 {
		heap = gauge(b.Heap, b.MemoryLimit, bytes(b.Heap)+" of "+bytes(b.MemoryLimit))
	}
	table := region{by: "memory", caption: "Memory budgets and how much of each is used"}
	return section("memory", "Memory budgets", table.html(head("Budget", "Used"), g.Group{
		each(b.Budgets, func(x *view.Budget) g.Node {
			return h.Tr(rowHead(g.Text(strings.ReplaceAll(x.Name, "_", " "))), h.Td(h.Class("gauge"), meter(percent(x.Used, x.Limit)),
				h.Span(g.Text(bytes(x.Used)+" of "+bytes(x.Limit)))))
		}),
		h.Tr(rowHead(g.Text("Go heap"), small("all of these and the rest")), heap), newline,
	}))
}

func (b *overviewBody) broker(v *layout) g.Node {
	addresses := g.Map(v.Addresses, func(a string) g.Node { return g.Group{h.Span(h.Class("path"), g.Text(a)), space} })
	count := func(address string, n int) g.Node { return to(address, strconv.Itoa(n)) }
	return section("broker", "Broker", facts("facts",
		factText("Version", v.Version),
		fact("Up for", g.Text(spanText(v.Now.Sub(v.Started))), small("since "+moment(v.Started))),
		fact("Listens on", addresses),
		fact("Durability", g.Iff(v.Profile.Name != "", func() g.Node {
			return g.Group{g.Text(v.Profile.Name), small("if the power fails, " + v.Profile.Promise())}
		})),
		fact("Topics", count("/topics", b.Topics), small("with "+text.Count(b.Partitions, "partition"))),
		fact("Groups", count("/groups", b.Groups)),
		fact("Connections", count("/connections", b.Connections)),
		g.Iff(b.Snapshots != nil, func() g.Node { return fact("Snapshots", snapshots(b.Snapshots, v.Now)) }),
	))
}
