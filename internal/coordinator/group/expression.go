package group

import (
	"context"
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// maxInstructions bounds the program that an expression becomes. It may take as many
// steps for every byte of every topic's name. Written out, 300 names of 30 letters are
// within it.
const maxInstructions = 10_000

var errTooLarge = errors.New("expression too large")

// compile makes a regular expression (RE2) that has to match a whole name. What it
// becomes is bounded before anything is made of it: three kilobytes can ask for three
// million instructions.
func compile(expression string) (*regexp.Regexp, error) {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err // in the member's own words
	}
	if instructions(parsed) > maxInstructions {
		return nil, errTooLarge
	}
	return regexp.Compile(`\A(?:` + expression + `)\z`)
}

// instructions is at least how many instructions a parsed expression becomes, repetitions
// written out. Large classes of letters count for more, since their ranges are kept. It
// goes no further than it takes to be too many.
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
		if times < 0 { // no upper bound: a loop after the least number
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

// rangesPerInstruction is how many bounds of ranges take the memory of an instruction,
// about.
const rangesPerInstruction = 16

// matching are the names that an expression matches, sorted. It ends early with ctx.
func matching(ctx context.Context, re *regexp.Regexp, topics Topics) (list []string) {
	for name := range topics.Names() {
		if ctx.Err() != nil {
			return nil
		}
		if re.MatchString(name) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// shortened is an expression as an answer repeats it.
func shortened(expression string) string {
	if len(expression) <= maxShown {
		return expression
	}
	return strings.ToValidUTF8(expression[:maxShown], "") + "…"
}

const maxShown = 1 << 10

// wrong is what is wrong with an expression, without the expression.
func wrong(err error) string {
	var e *syntax.Error
	if errors.As(err, &e) {
		return e.Code.String()
	}
	return err.Error()
}
