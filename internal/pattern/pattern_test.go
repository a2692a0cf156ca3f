package pattern

import (
	"errors"
	"regexp/syntax"
	"runtime"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// An expression with millions of instructions is refused before it is compiled.
func TestLargeExpressionIsCheapToRefuse(t *testing.T) {
	for _, expression := range []string{
		"(" + strings.Repeat("x", 300) + "){1000}", "(" + strings.Repeat("x", 3000) + "){1000}", "(((a{1,10}){1,10}){1,10}){1,10}",
		strings.Repeat("(ab?){900}", 20), "(x{2,}){900}y{900,}(a|b|c|d|e|f|g|h|i){800}", strings.Repeat(`[\pL\pN_-]`, 300),
	} {
		if used := allocated(func() {
			if _, _, err := Compile(expression, 0); err == nil {
				t.Errorf("%.40s is accepted", expression)
			}
		}); used > 8<<20 {
			t.Errorf("%.40s: %d bytes were allocated", expression, used)
		}
	}
}

// instructions never returns less than the size of the compiled program, so no program exceeds the
// bound.
func TestInstructionsAreNotUndercounted(t *testing.T) {
	for _, expression := range []string{
		"", "a", "abc", "a|b", "(a|bc|)", "a*", "a+?", "(a*)+", "x{5}", "x{0,5}", "x{3,}", "x{0,}",
		"(ab){2,7}", "((a{2,3}){4}|[a-z]{5}){3}", "^a$", `\bfoo\B`, ".*",
		"(?i)abc", "(?s).", `[^a]`, `\pL+`, "a{0}", "(a|b|c){3}d", "abc|abd|acd", "(?:)", "(a?){20}", "(x{2,}){9}",
	} {
		parsed, err := syntax.Parse(expression, syntax.Perl)
		must.OK(t, err)
		prog, err := syntax.Compile(parsed.Simplify())
		must.OK(t, err)
		// A program has one instruction that fails and one that matches. A repetition that is empty
		// or unbounded has one more.
		if n := instructions(parsed); n+3 < len(prog.Inst) {
			t.Errorf("%q: %d instructions, counted are %d", expression, len(prog.Inst), n)
		}
	}
}

// The steps of an expression are bounded for the names that there are, unless it is small.
func TestTheStepsOfAnExpressionAreBounded(t *testing.T) {
	const names = 30_000 // bytes: 1,000 topics
	slow := strings.Repeat(".?", 2000)
	for _, x := range []struct {
		expression string
		names      int
		want       error
	}{{slow, names, ErrTooSlow}, {slow, names / 10, nil}, {"orders-.*", 1000 * names, nil}, {strings.Repeat("x", 300), 300_000, nil}} {
		if _, _, err := Compile(x.expression, x.names); !errors.Is(err, x.want) {
			t.Errorf("%.20q for %d bytes: %v, want %v", x.expression, x.names, err, x.want)
		}
	}
}

// allocated returns how many bytes a call allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
