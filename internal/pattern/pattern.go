package pattern

import (
	"errors"
	"regexp"
	"regexp/syntax"
)

// Bounds of programs.
const (
	// MaxBytes bounds an expression.
	MaxBytes = 16 << 10
	// MaxInstructions bounds the compiled program of an expression, which may take as many steps
	// for every byte of every name. A list of 300 names of 30 letters is within the bound.
	MaxInstructions = 10_000
	// MaxSteps bounds the steps of a program for all names: its instructions times their bytes.
	// They take about a second. An expression of Small instructions is accepted whatever the
	// number of names, since few programs take a step of each instruction for each byte.
	MaxSteps = 100_000_000
	Small    = 100
)

// Errors of Compile besides those of regexp/syntax.
var (
	ErrTooLarge = errors.New("expression too large")
	ErrTooSlow  = errors.New("it would take too many steps for the names that there are; use a shorter one")
)

// Compile compiles an expression that must match whole names, of so many bytes together, and
// returns the number of its instructions. It bounds the program before it builds anything.
func Compile(expression string, names int) (re *regexp.Regexp, n int, err error) {
	if len(expression) > MaxBytes {
		return nil, 0, ErrTooLarge
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, 0, err // refers to the client's own expression
	}
	switch n = instructions(parsed); {
	case n > MaxInstructions:
		return nil, n, ErrTooLarge
	case n > Small && n*names > MaxSteps:
		return nil, n, ErrTooSlow
	}
	re, err = regexp.Compile(`\A(?:` + expression + `)\z`)
	return re, n, err
}

// instructions returns a lower bound for the number of instructions of a parsed expression, with
// repetitions expanded. Large character classes count for more, because their ranges are stored. It
// stops as soon as the result exceeds MaxInstructions.
func instructions(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		if n += instructions(sub); n > MaxInstructions {
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
