package group

import (
	"context"
	"errors"
	"iter"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// maxInstructions bounds the compiled program of an expression, which may take as many steps for
// every byte of every topic name. A list of 300 names of 30 letters is within the bound.
const maxInstructions = 10_000

// maxSteps bounds the steps of a program for all names: its instructions times their bytes. They
// take about a second. An expression of smallProgram instructions is accepted whatever the number
// of names, since few programs take a step of each instruction for each byte.
const (
	maxSteps     = 100_000_000
	smallProgram = 100
)

// maxExpression bounds an expression in bytes: a group records it together with its viewer.
const maxExpression = 16 << 10

var (
	errTooLarge = errors.New("expression too large")
	errTooSlow  = errors.New("it would take too many steps for the names that there are; use a shorter one")
)

// Compile compiles a client's regular expression (RE2) that must match whole names, of so many
// bytes together. It bounds the program before it builds anything: three kilobytes can ask for
// three million instructions.
func Compile(expression string, names int) (*regexp.Regexp, error) {
	re, _, err := compile(expression, names)
	return re, err
}

// compile is Compile, and returns the number of instructions, too.
func compile(expression string, names int) (re *regexp.Regexp, n int, err error) {
	if len(expression) > maxExpression {
		return nil, 0, errTooLarge
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, 0, err // refers to the member's own expression
	}
	switch n = instructions(parsed); {
	case n > maxInstructions:
		return nil, n, errTooLarge
	case n > smallProgram && n*names > maxSteps:
		return nil, n, errTooSlow
	}
	re, err = regexp.Compile(`\A(?:` + expression + `)\z`)
	return re, n, err
}

// instructions returns a lower bound for the number of instructions of a parsed expression, with
// repetitions expanded. Large character classes count for more, because their ranges are stored. It
// stops as soon as the result exceeds maxInstructions.
func instructions(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		if n += instructions(sub); n > maxInstructions {
			return n
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		return max(len(re.Rune), 1)
	case syntax.OpCharClass:
		return 1 + len(re.Rune)/rangesPerInstruction
	case syntax.OpRepeat:
		times := re.Max
		if times < 0 { // no upper bound: a loop after the minimum
			times = re.Min + 1
		}
		return max(times, 1) * (n + 1)
	case syntax.OpConcat:
		return max(n, 1)
	case syntax.OpAlternate:
		return n + len(re.Sub)
	case syntax.OpCapture:
		return n + 2
	}
	return n + 1
}

// rangesPerInstruction is about how many range bounds occupy the memory of an instruction.
const rangesPerInstruction = 16

// matching returns the visible ones of some names that an expression matches, sorted. An error
// means that ctx has ended.
func matching(ctx context.Context, re *regexp.Regexp, names iter.Seq[string], visible func(string) bool) (list []string, err error) {
	for name := range names {
		if re.MatchString(name) && visible(name) {
			list = append(list, name)
		}
		if coordinator.Pause(ctx); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	slices.Sort(list)
	return list, nil
}

// sizeOf returns how many bytes names have together.
func sizeOf(names iter.Seq[string]) (n int) {
	for name := range names {
		n += len(name)
	}
	return n
}

// truncateExpression returns an expression as it is quoted in a response.
func truncateExpression(expression string) string {
	if len(expression) <= maxShown {
		return expression
	}
	return strings.ToValidUTF8(expression[:maxShown], "") + "…"
}

const maxShown = 1 << 10

// reason returns the reason why an expression is invalid, without the expression.
func reason(err error) string {
	var e *syntax.Error
	if errors.As(err, &e) {
		return e.Code.String()
	}
	return err.Error()
}
