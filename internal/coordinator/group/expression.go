package group

import (
	"context"
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// maxInstructions bounds the compiled program of an expression, which may take as many steps for
// every byte of every topic name. A list of 300 names of 30 letters is within the bound.
const maxInstructions = 10_000

// maxExpression bounds an expression in bytes: a group records it together with its viewer.
const maxExpression = 16 << 10

var errTooLarge = errors.New("expression too large")

// Compile compiles a client's regular expression (RE2) that must match a whole name. It bounds the
// program before it builds anything: three kilobytes can ask for three million instructions.
func Compile(expression string) (*regexp.Regexp, error) {
	if len(expression) > maxExpression {
		return nil, errTooLarge
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err // refers to the member's own expression
	}
	if instructions(parsed) > maxInstructions {
		return nil, errTooLarge
	}
	return regexp.Compile(`\A(?:` + expression + `)\z`)
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

// matching returns the visible topic names that an expression matches, sorted. It returns early
// when ctx ends.
func matching(ctx context.Context, re *regexp.Regexp, topics Topics, visible func(string) bool) (list []string) {
	for name := range topics.Names() {
		if ctx.Err() != nil {
			return nil
		}
		if re.MatchString(name) && visible(name) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
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
