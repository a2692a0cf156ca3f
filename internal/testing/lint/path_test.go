package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/types"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// route is a way through the code that a table of docs/architecture.md describes.
type route struct {
	section    string // its heading
	begin, end string // the first file; what the last function mentions
	// carried are the types that take the work from package to package: a function of another
	// package that takes or returns one is a step, and must be in the table. So is a method of a
	// mover.
	carried, movers []string
	// through is what functions of the table mention themselves: work inside of a package, which
	// the calls between packages do not show.
	through []string
	// asides are such functions that are no step, with the reason.
	asides map[string]string
	// files bounds the files that a reader opens, those of rows with ↷ excluded.
	files int
}

func routes() []route {
	return []route{{
		section: "The write path", begin: "internal/broker/produce.go", end: "Datasync", files: 6,
		carried: []string{"internal/replica.Append", "internal/storage.Append", "internal/storage/journal.Entry"},
		movers: []string{"internal/groupcommit.Batch", "internal/groupcommit.Committer", "internal/groupcommit.Pusher",
			"internal/groupcommit.Syncer"},
		asides: map[string]string{
			"internal/network/request.go: Batch":                  "returns the batch that a request passes on",
			"internal/groupcommit/groupcommit.go: Empty":          "asks, and moves nothing",
			"internal/groupcommit/groupcommit.go: HandOff":        "its caller must not wait: the journal's own goroutine writes",
			"internal/replica/stream/follower_read.go: commit":    "records that a leader sent",
			"internal/storage/accept.go: refuse":                  "the log refuses the append",
			"internal/storage/journal/writer.go: Wake":            "of HandOff: the journal's own goroutine writes",
			"internal/storage/flush_sweep.go: carry":              "writes records that were acknowledged before into the journal again",
			"internal/replica/follow.go: AppendReplicated":        "records that a leader sends",
			"internal/replica/follow.go: OffsetsAssigned":         "the outcome of AppendReplicated",
			"internal/archive/restore/append.go: OffsetsAssigned": "the outcome of append in a restore",
		},
	}, {
		section: "The read path", begin: "internal/broker/fetch.go", end: "WriteTo", files: 10,
		carried: []string{"internal/replica.ReadRequest", "internal/replica.ReadResult", "internal/storage.Slice",
			"internal/storage/segment.Loan", "internal/network.FileBytes"},
		movers:  []string{"internal/purgatory.Purgatory", "internal/purgatory.Op", "internal/purgatory.ClientOp"},
		through: []string{"ReadAt", "CheckCRC"},
		asides: map[string]string{
			"internal/replica/manager.go: Purgatory":           "returns the purgatory",
			"internal/storage/read.go: Read":                   "Lend for a connection that cannot send bytes of files",
			"internal/storage/aborted.go: AbortedInMemory":     "AbortedIn for ReadMemory",
			"internal/coordinator/service/log.go: TryComplete": "a coordinator's append that waits",
			"internal/coordinator/service/log.go: Expire":      "a coordinator's append that waits",
			"internal/shareleader/partition.go: TryComplete":   "wakes the fetches of share groups",
			"internal/shareleader/partition.go: Expire":        "the broker stops",
			"internal/broker/share_op.go: turns":               "counts the bytes for a fetch of a share group",
			"internal/broker/share_operate.go: preview":        "reads the records that an operator of a share group inspects",
			"internal/replica/partition.go: Reverted":          "the log lost records: fetches that wait end with an error",
			"internal/replica/partition.go: StartMoved":        "fetches below the new log start end with an error",
			"internal/replica/partition.go: Truncated":         "the log lost records: fetches that wait end with an error",
			"internal/replica/partition.go: retire":            "another broker leads: fetches that wait end with an error",
		},
	}}
}

// step is a row of a table: functions of one file that call one another.
type step struct {
	file    string
	funcs   []string
	returns bool // ⏎: another caller begins the next step
	side    bool // ↷: not every request takes the step
}

func (s step) has(f fn) bool { return s.file == f.file && slices.Contains(s.funcs, f.name) }

var pathRow = regexp.MustCompile("(?m)^\\| (↷ )?`([^`]+\\.go)` \\| ([^|]+) \\|")

// section returns the text under a heading.
func section(page, heading string) string {
	_, text, _ := strings.Cut(page, "\n## "+heading+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// steps reads the table of a section.
func steps(page, heading string) (all []step) {
	for _, row := range pathRow.FindAllStringSubmatch(section(page, heading), -1) {
		s := step{file: row[2], returns: strings.Contains(row[3], "⏎"), side: row[1] != ""}
		for i, name := range strings.Split(row[3], "`") {
			if i%2 == 1 {
				s.funcs = append(s.funcs, name)
			}
		}
		all = append(all, s)
	}
	return all
}

// of returns the functions with a file and a name.
func (c *calls) of(f fn) []*types.Func { return c.at[f] }

// leads reports whether one function mentions another.
func (c *calls) leads(from, to fn) bool {
	for _, f := range c.of(from) {
		for _, t := range c.to[f] {
			if c.decls[t.to] == to {
				return true
			}
		}
	}
	return false
}

// breaks returns the places at which the steps do not lead from the first one to the end.
func (r route) breaks(c *calls, all []step) (wrong []string) {
	if len(all) == 0 || all[0].file != r.begin {
		return []string{"the table does not begin with " + r.begin}
	}
	var last *step // that is no side step
	for i := range all {
		s := &all[i]
		for k, name := range s.funcs {
			at := fn{s.file, name}
			switch {
			case len(c.of(at)) == 0:
				wrong = append(wrong, fmt.Sprintf("%s has no function %s", s.file, name))
			case k > 0 && !c.leads(fn{s.file, s.funcs[k-1]}, at):
				wrong = append(wrong, fmt.Sprintf("%s: %s does not lead to %s", s.file, s.funcs[k-1], name))
			case k > 0 || i == 0 || s.side && all[i-1].returns || !s.side && last.returns:
			case !s.side:
				if from := (fn{last.file, last.funcs[len(last.funcs)-1]}); !c.leads(from, at) {
					wrong = append(wrong, fmt.Sprintf("%s does not lead to %s", from, at))
				}
			case !c.fromAny(all[:i], at):
				wrong = append(wrong, fmt.Sprintf("no step above leads to %s", at))
			}
		}
		if len(s.funcs) == 0 {
			return append(wrong, s.file+" is in the table without a function")
		}
		if !s.side {
			last = s
		}
	}
	for _, name := range r.through {
		if !slices.ContainsFunc(all, func(s step) bool {
			return slices.ContainsFunc(s.funcs, func(f string) bool { return c.mentions(fn{s.file, f}, name) })
		}) {
			wrong = append(wrong, "no step calls "+name)
		}
	}
	end := fn{last.file, last.funcs[len(last.funcs)-1]}
	if !c.mentions(end, r.end) {
		wrong = append(wrong, fmt.Sprintf("%s does not lead to %s", end, r.end))
	}
	return wrong
}

// mentions reports whether a function mentions a name itself.
func (c *calls) mentions(f fn, name string) bool {
	return slices.ContainsFunc(c.of(f), func(f *types.Func) bool { return slices.Contains(c.all[f], name) })
}

// fromAny reports whether a function of the steps leads to f.
func (c *calls) fromAny(all []step, f fn) bool {
	for _, s := range all {
		for _, name := range s.funcs {
			if c.leads(fn{s.file, name}, f) {
				return true
			}
		}
	}
	return false
}

// carries reports whether a function takes the work on.
func (r route) carries(f *types.Func) bool {
	sig := f.Signature()
	if sig.Recv() != nil && isOne(sig.Recv().Type(), r.movers) {
		return true
	}
	for _, tuple := range []*types.Tuple{sig.Params(), sig.Results()} {
		for v := range tuple.Variables() {
			if isOne(v.Type(), r.carried) || isOne(v.Type(), r.movers) {
				return true
			}
		}
	}
	return false
}

// missing returns the steps that the code has and the table lacks. A step is a function of another
// package that a listed one mentions, itself or through others of its package, and that carries the
// work. If other packages call a listed function, one of the callers is a step, and all of those
// that belong to a package in the table.
func (r route) missing(c *calls, all []step) (wrong []string) {
	listed := func(f fn) bool { return slices.ContainsFunc(all, func(s step) bool { return s.has(f) }) }
	used := map[string]bool{}
	known := func(f fn) bool {
		used[f.String()] = true
		return listed(f) || r.asides[f.String()] != ""
	}
	callers := map[fn][]fn{} // by a function that carries, those of other packages
	for from, at := range c.decls {
		for _, m := range c.to[from] {
			if f := c.decls[m.to]; m.to.Pkg() != from.Pkg() && r.carries(m.as) && !slices.Contains(callers[f], at) {
				callers[f] = append(callers[f], at)
			}
		}
	}
	rooms := map[string]bool{}
	for _, s := range all {
		rooms[path.Dir(s.file)] = true
	}
	for i, s := range all {
		for _, name := range s.funcs {
			at := fn{s.file, name}
			for _, to := range r.next(c, at, listed) {
				if !known(to) {
					wrong = append(wrong, fmt.Sprintf("%s leads to %s, which the table lacks", at, to))
				}
			}
			if from := callers[at]; i > 0 && len(from) > 0 && !slices.ContainsFunc(from, listed) {
				wrong = append(wrong, fmt.Sprintf("the table lacks what calls %s", at))
			}
			for _, from := range callers[at] {
				if rooms[path.Dir(from.file)] && !known(from) {
					wrong = append(wrong, fmt.Sprintf("the table lacks %s, which leads to %s", from, at))
				}
			}
		}
	}
	for name := range r.asides {
		if !used[name] {
			wrong = append(wrong, "no step leads to the aside "+name)
		}
	}
	slices.Sort(wrong)
	return slices.Compact(wrong)
}

// next returns the functions of other packages that carry the work on from a function, itself or
// through functions of its package that are not listed.
func (r route) next(c *calls, at fn, listed func(fn) bool) (all []fn) {
	seen := map[*types.Func]bool{}
	todo := c.of(at)
	for len(todo) > 0 {
		f := todo[0]
		if todo = todo[1:]; seen[f] {
			continue
		}
		seen[f] = true
		for _, m := range c.to[f] {
			switch to := c.decls[m.to]; {
			case !r.carries(m.as):
			case m.to.Pkg() != f.Pkg():
				all = append(all, to)
			case !listed(to):
				todo = append(todo, m.to)
			}
		}
	}
	return all
}

// described returns what a page says wrongly of a route, given the calls of the code.
func (r route) described(c *calls, page string) (wrong []string) {
	all := steps(page, r.section)
	return append(r.breaks(c, all), r.missing(c, all)...)
}

// The tables of the paths are whole, and describe the code.
func TestPathsAreAsDescribed(t *testing.T) {
	page, err := os.ReadFile("../../../docs/architecture.md")
	must.OK(t, err)
	var known []string
	for _, r := range routes() {
		known = append(append(known, r.carried...), r.movers...)
	}
	c, err := callsOf(packages(t), known)
	must.OK(t, err)
	for _, r := range routes() {
		for _, w := range r.described(c, string(page)) {
			t.Errorf("docs/architecture.md, %s: %s", r.section, w)
		}
		var files []string
		for _, s := range steps(string(page), r.section) {
			if !s.side && !slices.Contains(files, s.file) {
				files = append(files, s.file)
			}
		}
		if len(files) > r.files {
			t.Errorf("%s leads through %d files, more than %d: %v", r.section, len(files), r.files, files)
		}
		// Every row is needed: without it, the table is wrong.
		rows := pathRow.FindAllString(section(string(page), r.section), -1)
		for _, row := range rows {
			if len(r.described(c, strings.Replace(string(page), row, "", 1))) == 0 {
				t.Errorf("docs/architecture.md, %s: nothing is missing without the row %s", r.section, row)
			}
		}
	}
}

// fixture is a path through three packages: a handler puts work into a batch, which a loop runs.
var fixture = map[string]string{
	"internal/batch": `
		type Batch struct{ all []Work }
		type Work interface { Do() }
		func (b *Batch) Add(w Work) { b.all = append(b.all, w) }
		func (b *Batch) Run() { for _, w := range b.all { w.Do() } }
		func (b *Batch) Len() int { return len(b.all) }`,
	"internal/log": `
		import "github.com/chronik-io/chronik/internal/batch"
		type Log struct{}
		func (l *Log) Append(b *batch.Batch) { l.queue(b) }
		func (l *Log) queue(b *batch.Batch) { note(b); b.Add(l) }
		func note(b *batch.Batch) { _ = b.Len() }
		func (l *Log) Do() { sync() }
		func sync() { Datasync() }
		func Datasync() {}`,
	"internal/handler": `
		import ("github.com/chronik-io/chronik/internal/batch"; "github.com/chronik-io/chronik/internal/log")
		func handle(l *log.Log, b *batch.Batch) { l.Append(b) }
		func loop(b *batch.Batch) { b.Run() }`,
}

const fixtureTable = `
## Path
| ` + "`internal/handler/x.go` | `handle`" + ` | |
| ` + "`internal/log/x.go` | `Append` → `queue`" + ` | |
| ` + "`internal/batch/x.go` | `Add` ⏎" + ` | |
| ` + "`internal/handler/x.go` | `loop`" + ` | |
| ` + "`internal/batch/x.go` | `Run`" + ` | |
| ` + "`internal/log/x.go` | `Do` → `sync`" + ` | |
## Next
| ` + "`x.go` | `x`" + ` | |
`

// Import implements types.Importer.
type imports map[string]*types.Package

func (i imports) Import(path string) (*types.Package, error) { return i[path], nil }

func TestABreakInThePathIsFound(t *testing.T) {
	c, done := newCalls(), imports{}
	for _, name := range []string{"internal/batch", "internal/log", "internal/handler"} {
		file, err := parser.ParseFile(c.fset, name+"/x.go", "package "+path.Base(name)+"\n"+fixture[name], parser.SkipObjectResolution)
		must.OK(t, err)
		if done[module+"/"+name], err = c.check(module+"/"+name, []*ast.File{file}, true, done); err != nil {
			t.Fatal(err)
		}
	}
	c.examine()
	r := route{section: "Path", begin: "internal/handler/x.go", end: "Datasync",
		movers: []string{"internal/batch.Batch", "internal/batch.Work"}, asides: map[string]string{"internal/batch/x.go: Len": "asks"}}
	replace := func(old, new string) string { return strings.Replace(fixtureTable, old, new, 1) }
	for _, c2 := range []struct{ what, page, wrong string }{
		{"nothing", fixtureTable, ""},
		{"the table", "", "does not begin with"},
		{"a return", replace(" ⏎", ""), "Add does not lead to"},
		{"a function", replace("`sync`", "`absent`"), "has no function absent"},
		{"an order", replace("`Do` → `sync`", "`sync` → `Do`"), "sync does not lead to Do"},
		{"the end", replace("`Do` → `sync`", "`Do`"), "does not lead to Datasync"},
		{"a step", replace("| `internal/batch/x.go` | `Add` ⏎ | |\n", ""), "queue leads to internal/batch/x.go: Add"},
		{"a step of an interface", replace("| `internal/log/x.go` | `Do` → `sync` | |\n", ""), "Run leads to internal/log/x.go: Do"},
		{"who begins after a return", replace("| `internal/handler/x.go` | `loop` | |\n", ""),
			"the table lacks what calls internal/batch/x.go: Run"},
	} {
		got := strings.Join(r.described(c, c2.page), "\n")
		if c2.wrong == "" && got != "" || !strings.Contains(got, c2.wrong) {
			t.Errorf("without %s: %q, want %q", c2.what, got, c2.wrong)
		}
	}
	r.asides = map[string]string{"internal/log/x.go: absent": "is no function"}
	got := strings.Join(r.described(c, fixtureTable), "\n")
	for _, want := range []string{"queue leads to internal/batch/x.go: Len", "no step leads to the aside internal/log/x.go: absent"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
