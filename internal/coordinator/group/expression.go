package group

import (
	"context"
	"errors"
	"iter"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/text"
)

// matchNames returns the visible ones of some names that an expression matches, sorted. An error
// means that ctx has ended.
func matchNames(ctx context.Context, re *regexp.Regexp, names iter.Seq[string], visible func(string) bool) (list []string, err error) {
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
	return text.Cut(expression, maxShown) + "…"
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
