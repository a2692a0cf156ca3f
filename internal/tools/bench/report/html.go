package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/tools/bench"
)

//go:embed page.html
var pageText string

// page holds the values of the template.
type page struct {
	Title, Clients, Load string
	Against              []string
	Legend               []Meaning
	Started, Elapsed     string
	Rates, Latencies     [][]string
	Remarks              []string
	Bad                  bool
	Plots                []drawing
	Settings             []setting
}

type drawing struct {
	Title string
	SVG   template.HTML
}

type setting struct{ Name, Value string }

// HTML writes r as one page: the configuration, the figures, and plots of throughput and latency
// over time and of the latency percentiles. It loads nothing from other sites and has no script.
func HTML(w io.Writer, r *bench.Result) error {
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return fmt.Errorf("parse the report's template: %w", err)
	}
	d := Of(r)
	settings, err := settingsOf(r.Config)
	if err != nil {
		return err
	}
	kind, _, _ := strings.Cut(d.Clients, ":")
	p := page{
		Title:   fmt.Sprintf("%s, clients %s", r.Config.Mode, kind),
		Clients: d.Clients, Load: LoadText(r.Config),
		Started: d.Started.Format(
			"2006-01-02 15:04:05 MST",
		), Elapsed: fmt.Sprintf("%.3f s, after %v of warm-up", d.Elapsed, r.Config.Warmup),
		Against: AgainstText(d.Against, d.Program), Legend: d.Legend, Remarks: remarks(d),
		Bad:      d.Verify != nil && d.Verify.Bad() || !r.Succeeded(),
		Settings: settings,
	}
	for _, f := range d.Flows {
		p.Rates = append(p.Rates, rateRow(f))
		if f.Name != bench.FlowReceived {
			p.Latencies = append(p.Latencies, latencyRow(f))
		}
	}
	p.Plots = plots(r, d)
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return fmt.Errorf("fill the report's template: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

// settingsOf lists every setting of c by its JSON name, in the order of the JSON.
func settingsOf(c bench.Config) ([]setting, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("list the settings: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("list the settings: %w", err)
	}
	var list []setting
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("list the settings: %w", err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("list the settings: %w", err)
		}
		list = append(list, settingOf(fmt.Sprint(name), string(value)))
	}
	return list, nil
}

// settingOf formats durations, which the JSON has in nanoseconds.
func settingOf(name, value string) setting {
	if short, ok := strings.CutSuffix(name, "_ns"); ok {
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			return setting{short, time.Duration(n).String()}
		}
	}
	return setting{name, strings.Trim(value, `"`)}
}

func plots(r *bench.Result, d Document) []drawing {
	list := []drawing{{"Throughput", throughput(d)}, {"Latency percentiles", percentiles(r)}}
	for _, f := range d.Flows {
		if f.Name == bench.FlowReceived {
			continue // it has no latency
		}
		list = append(list, drawing{"Latency over time: " + f.Name, overTime(f, d.Elapsed)})
	}
	return list
}

// nothing is the text of an empty plot.
const nothing = "nothing succeeded in the measured interval"

func draw(p plot) template.HTML {
	p.empty = nothing
	return template.HTML(p.svg()) //nolint:gosec // svg escapes every text and writes nothing else but numbers
}

func throughput(d Document) template.HTML {
	p := plot{xName: "seconds", yName: "records/s", xUnit: " s", yUnit: "/s", caption: "records per second over time"}
	high := 0.0
	for _, f := range d.Flows {
		l := line{name: f.Name}
		for _, at := range f.Series {
			if at.Width <= 0 {
				continue
			}
			v := float64(at.Records) / at.Width
			high = max(high, v)
			l.points = append(l.points, point{x: at.At, y: v, width: at.Width})
		}
		p.lines = append(p.lines, l)
	}
	p.x, p.y = linear(d.Elapsed), linear(high)
	return draw(p)
}

// percentileTicks is the number of points for each halving of the distance to 100 %.
const percentileTicks = 4

func percentiles(r *bench.Result) template.HTML {
	p := plot{xName: "percentile", yName: "latency, ms", caption: "latency by percentile"}
	var samples int64
	low, high := math.Inf(1), 0.0
	for _, f := range r.Flows() {
		if f.Latency != nil {
			samples = max(samples, f.Latency.TotalCount())
		}
	}
	p.x = nines(samples)
	for _, f := range r.Flows() {
		if f.Name == bench.FlowReceived {
			continue
		}
		l := line{name: f.Name}
		if f.Latency != nil && f.Latency.TotalCount() > 0 {
			for _, b := range f.Latency.CumulativeDistributionWithTicks(percentileTicks) {
				ms := float64(b.ValueAt) * micros(bench.LatencyUnit) / 1000
				x := p.x.max
				if b.Quantile < 100 {
					x = min(100/(100-b.Quantile), p.x.max)
				}
				low, high = min(low, ms), max(high, ms)
				l.points = append(l.points, point{x: x, y: ms, text: fmt.Sprintf("%.6g%%: %.3f ms", b.Quantile, ms)})
			}
		}
		p.lines = append(p.lines, l)
	}
	if high == 0 {
		low, high = 1, 10
	}
	p.y = decades(low, high)
	return draw(p)
}

func overTime(f Flow, elapsed float64) template.HTML {
	p := plot{
		xName:   "seconds",
		yName:   "latency, ms",
		xUnit:   " s",
		yUnit:   " ms",
		caption: "latency of " + f.Name + " over time",
		x:       linear(elapsed),
	}
	p50, p99, most := line{name: "p50"}, line{name: "p99"}, line{name: "max"}
	low, high := math.Inf(1), 0.0
	for _, at := range f.Series {
		if at.Max <= 0 {
			continue // nothing succeeded in this point
		}
		low, high = min(low, max(at.P50, 1)/1000), max(high, at.Max/1000)
		p50.points = append(p50.points, point{x: at.At, y: at.P50 / 1000, width: at.Width})
		p99.points = append(p99.points, point{x: at.At, y: at.P99 / 1000, width: at.Width})
		most.points = append(most.points, point{x: at.At, y: at.Max / 1000, width: at.Width})
	}
	if high == 0 {
		low, high = 1, 10
	}
	p.lines, p.y = []line{p50, p99, most}, decades(low, high)
	return draw(p)
}
